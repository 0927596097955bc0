// Package jail is the driver for FreeBSD's jails, with a FreeBSD or a Linux
// root.
//
// A jail shares the host's kernel. Its root is a clone of the image. Its
// network is its own stack (VNET) with one epair into the experiment's bridge.
// Its limits are a CPU set and an rctl rule. bakeoff-agent runs inside through
// jexec and answers on its standard streams.
package jail

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/volume"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// Driver creates jails.
type Driver struct{}

// The values of options.
const (
	rootCopy   = "copy"
	rootNullfs = "nullfs"
	rootZFS    = "zfs"
	sysFreeBSD = "freebsd"
	sysLinux   = "linux"
	netVNET    = "vnet"
	netShared  = "shared"
)

var specs = []param.Spec{
	{Name: "abi", Kind: param.Text, Default: sysFreeBSD, Enum: []string{sysFreeBSD, sysLinux},
		Doc: "The operating system that the image's programs were built for. linux needs the host's Linux emulation " +
			"(sysrc linux_enable=YES; service linux start)."},
	{Name: "root", Kind: param.Text, Default: rootCopy, Enum: []string{rootCopy, rootNullfs, rootZFS},
		Doc: "How bakeoff creates the jail's root. copy: copies the image, a folder on the host such as " +
			"/usr/local/jails/base. nullfs: mounts the image's folders read-only, and copies /etc, /root and /var. " +
			"zfs: clones the snapshot that the option dataset names, and needs no image."},
	{Name: "dataset", Kind: param.Text,
		Doc: "Name of the snapshot to clone with root: zfs, such as zroot/jails/base@clean. bakeoff creates the " +
			"clone in the parent of the snapshot's dataset, here zroot/jails."},
	{Name: "network", Kind: param.Text, Default: netVNET, Enum: []string{netVNET, netShared},
		Doc: "Network of the jail. vnet: a network stack of its own. shared: an address on the bridge, in the " +
			"host's network stack."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name: "jail",
		Also: map[string]string{"jails": "jail", "iocage": "jail", "bastille": "jail", "ezjail": "jail"},
		Summary: "a FreeBSD jail with a FreeBSD or a Linux root: the host's kernel, a clone of the image, and a " +
			"network stack of its own",
		Status:   driver.Unproven,
		Hosts:    []string{"freebsd"},
		Root:     true,
		Image:    true,
		Folder:   true,
		OwnRoot:  []string{"root=" + rootZFS},
		Options:  specs,
		Backings: []string{volume.Dir, volume.Tmpfs},
		Enforces: map[string]string{
			"cpus":   "cpuset -j: exactly the contender's CPUs",
			"memory": "rctl memoryuse with the action sigkill, if the kernel has accounting (kern.racct.enable=1)",
			"quota":  "rctl pcpu with the action deny, if the kernel has accounting",
		},
		Tuning: driver.Tuning{Why: "a jail shares the kernel and the settings of the host"},
		Source: []string{"jail(8)", "jexec(8)", "jls(8)", "rctl(8)", "cpuset(1)", "epair(4)", "ifconfig(8)", "nullfs(5)",
			"linux(4)", "linprocfs(5)", "linsysfs(5)", "zfs-clone(8)"},
	}
}

// options are the options of one jail.
type options struct{ abi, root, dataset, network string }

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{set.Text("abi"), set.Text("root"), set.Text("dataset"), set.Text("network")}, err
}

// Check tells whether host can create such a jail.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	a := guest.System(ctx, host, "FreeBSD")
	if !a.OK {
		return a
	}
	o, err := decode(values)
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	for fact, argv := range map[string][]string{
		"release": {"uname", "-r"}, "racct": {"sysctl", "-n", "kern.racct.enable"},
		"vnet": {"sysctl", "-n", "kern.features.vimage"}, "linux": {"sysctl", "-n", "compat.linux.osrelease"},
	} {
		out, yes, err := guest.Ask(ctx, host, argv...)
		if err != nil {
			return driver.Availability{Reason: err.Error()}
		}
		if a.Facts[fact] = "none"; yes {
			a.Facts[fact] = safetext.Line(out)
		}
	}
	no := func(reason, fix string) driver.Availability {
		return driver.Availability{Reason: reason, Fix: fix, Facts: a.Facts}
	}
	switch {
	case o.abi == sysLinux && a.Facts["linux"] == "none":
		return no("the host does not run Linux programs", "sysrc linux_enable=YES && service linux start")
	case o.network == netVNET && a.Facts["vnet"] != "1":
		return no("the kernel has no VNET", "use a GENERIC kernel, or network: shared")
	case o.root == rootZFS:
		if !zfs.IsSnapshot(ctx, host, o.dataset) {
			return no("the snapshot does not exist: "+o.dataset,
				"create one with zfs snapshot, and name it in the option dataset")
		}
	}
	return a
}

// names are the names of everything that belongs to one jail.
type names struct {
	jail string
	// outer and inner are the ends of the epair; interface names have at most
	// 15 bytes.
	outer, inner string
	dir, root    string
}

func namesOf(label, dir string) names {
	link := guest.LinkName(label)
	// A jail's name must not begin with a zero or be a number.
	return names{jail: "bakeoff-" + label, outer: link + "a", inner: link + "b", dir: dir, root: path.Join(dir, "root")}
}

