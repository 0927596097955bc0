package jail

import (
	"context"
	"debug/elf"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
)

// Roots that outlive their jails are those of guests of `bakeoff vm`. MakeRoot makes one in the
// folder of the jail, Create with Spec.KeepRoot uses it, and RemoveRoot removes it.

// IsSnapshot tells whether a root is made of the ZFS snapshot with a name.
func IsSnapshot(from string) bool { return guest.CheckSnapshot("", from, "") == nil }

// Name is the name of the jail with a label.
func Name(label string) string { return namesOf(label, "").jail }

// kept is the last name of the dataset of a root that outlives the jail; Reap leaves it.
func (n names) kept() string { return n.jail + "-root" }

// MakeRoot makes the root of a jail in its folder dir, unless it is there: a clone of the
// snapshot from, or a copy of the folder from. A killed MakeRoot leaves none.
func MakeRoot(ctx context.Context, host conn.Conn, label, dir, from string) error {
	n := namesOf(label, dir)
	_, there, err := guest.Ask(ctx, host, "test", "-d", n.root)
	switch {
	case err != nil:
		return err
	case there && IsSnapshot(from):
		return n.mount(ctx, host, from)
	case there:
		return nil
	case IsSnapshot(from):
		_, err := zfs.Clone(ctx, host, from, n.kept(), "mountpoint="+n.root)
		return err
	}
	part := n.root + ".part"
	if err := removeTree(ctx, host, part); err != nil {
		return err
	}
	if err := guest.Run(ctx, host, "mkdir", part); err != nil {
		return err
	}
	if err := copyTree(ctx, host, from+"/.", part); err != nil {
		return err
	}
	return guest.Run(ctx, host, "mv", part, n.root)
}

// mount mounts the clone of a snapshot. A host that has started again may not have done so, and
// the folder is then empty.
func (n names) mount(ctx context.Context, host conn.Conn, from string) error {
	dataset, _, _ := strings.Cut(from, "@")
	clone := path.Join(path.Dir(dataset), n.kept())
	mounted, there, err := guest.Ask(ctx, host, "zfs", "list", "-H", "-t", zfs.FileSystem, "-o", "mounted", clone)
	switch {
	case err != nil:
		return err
	case !there:
		return fault.New(fault.Lab, "the dataset %s, which held the root of the jail, no longer exists", clone)
	case mounted == "yes":
		return nil
	}
	return guest.Run(ctx, host, "zfs", "mount", clone)
}

// RemoveRoot removes what a jail left, and its root. What does not exist is not an error.
func RemoveRoot(ctx context.Context, host conn.Conn, label, dir string) error {
	n := namesOf(label, dir)
	if _, err := (Driver{}).Reap(ctx, host, driver.Leftover{Label: label, Dir: dir}, false); err != nil {
		return err // below the root may be folders of the host
	}
	s := guest.Sweep{Host: host}
	zfs.Reap(ctx, &s, zfs.FileSystem, n.kept(), n.root)
	if list, ok := s.Ask(ctx, "mount", "-p"); !ok || len(mountsBelow(list, dir)) > 0 {
		return errors.Join(s.Err(), fault.New(fault.Lab, "file systems are mounted below %s", dir))
	}
	return errors.Join(s.Err(), removeTree(ctx, host, n.root+".part"), removeTree(ctx, host, n.root))
}

// removeTree removes a folder whose files may have flags.
func removeTree(ctx context.Context, host conn.Conn, dir string) error {
	_, there, err := guest.Ask(ctx, host, "test", "-e", dir)
	if err != nil || !there {
		return err
	}
	if err := guest.Run(ctx, host, "chflags", "-R", "0", dir); err != nil {
		return err
	}
	return guest.Run(ctx, host, "rm", "-rf", dir)
}

// Connect opens a connection to an agent of its own in a jail that runs.
func Connect(ctx context.Context, host conn.Conn, label string) (io.ReadWriteCloser, error) {
	name := Name(label)
	if _, there, err := guest.Ask(ctx, host, "jls", "-j", name, "jid"); err != nil || !there {
		return nil, errors.Join(err, fault.New(fault.Lab, "there is no jail %s", name))
	}
	rw, _ := guest.Connect(ctx, host, enter(name)...)
	return rw, nil
}

