// Package bootenv lists, snapshots and clones the boot environments of a running machine:
// the datasets below one parent of which each is a whole system. It destroys nothing.
package bootenv

import (
	"context"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/prepare/install/installed"
	"bakeoff/reach/conn"
)

// commandLine is the property from which ZFSBootMenu has the arguments of the kernel.
const commandLine = "org.zfsbootmenu:commandline"

// Environment is a boot environment.
type Environment struct {
	Name      string   `json:"name"`
	Dataset   string   `json:"dataset"`
	Running   bool     `json:"running"`
	Default   bool     `json:"default"` // bootfs of the pool
	Origin    string   `json:"origin,omitempty"`
	Snapshots []string `json:"snapshots"` // the part after @, oldest first

	commandLine string // set on the dataset itself
}

// Environments are those of the pool with the running system.
type Environments struct {
	Pool   string        `json:"pool"`
	Parent string        `json:"parent"`
	All    []Environment `json:"environments"`
	Menu   bool          `json:"zfsbootmenu"` // ZFSBootMenu starts them

	conn conn.Conn
}

// Read reads the environments of the machine that c reaches.
func Read(ctx context.Context, c conn.Conn) (*Environments, error) {
	out, err := conn.Output(ctx, c, "findmnt", "-n", "-o", "FSTYPE,SOURCE", "/")
	if err != nil {
		return nil, err
	}
	f := strings.Fields(string(out))
	if len(f) != 2 || f[0] != "zfs" || installed.Parent(f[1]) == "" {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "the root of this machine is not a dataset below a pool"),
			"run this on a machine with its root on ZFS, or name one with --host")
	}
	e := &Environments{Pool: installed.PoolOf(f[1]), Parent: installed.Parent(f[1]), conn: c}
	list, err := conn.Output(ctx, c, "zfs", "list", "-Hp", "-o", "name,mountpoint,origin", "-t", "filesystem", "-d", "1",
		e.Parent)
	if err != nil {
		return nil, err
	}
	snapshots, err := conn.Output(ctx, c, "zfs", "list", "-Hp", "-o", "name", "-s", "creation", "-t", "snapshot", "-d",
		"2", e.Parent)
	if err != nil {
		return nil, err
	}
	bootfs, err := conn.Output(ctx, c, "zpool", "get", "-H", "-o", "value", "bootfs", e.Pool)
	if err != nil {
		return nil, err
	}
	lines, err := conn.Output(ctx, c, "zfs", "get", "-H", "-o", "name,value,source", "-t", "filesystem", "-r", commandLine,
		e.Parent)
	if err != nil {
		return nil, err
	}
	e.read(string(list), string(snapshots), strings.TrimSpace(string(bootfs)), f[1])
	e.readLines(string(lines))
	return e, nil
}

// read reads zfs list.
func (e *Environments) read(list, snapshots, bootfs, running string) {
	for line := range strings.Lines(list) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 || installed.Parent(f[0]) != e.Parent || f[1] != "/" && f[0] != running {
			continue
		}
		n := Environment{Name: f[0][len(e.Parent)+1:], Dataset: f[0], Running: f[0] == running, Default: f[0] == bootfs,
			Snapshots: []string{}}
		if f[2] != "-" {
			n.Origin = f[2]
		}
		e.All = append(e.All, n)
	}
	for line := range strings.Lines(snapshots) {
		set, tag, ok := strings.Cut(strings.TrimSpace(line), "@")
		if i := e.index(set); ok && i >= 0 {
			e.All[i].Snapshots = append(e.All[i].Snapshots, tag)
		}
	}
}

// readLines reads zfs get of the command lines.
func (e *Environments) readLines(text string) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 || f[1] == "-" {
			continue
		}
		e.Menu = true
		if i := e.index(f[0]); i >= 0 && f[2] == "local" {
			e.All[i].commandLine = f[1]
		}
	}
}

func (e *Environments) index(dataset string) int {
	return slices.IndexFunc(e.All, func(n Environment) bool { return n.Dataset == dataset })
}

// find returns an environment by its name; "" is the running one.
func (e *Environments) find(name string) (*Environment, error) {
	for i := range e.All {
		if n := &e.All[i]; n.Name == name || name == "" && n.Running {
			return n, nil
		}
	}
	var all []string
	for _, n := range e.All {
		all = append(all, n.Name)
	}
	return nil, fault.WithFix(fault.New(fault.NotFound, "there is no boot environment %s", safetext.Line(name)),
		"use one of "+strings.Join(all, ", "))
}

// snapshot returns the environment and the tag of ENVIRONMENT@TAG, or of TAG of the running one.
func (e *Environments) snapshot(name string) (*Environment, string, error) {
	set, tag, ok := strings.Cut(name, "@")
	if !ok {
		set, tag = "", name
	}
	n, err := e.find(set)
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(n.Snapshots, tag) {
		return nil, "", fault.WithFix(fault.New(fault.NotFound, "the boot environment %s has no snapshot %s",
			n.Name, safetext.Line(tag)),
			"bakeoff install env list shows them")
	}
	return n, tag, nil
}

