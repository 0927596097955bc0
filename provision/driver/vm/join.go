package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/machine"
	"bakeoff/provision/isolation"
	"bakeoff/provision/vm"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// joined is a guest that runs, while it is measured. Close ends only what was started through
// it.
type joined struct {
	conn.Conn
	d     *Driver
	host  conn.Conn
	spec  driver.Spec
	guest *vm.Guest
	info  driver.Info
	life  context.Context // of the programs that were started through it
	end   context.CancelFunc
	mu    sync.Mutex
	gone  bool
}

// joinedContainer is a container that runs.
type joinedContainer struct {
	*joined
	group *cgroup.Group
}

// joinedMachine is a machine that runs. Its agent answers only to this environment meanwhile.
type joinedMachine struct {
	*joined
	agent *channel.Conn
}

var (
	_ driver.Meter   = joinedContainer{}
	_ driver.Clocked = joinedMachine{}
)

// fileGuest is the file in an environment's folder that names the guest it joined.
const fileGuest = "guest"

// refuseChanges refuses what would change a guest that runs.
func refuseChanges(spec driver.Spec) error {
	what := ""
	switch {
	case len(spec.Tuning) > 0:
		what = "tuning"
	case len(spec.Volumes) > 0:
		what = "volumes"
	case spec.Memory > 0:
		what = "memory"
	case spec.Quota > 0:
		what = "quota"
	case spec.Read+spec.Write > 0:
		what = "io"
	default:
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "%s: bakeoff does not change a running guest that it "+
		"measures", what),
		"remove "+what+", or write manifest: FILE instead of guest, so that bakeoff creates the guest")
}

// join begins to measure a guest that runs.
func (d *Driver) join(ctx context.Context, host conn.Conn, spec driver.Spec, name string) (driver.Instance, error) {
	g, err := d.find(name, spec.Agent)
	if err != nil {
		return nil, err
	}
	in := &joined{d: d, host: host, spec: spec, guest: g}
	in.life, in.end = context.WithCancel(context.Background())
	in.describe()
	if err := os.WriteFile(filepath.Join(spec.Dir, fileGuest), []byte(g.UUID), 0o600); err != nil {
		return nil, err
	}
	var out driver.Instance
	var made bool
	if g.Brand.Machine() {
		out, made, err = in.joinMachine(ctx)
	} else {
		out, made, err = in.joinContainer(ctx)
	}
	if err != nil {
		clean := context.WithoutCancel(ctx)
		if made {
			return nil, errors.Join(err, out.Close(clean))
		}
		return nil, errors.Join(err, os.Remove(filepath.Join(spec.Dir, fileGuest)))
	}
	return out, nil
}

// joinContainer opens the way into a container, and makes the folder for files inside.
func (in *joined) joinContainer(ctx context.Context) (out joinedContainer, made bool, err error) {
	out.joined = in
	if in.Conn, err = in.guest.Inside(); err != nil {
		return out, false, err
	}
	layout, err := cgroup.Detect(ctx, in.host)
	if err == nil {
		out.group, err = layout.Adopt(ctx, in.host, in.guest.Label(), cgroup.Limits{})
	}
	if err == nil {
		made, err = in.makeScratch(ctx, out.group)
	}
	return out, made, err
}

func (in *joined) describe() {
	memory := unit.Bytes(in.guest.RAM) * unit.MiB
	limits := facts.Limits{Memory: &memory, NotEnforced: map[string]string{
		"cpus": "the guest runs on the CPUs of its host, as it did before the run"}}
	if in.guest.CPUCap > 0 {
		quota := float64(in.guest.CPUCap) / 100
		limits.Quota = &quota
	}
	in.info = driver.Info{Agent: isolation.AgentPath, Scratch: path.Join(isolation.Scratch, in.spec.Label),
		Volumes: map[string]string{}, HostCache: map[string]string{}, Limits: limits, Facts: map[string]string{
			"guest": in.guest.UUID, "guest.alias": in.guest.Alias, "guest.brand": string(in.guest.Brand),
			"guest.driver": in.guest.Driver,
			"guest.image":  in.guest.Image, "guest.ram": memory.String(),
			"network": "the guest's own", "root": "the guest's own", "scratch": "a folder of the guest's root"}}
}

// makeScratch makes the folder for files inside, through the root that a process of the guest
// has: the guest needs no programs for it, and no symbolic link in it leads outside.
func (in *joined) makeScratch(ctx context.Context, group *cgroup.Group) (made bool, err error) {
	root, err := rootOf(ctx, group)
	if err != nil {
		return false, err
	}
	defer root.Close()
	at := inRoot(in.info.Scratch)
	if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return false, fault.Op("make "+in.info.Scratch+" in the guest", err)
	}
	if err := root.Mkdir(at, 0o755); errors.Is(err, fs.ErrExist) {
		return false, in.scratchExists()
	} else if err != nil {
		return false, fault.Op("make "+in.info.Scratch+" in the guest", err)
	}
	return true, nil
}