// enter is the command whose standard streams lead to an agent in a jail. Programs there see
// nothing of the environment of bakeoff.
func enter(jail string) []string {
	return []string{"env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"LANG=C.UTF-8", "jexec", jail, guest.AgentPath, "serve", "-"}
}

// Signal sends a signal to the programs that agents started in a jail.
func Signal(ctx context.Context, host conn.Conn, label string, number int) error {
	list, err := guest.Output(ctx, host, "ps", "-J", Name(label), "-o", "pid=,ppid=,comm=")
	if err != nil {
		return err
	}
	argv := []string{"kill", "-" + strconv.Itoa(number)}
	programs := started(list, path.Base(guest.AgentPath))
	if len(programs) == 0 {
		return fault.New(fault.Lab, "no program runs in the jail")
	}
	return guest.Run(ctx, host, append(argv, programs...)...)
}

// started are the processes in the output of `ps -o pid=,ppid=,comm=` that an agent started. An
// agent that becomes another user starts one itself.
func started(list, agent string) (pids []string) {
	agents := map[string]bool{}
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == agent {
			agents[f[0]] = true
		}
	}
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) >= 3 && agents[f[1]] && !agents[f[0]] {
			pids = append(pids, f[0])
		}
	}
	return pids
}

// Limit changes the limits of memory and of CPU time of a jail that runs; 0 is none. If its programs use
// more than the new limit of memory, which would end them, it changes nothing and returns an error of kind
// fault.Unsupported.
func Limit(ctx context.Context, host conn.Conn, label string, memory unit.Bytes, quota float64) error {
	n := namesOf(label, "")
	list, err := guest.Output(ctx, host, "rctl", "jail:"+n.jail)
	if err != nil {
		return err
	}
	have, want := strings.Fields(list), slices.Sorted(maps.Values(n.rules(memory, quota)))
	if memory > 0 && !slices.Contains(have, n.rules(memory, 0)["memory"]) {
		used, err := n.memoryUsed(ctx, host)
		if err != nil {
			return err
		}
		if used > memory {
			return fault.WithFix(fault.New(fault.Unsupported, "the programs use %s of memory, which is more than %s", used,
				memory), "stop the guest first, or set a higher limit")
		}
	}
	change := func(option string, rules, others []string) error {
		for _, rule := range rules {
			if slices.Contains(others, rule) {
				continue
			}
			if err := guest.Run(ctx, host, "rctl", option, rule); err != nil {
				return err
			}
		}
		return nil
	}
	if err := change("-a", want, have); err != nil { // first: the jail is never without a limit
		return err
	}
	return change("-r", have, want)
}

// memoryUsed is what the programs of a jail use.
func (n names) memoryUsed(ctx context.Context, host conn.Conn) (unit.Bytes, error) {
	use, err := guest.Output(ctx, host, "rctl", "-u", "jail:"+n.jail)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(use) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "memoryuse="); ok {
			bytes, err := strconv.ParseInt(value, 10, 64)
			return unit.Bytes(bytes), err
		}
	}
	return 0, fault.New(fault.Lab, "rctl -u jail:%s does not say how much memory the jail uses", n.jail)
}

// Linux are the options of a jail whose programs are built for Linux.
func Linux() param.Values { return param.Values{"abi": sysLinux} }

// SystemOf is the system that the programs in a root are built for, as GOOS names it; "" if no
// usual program tells. Links that lead out of the root are not followed.
func SystemOf(root string) string {
	r, err := os.OpenRoot(root)
	if err != nil {
		return ""
	}
	defer r.Close()
	for _, name := range []string{"bin/sh", "bin/busybox", "sbin/init", "bin/ls", "usr/bin/env"} {
		f, err := r.Open(name)
		if err != nil {
			continue
		}
		x, err := elf.NewFile(f)
		f.Close()
		switch {
		case err != nil:
		case x.OSABI == elf.ELFOSABI_FREEBSD:
			return sysFreeBSD
		case x.OSABI == elf.ELFOSABI_NONE || x.OSABI == elf.ELFOSABI_LINUX:
			return sysLinux
		}
	}
	return ""
}
