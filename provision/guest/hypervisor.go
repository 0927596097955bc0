package guest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// Hypervisor is what the hypervisors on Linux have in common: each runs in the
// control group of its environment and, where there is a network, owns one tap
// device in the namespace of the experiment. Its value is the hypervisor's name.
type Hypervisor string

// leftover is what Reap needs to know beyond a lease. It is stored in the
// environment's directory.
type leftover struct {
	Namespace string `json:"namespace"`
}

func (h Hypervisor) stateFile(dir string) string { return path.Join(dir, string(h)+".json") }

// Hosted is a Machine of a Hypervisor.
type Hosted struct {
	Machine
	hypervisor Hypervisor
	// Pause freezes the guest (true) or lets it run again; nil freezes the
	// control group of the hypervisor.
	Pause func(ctx context.Context, frozen bool) error
	// NoTap leaves out the tap: the hypervisor only runs in the namespace of the
	// experiment.
	NoTap bool
}

var (
	_ driver.Freezer = (*Hosted)(nil)
	_ driver.Meter   = (*Hosted)(nil)
)

// New begins a machine of d. It fails if a live one has the label, and removes
// what a dead one left.
func (h Hypervisor) New(ctx context.Context, d driver.Driver, host conn.Conn, spec driver.Spec) (*Hosted, error) {
	e := New(d, host, spec)
	found, err := h.Reap(ctx, host, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	for _, f := range found {
		if strings.HasPrefix(f, "process ") {
			err = fault.WithFix(fault.New(fault.Lab, "another environment with this label is still running: %s", f),
				"run `bakeoff clean`")
		}
	}
	if err == nil && len(found) > 0 {
		err = e.Remove(ctx)
	}
	return &Hosted{Machine: Machine{e}, hypervisor: h}, e.Refuse(err)
}

// Launch creates the control group and the tap of the machine, and starts its
// hypervisor in them.
func (m *Hosted) Launch(ctx context.Context, cmd conn.Cmd) (*Process, error) {
	layout, err := cgroup.Detect(ctx, m.Host)
	if err != nil {
		return nil, err
	}
	if m.Group, err = layout.Create(ctx, m.Host, m.Spec.Label, groupLimits(m.Spec)); err != nil {
		return nil, err
	}
	m.Properties.Limits, m.Properties.OwnKernel = machineLimits(m.Group, m.Spec), true
	if n := m.Spec.Network; n != nil && !m.NoTap {
		err := m.hypervisor.rememberTap(ctx, m.Host, m.Spec)
		if err == nil {
			err = netns.AttachTap(ctx, m.Host, *n, m.Spec.Label)
		}
		if err != nil {
			return nil, err
		}
	}
	host, cmd, err := m.confined(cmd)
	if err != nil {
		return nil, err
	}
	m.Saw(bootmodel.MarkHypervisor, "bakeoff started the process of "+string(m.hypervisor), 0)
	p := StartProcess(ctx, host, m.What, cmd, nil)
	m.ownProcess(p)
	return p, nil
}

// confined is cmd in the control group, the network namespace and the directory of the
// machine. On the controller's own machine no agent starts for that.
func (m *Hosted) confined(cmd conn.Cmd) (host conn.Conn, _ conn.Cmd, err error) {
	cmd.Group = m.Group.StartDir()
	if l, ok := m.Host.(local.Conn); ok {
		if n := m.Spec.Network; n != nil {
			l.Netns = n.Namespace
		}
		cmd.Dir = m.Spec.Dir
		cmd.Argv, err = m.Group.Join(cmd.Argv)
		return l, cmd, err
	}
	enter := append([]string{m.Spec.Agent, "enter"}, m.Group.EnterArgs()...)
	if n := m.Spec.Network; n != nil {
		enter = append(enter, "--netns", n.Namespace)
	}
	cmd.Argv = append(append(enter, "--dir", m.Spec.Dir, "--"), cmd.Argv...)
	return m.Host, cmd, nil
}

// Freeze stops the guest.
func (m *Hosted) Freeze(ctx context.Context) error { return m.setFrozen(ctx, true) }

// Thaw lets it run again.
func (m *Hosted) Thaw(ctx context.Context) error { return m.setFrozen(ctx, false) }

// setFrozen stops the guest or lets it run again. A frozen agent need not answer.
func (m *Hosted) setFrozen(ctx context.Context, frozen bool) (err error) {
	rest := func(frozen bool) {
		if m.Conn != nil {
			m.Conn.Rest(frozen)
		}
	}
	if frozen {
		rest(true)
	}
	switch {
	case m.Pause != nil:
		err = m.Pause(ctx, frozen)
	case frozen:
		err = m.Group.Freeze(ctx)
	default:
		err = m.Group.Thaw(ctx)
	}
	if frozen == (err != nil) { // it runs
		rest(false)
	}
	return err
}

// Usage is what the hypervisor has used for the guest and for itself.
func (m *Hosted) Usage(ctx context.Context) (facts.Scope, error) { return m.Group.Usage(ctx) }

// rememberTap writes down, before the tap is created, what Reap will need.
func (h Hypervisor) rememberTap(ctx context.Context, host conn.Conn, spec driver.Spec) error {
	text, err := json.Marshal(leftover{spec.Network.Namespace})
	if err != nil {
		return err
	}
	return host.Push(ctx, h.stateFile(spec.Dir), 0o600, bytes.NewReader(text))
}

// Reap removes the control group of an environment with the processes in it,
// and its tap, and returns what it found; with dryRun it only looks. A step
// that fails does not stop the next one.
func (h Hypervisor) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	layout, err := cgroup.Detect(ctx, host)
	if fault.Is(err, fault.Unsupported) {
		return nil, nil // without control groups nothing was created
	}
	if err != nil {
		return nil, err
	}
	group, gerr := h.reapGroup(ctx, host, layout, left.Label, dryRun)
	tap, terr := h.reapTap(ctx, host, left, dryRun)
	pools, verr := reapVolumes(ctx, host, left.Dir, dryRun)
	return slices.Concat(group, tap, pools), errors.Join(gerr, terr, verr)
}