// name is what a snapshot or an environment may be called.
var name = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,100}$`)

func checkName(text string) error {
	if !name.MatchString(text) {
		return fault.WithFix(fault.New(fault.Invalid, "%q is not a name", safetext.Line(text)),
			"use letters, digits, and _ . - after the first")
	}
	return nil
}

func (e *Environments) run(ctx context.Context, argv ...string) error {
	_, err := conn.Output(ctx, e.conn, argv...)
	return err
}

// Snapshot takes a snapshot of an environment ("" is the running one), and returns its name.
func (e *Environments) Snapshot(ctx context.Context, environment, tag string) (string, error) {
	n, err := e.find(environment)
	if err != nil {
		return "", err
	}
	if err := checkName(tag); err != nil {
		return "", err
	}
	if slices.Contains(n.Snapshots, tag) {
		return "", fault.WithFix(fault.New(fault.Invalid, "the boot environment %s has a snapshot %s already",
			n.Name, tag), "choose another name")
	}
	return n.Dataset + "@" + tag, e.run(ctx, "zfs", "snapshot", n.Dataset+"@"+tag)
}

// Clone makes an environment of a snapshot. It starts like the one that it comes from.
func (e *Environments) Clone(ctx context.Context, snapshot, to string) (string, error) {
	n, tag, err := e.snapshot(snapshot)
	if err != nil {
		return "", err
	}
	if err := checkName(to); err != nil {
		return "", err
	}
	dataset := e.Parent + "/" + to
	if e.index(dataset) >= 0 {
		return "", fault.WithFix(fault.New(fault.Invalid, "there is a boot environment %s already", to),
			"choose another name")
	}
	argv := []string{"zfs", "clone", "-o", "canmount=noauto", "-o", "mountpoint=/"}
	if n.commandLine != "" {
		argv = append(argv, "-o", commandLine+"="+n.commandLine) // a clone does not inherit it
	}
	return dataset, e.run(ctx, append(argv, n.Dataset+"@"+tag, dataset)...)
}

// Activate makes an environment the one that starts next.
func (e *Environments) Activate(ctx context.Context, environment string) (string, error) {
	n, err := e.find(environment)
	if err != nil {
		return "", err
	}
	choose, err := e.loader(ctx)
	if err != nil {
		return "", err
	}
	return n.Dataset, e.activate(ctx, choose, n)
}

// chooser makes a boot loader start an environment, whose files are below dir.
type chooser func(ctx context.Context, n *Environment, dir string) error

func (e *Environments) activate(ctx context.Context, choose chooser, n *Environment) error {
	if choose != nil {
		dir, release := "", func() error { return nil }
		if !n.Running {
			var err error
			if dir, release, err = e.mount(ctx, n.Dataset); err != nil {
				return err
			}
		}
		err := choose(ctx, n, dir)
		if rerr := release(); err == nil {
			err = rerr
		}
		if err != nil {
			return err
		}
	}
	return e.run(ctx, "zpool", "set", "bootfs="+n.Dataset, e.Pool)
}

// loader finds what starts this machine; nil needs nothing but bootfs. It refuses machines on which
// nothing that this package changes decides what starts.
func (e *Environments) loader(ctx context.Context) (chooser, error) {
	switch {
	case e.Menu: // it reads bootfs
		return nil, nil
	case e.usesImages(ctx):
		return e.activateImage, nil
	case e.usesGRUB(ctx):
		return e.activateGRUB, nil
	}
	return nil, fault.WithFix(fault.New(fault.Unsupported, "this machine does not start from ZFSBootMenu (no dataset "+
		"below %s has the property %s), from a unified kernel image (%s does not name the root), or from a GRUB whose "+
		"/boot is a file system of its own (%s does not name the root)", e.Parent, commandLine, lineFile, grubMenu),
		"clone the snapshot, then change root= of the kernel's command line by hand")
}

// Rollback makes an environment of a snapshot the one that starts next. It is a clone, called
// like the environment and the snapshot: what changed since the snapshot stays in the old one.
func (e *Environments) Rollback(ctx context.Context, snapshot string) (string, error) {
	n, tag, err := e.snapshot(snapshot)
	if err != nil {
		return "", err
	}
	choose, err := e.loader(ctx)
	if err != nil {
		return "", err
	}
	to := n.Name + "-" + tag
	if i := e.index(e.Parent + "/" + to); i >= 0 {
		if e.All[i].Origin != n.Dataset+"@"+tag {
			return "", fault.WithFix(fault.New(fault.Invalid, "the boot environment %s exists already, but is not a "+
				"clone of this snapshot", to),
				"clone the snapshot under another name, and activate that")
		}
		return e.Activate(ctx, to)
	}
	dataset, err := e.Clone(ctx, snapshot, to)
	if err != nil {
		return "", err
	}
	return dataset, e.activate(ctx, choose, &Environment{Name: to, Dataset: dataset})
}