// Create creates a jail and returns when its agent answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	e, n := guest.New(d, host, spec), namesOf(spec.Label, spec.Dir)
	o, err := validate(spec)
	if err == nil {
		err = vacant(ctx, e, n)
	}
	if err != nil {
		return nil, e.Refuse(err)
	}
	b := builder{host: host, spec: spec, options: o, names: n, env: e}
	if err := b.build(ctx); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return e, nil
}

// Validate implements driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	_, err := validate(spec)
	return err
}

func validate(spec driver.Spec) (options, error) {
	o, err := decode(spec.Options)
	if err == nil {
		err = guest.Check((Driver{}).Doc(), spec, 0)
	}
	switch {
	case err != nil:
		return o, err
	case o.root == rootZFS:
		err = guest.CheckSnapshot("dataset", o.dataset, "zroot/jails/base@clean")
	case spec.Image.Root == "":
		err = fault.WithFix(fault.New(fault.Invalid, "no image"), "name one, or clone a dataset with root: zfs")
	}
	return o, err
}

// vacant checks that no live jail has the name. It removes a jail without
// processes, which was left behind.
func vacant(ctx context.Context, e *guest.Env, n names) error {
	_, there, err := guest.Ask(ctx, e.Host, "jls", "-j", n.jail, "jid")
	if err != nil {
		return err
	}
	if there {
		pids, _, err := guest.Ask(ctx, e.Host, "ps", "-J", n.jail, "-o", "pid=")
		if err != nil {
			return err
		}
		if pids != "" {
			return guest.Taken("a jail " + n.jail)
		}
	}
	return e.Remove(ctx)
}

// startTime bounds how long the agent may take to answer. Nothing boots.
const startTime = 30 * time.Second

func (b builder) build(ctx context.Context) error {
	if err := b.root(ctx); err != nil {
		return fault.Op("root", err)
	}
	if err := b.volumes(ctx); err != nil {
		return err
	}
	if err := b.shares(ctx); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	rw, p := b.env.Session(ctx, enter(b.jail)...)
	if err := b.env.Meet(ctx, rw, p, startTime); err != nil {
		return err
	}
	return b.describe(ctx)
}

// start creates the jail, its network and its limits before anything runs in
// it.
func (b builder) start(ctx context.Context) error {
	argv := []string{"jail", "-c", "name=" + b.jail, "path=" + b.names.root, "host.hostname=" + b.spec.Label,
		"persist", "enforce_statfs=1", "children.max=0"}
	network, err := b.network(ctx)
	if err != nil {
		return fault.Op("network", err)
	}
	if err := guest.Run(ctx, b.host, append(argv, network...)...); err != nil {
		return err
	}
	if err := b.address(ctx); err != nil {
		return fault.Op("network", err)
	}
	return b.limit(ctx)
}

// limit holds the jail to its CPUs and memory.
func (b builder) limit(ctx context.Context) error {
	lim := &b.env.Properties.Limits
	lim.NotEnforced = map[string]string{}
	jid, err := guest.Output(ctx, b.host, "jls", "-j", b.jail, "jid")
	if err != nil {
		return err
	}
	if len(b.spec.CPUSet) > 0 {
		if err := guest.Run(ctx, b.host, "cpuset", "-l", probe.FormatCPUs(b.spec.CPUSet), "-j", jid); err != nil {
			return err
		}
		n := len(b.spec.CPUSet)
		lim.CPUs, lim.CPUSet = &n, b.spec.CPUSet
	}
	return b.account(ctx, lim)
}

// rules are those of rctl for limits of memory and of CPU time; 0 is none.
func (n names) rules(memory unit.Bytes, quota float64) map[string]string {
	out := map[string]string{}
	if memory > 0 {
		out["memory"] = fmt.Sprintf("jail:%s:memoryuse:sigkill=%d", n.jail, int64(memory))
	}
	if quota > 0 {
		out["quota"] = fmt.Sprintf("jail:%s:pcpu:deny=%d", n.jail, int64(math.Round(quota*100)))
	}
	return out
}

// account limits what the kernel only limits if it counts it.
func (b builder) account(ctx context.Context, lim *facts.Limits) error {
	rules := b.rules(b.spec.Memory, b.spec.Quota)
	if len(rules) == 0 {
		return nil
	}
	counts, _, err := guest.Ask(ctx, b.host, "sysctl", "-n", "kern.racct.enable")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if counts != "1" {
			lim.NotEnforced[name] = "the kernel does not count it; set kern.racct.enable=1 in /boot/loader.conf and reboot"
			continue
		}
		if err := guest.Run(ctx, b.host, "rctl", "-a", rules[name]); err != nil {
			return err
		}
		switch name {
		case "memory":
			lim.Memory = new(b.spec.Memory)
		case "quota":
			lim.Quota = new(b.spec.Quota)
		}
	}
	return nil
}

func (b builder) describe(ctx context.Context) error {
	release, err := guest.Output(ctx, b.host, "uname", "-r")
	if err != nil {
		return err
	}
	facts := b.env.Properties.Facts
	facts["kernel"], facts["abi"], facts["root"] = safetext.Line(release), b.options.abi, b.options.root
	facts["network"] = "none but loopback"
	if b.spec.Network != nil {
		facts["network"] = b.options.network
	}
	return b.env.Prepare(ctx, []string{"mkdir", "-p", guest.Scratch})
}