func (in *joined) scratchExists() error {
	return fault.WithFix(fault.New(fault.Lab, "the folder %s exists in the guest already", in.info.Scratch),
		"run `bakeoff clean`")
}

// inRoot is a path inside as os.Root takes it.
func inRoot(at string) string { return strings.TrimPrefix(at, "/") }

// rootOf opens the root of the container with a control group.
func rootOf(ctx context.Context, group *cgroup.Group) (*os.Root, error) {
	pids, err := group.PIDs(ctx)
	if err != nil {
		return nil, err
	}
	if first := isolation.InitOf(pids); first > 0 {
		if root, err := os.OpenRoot(fmt.Sprintf("/proc/%d/root", first)); err == nil {
			return root, nil
		}
	}
	return nil, fault.New(fault.Subject, "no process runs in the guest")
}

// Info describes the guest.
func (in *joined) Info() driver.Info { return in.info }

// Usage is what the guest has used since it was started.
func (in joinedContainer) Usage(ctx context.Context) (facts.Scope, error) { return in.group.Usage(ctx) }

// Exec runs a program in the guest. It ends with Close.
func (in *joined) Exec(ctx context.Context, c conn.Cmd) (conn.Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.life, cancel)()
	c.Env = append([]string{machine.Mark(in.spec.Label)}, c.Env...)
	return in.Conn.Exec(ctx, c)
}

// Diagnose is what bakeoff knows of the guest, and the end of its console.
func (in *joined) Diagnose(context.Context) []byte {
	out := fmt.Appendf(nil, "guest %s (%s), brand %s, %d MiB\nits console:\n", in.guest.UUID, in.guest.Alias,
		in.guest.Brand, in.guest.RAM)
	return append(out, consoleOf(in.guest)...)
}

// Close ends what was started in the guest, and removes its files. The guest runs on.
func (in *joined) Close(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.gone {
		return nil
	}
	in.end()
	left := driver.Leftover{Label: in.spec.Label, Dir: in.spec.Dir}
	_, err := machine.Driver{}.Reap(ctx, in.host, left, false)
	_, serr := in.d.reapScratch(ctx, in.host, left, false)
	err = errors.Join(err, serr)
	in.gone = err == nil
	return err
}

// reapScratch removes the files of an environment in the guest that it joined.
func (d *Driver) reapScratch(ctx context.Context, host conn.Conn, left driver.Leftover,
	dryRun bool) (found []string, err error) {
	note := filepath.Join(left.Dir, fileGuest)
	name, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g, err := d.store("").Find(string(name))
	if fault.Is(err, fault.NotFound) {
		return nil, nil // it was deleted, and its files with it
	}
	if err != nil {
		return nil, err
	}
	if g.Brand.Machine() {
		if found, err = reapMachine(ctx, g, left, dryRun); err == nil && !dryRun {
			err = os.Remove(note)
		}
		return found, err
	}
	root, err := d.rootOfGuest(ctx, host, g)
	if err != nil || root == nil {
		return nil, err
	}
	defer root.Close()
	at := path.Join(isolation.Scratch, left.Label)
	if _, err := root.Lstat(inRoot(at)); err == nil {
		found = []string{"folder " + at + " in guest " + g.UUID}
	}
	if dryRun {
		return found, nil
	}
	if err := root.RemoveAll(inRoot(at)); err != nil {
		return found, fault.Op("remove "+at+" in guest "+g.UUID, err)
	}
	return found, os.Remove(note)
}

// rootOfGuest opens the root of a guest that runs, or the folder with what one that is stopped
// has written; nil if there is none.
func (d *Driver) rootOfGuest(ctx context.Context, host conn.Conn, g *vm.Guest) (*os.Root, error) {
	if g.State != vm.Running {
		at, err := g.WrittenRoot(ctx)
		if err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return root, err
	}
	layout, err := cgroup.Detect(ctx, host)
	if err != nil {
		return nil, err
	}
	group, err := layout.Adopt(ctx, host, g.Label(), cgroup.Limits{})
	if err != nil {
		return nil, err
	}
	return rootOf(ctx, group)
}

// maxConsole bounds what Diagnose shows of a console, in bytes.
const maxConsole = 32 << 10

func consoleOf(g *vm.Guest) []byte {
	b, err := os.ReadFile(g.ConsoleLog())
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	return b[max(0, len(b)-maxConsole):]
}