func (h Hypervisor) reapGroup(ctx context.Context, host conn.Conn, layout cgroup.Layout, label string,
	dryRun bool) (found []string, err error) {
	dirs, err := layout.Find(ctx, host, label)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	group, err := layout.Adopt(ctx, host, label, cgroup.Limits{})
	if err == nil {
		var pids []int
		pids, err = group.PIDs(ctx)
		for _, pid := range pids {
			found = append(found, fmt.Sprintf("process %d %s", pid, h))
		}
	}
	for _, d := range dirs {
		found = append(found, "control group "+d)
	}
	if err == nil && !dryRun {
		err = group.Remove(ctx)
	}
	return found, err
}

func (h Hypervisor) reapTap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	namespace, err := h.namespace(ctx, host, left.Dir)
	if namespace == "" || err != nil {
		return nil, err
	}
	if there, err := netns.Exists(ctx, host, namespace); !there || err != nil {
		return nil, err // the devices of a namespace are removed with it
	}
	tap := netns.Tap(left.Label)
	if there, err := netns.HasLink(ctx, host, namespace, tap); !there || err != nil {
		return nil, err
	}
	if !dryRun {
		err = netns.DetachTap(ctx, host, namespace, left.Label)
	}
	return []string{fmt.Sprintf("tap %s in namespace %s", tap, namespace)}, err
}

// reapVolumes removes the pools and datasets with the disks of a machine, after the machine.
func reapVolumes(ctx context.Context, host conn.Conn, dir string, dryRun bool) ([]string, error) {
	if !path.IsAbs(dir) || path.Clean(dir) == "/" {
		return nil, nil // a lease without a folder has no volumes
	}
	mounts, err := volume.Mounts(ctx, host, dir)
	if err != nil {
		return nil, err
	}
	found, err := volume.Left(ctx, host, dir)
	for _, m := range mounts {
		found = append(found, "mount "+m)
	}
	if err != nil || dryRun || len(found) == 0 {
		return found, err
	}
	return found, volume.Close(ctx, host, dir)
}

// namespace reads what RememberTap wrote; "" where it wrote nothing.
func (h Hypervisor) namespace(ctx context.Context, host conn.Conn, dir string) (string, error) {
	file := h.stateFile(dir)
	text, err := conn.FilesOf(host).ReadFile(ctx, file)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var l leftover
	if err := json.Unmarshal(text, &l); err != nil {
		return "", fault.Wrap(fault.Lab, file, err)
	}
	if strings.ContainsAny(l.Namespace, "/ \n") || strings.HasPrefix(l.Namespace, "-") {
		return "", fault.New(fault.Lab, "%s: %q is not the name of a namespace", file, l.Namespace)
	}
	return l.Namespace, nil
}

// maxSocketPath is the longest path of a Unix socket on Linux, in bytes (unix(7), without
// the closing zero).
const maxSocketPath = 107

// CheckSocketDir refuses a directory whose path is too long for sockets in it. Their names
// have one byte.
func CheckSocketDir(dir string) error {
	if len(path.Clean(dir))+len("/x") <= maxSocketPath {
		return nil
	}
	return fault.WithFix(fault.New(fault.Lab, "the path %s is too long for a socket", dir),
		"set BAKEOFF_STATE to a shorter path")
}

// groupLimits are the limits of a hypervisor's control group. The size of the
// guest is the limit of its memory: the hypervisor needs some more for itself.
func groupLimits(spec driver.Spec) cgroup.Limits {
	return cgroup.Limits{CPUSet: spec.CPUSet, Quota: spec.Quota,
		IO: cgroup.IO{Read: spec.Read, Write: spec.Write, Dir: spec.Dir}}
}

// machineLimits are what a machine in group enforces.
func machineLimits(group *cgroup.Group, spec driver.Spec) facts.Limits {
	limits := group.Limits()
	limits.Memory = &spec.Memory
	delete(limits.NotEnforced, "memory")
	return limits
}

// InitConfig is what the agent does as init of a guest with the root and the
// volumes on block devices; serials has the serial numbers of the volumes' by
// index, "" for a volume in memory.
func InitConfig(spec driver.Spec, port, root string, serials []string) wire.InitConfig {
	c := wire.InitConfig{Schema: wire.InitSchema, Port: port, Root: root, RootType: "ext4", Hostname: "guest"}
	for i, v := range spec.Volumes {
		iv := wire.InitVolume{Path: v.Path, Serial: serials[i]}
		iv.Type, iv.Options = volume.MountType(v)
		if v.Backing == volume.Tmpfs {
			iv = wire.InitVolume{Path: v.Path, Type: "tmpfs", Size: v.Size}
		}
		if v.Backing == volume.NFS && v.Server != nil {
			iv.Serial = ""
			iv.Source, iv.Options = v.Server.Export(v)
		}
		c.Volumes = append(c.Volumes, iv)
	}
	if n := spec.Network; n != nil {
		c.Network = &wire.InitNetwork{MAC: n.MAC, Addr: n.Addr}
	}
	for name, value := range spec.Tuning {
		c.Sysctl = append(c.Sysctl, wire.InitSetting{Name: name, Value: value})
	}
	slices.SortFunc(c.Sysctl, func(a, b wire.InitSetting) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// Backings are those of a guest whose volumes are block devices, which its kernel mounts.
func Backings() []string {
	all := volume.Backings()
	return slices.DeleteFunc(all, func(b string) bool { return b == volume.Dir || b == volume.NFS })
}

// FileSystems are the file systems of a guest's volumes, by the names of their modules,
// besides ext4, which also mounts ext3.
func FileSystems(spec driver.Spec) (modules []string) {
	for _, v := range spec.Volumes {
		kind, _ := volume.MountType(v)
		switch {
		case v.Backing == volume.NFS:
			modules = append(modules, "nfs", "nfsv4")
		case v.Backing != volume.Tmpfs && kind != "ext4" && kind != "ext3":
			modules = append(modules, kind)
		}
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

// Initramfs has the agent at q.Agent on host write an initial RAM disk.
func Initramfs(ctx context.Context, host conn.Conn, q wire.InitramfsRequest) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	var r wire.InitramfsResult
	return askAgent(ctx, host, conn.Cmd{Argv: []string{q.Agent, "initramfs"}, Stdin: bytes.NewReader(text)}, &r)
}

// ProbeKVM has the agent at path on host run a guest. Without a path it asks
// the agent that host knows of, or the one in PATH.
func ProbeKVM(ctx context.Context, host conn.Conn, path string) (r wire.KVMResult, err error) {
	if path == "" {
		path = "bakeoff-agent"
		if h, ok := host.(interface{ Agent() string }); ok {
			path = h.Agent()
		}
	}
	err = askAgent(ctx, host, conn.Command(path, "kvm-probe"), &r)
	return r, err
}

// askAgent runs a subcommand of the agent on the host that prints a JSON
// value. Its exit code is the class of its error.
func askAgent(ctx context.Context, host conn.Conn, cmd conn.Cmd, value any) error {
	out, said := conn.Tail{Limit: conn.FileLimit}, conn.Tail{Limit: 2 << 10}
	cmd.Stdout, cmd.Stderr = &out, &said
	exit, err := host.Exec(ctx, cmd)
	if err != nil {
		return err
	}
	if !exit.OK() {
		kind := fault.Lab
		switch exit.Code {
		case wire.ExitInvalid:
			kind = fault.Invalid
		case wire.ExitUnsupported:
			kind = fault.Unsupported
		case wire.ExitNotFound:
			kind = fault.NotFound
		}
		text := strings.TrimPrefix(safetext.LastLines(string(said.Bytes()), 3), "bakeoff-agent: ")
		text = cmp.Or(text, fmt.Sprintf("%q: %v", cmd.Argv, exit))
		return fault.New(kind, "%s", text)
	}
	return fault.Wrap(fault.Lab, fmt.Sprintf("the answer of %q", cmd.Argv), json.Unmarshal(out.Bytes(), value))
}
