package bootenv

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// machine is a machine whose zfs and zpool keep state, and refuse what the real ones refuse.
type machine struct {
	conn.Conn // nil: what the package does not call

	root, fstype, bootfs string
	sets                 []set
	snapshots            []string
	ran                  []string
	images               // of a machine without ZFSBootMenu
}

type set struct {
	name, mountpoint, origin string
	local                    map[string]string
}

func newMachine() *machine {
	return &machine{root: "zroot/ROOT/void", fstype: "zfs", bootfs: "zroot/ROOT/void", sets: []set{
		{"zroot/ROOT", "none", "-", map[string]string{commandLine: "quiet"}},
		{"zroot/ROOT/void", "/", "-", map[string]string{commandLine: "%{parent} resume=/dev/mapper/cryptswap"}},
		{"zroot/ROOT/data", "/data", "-", nil},
	}, snapshots: []string{"zroot/ROOT/void@installed", "zroot/ROOT/data@x"}}
}

func (m *machine) find(name string) *set {
	i := slices.IndexFunc(m.sets, func(s set) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return &m.sets[i]
}

func (m *machine) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	m.ran = append(m.ran, strings.Join(cmd.Argv, " "))
	if m.files != nil {
		if out, problem, known := m.image(cmd); known {
			return answer(cmd, out, problem)
		}
	}
	out, problem := m.do(cmd.Argv)
	return answer(cmd, out, problem)
}

func answer(cmd conn.Cmd, out, problem string) (conn.Exit, error) {
	if problem != "" {
		_, _ = io.WriteString(cmd.Stderr, problem)
		return conn.Exit{Code: 1}, nil
	}
	_, _ = io.WriteString(cmd.Stdout, out)
	return conn.Exit{}, nil
}

func (m *machine) do(argv []string) (out, problem string) {
	last := argv[len(argv)-1]
	switch argv[0] + " " + argv[1] {
	case "findmnt -n":
		return m.fstype + " " + m.root + "\n", ""
	case "zpool get":
		return m.bootfs + "\n", ""
	case "zpool set":
		to, ok := strings.CutPrefix(argv[2], "bootfs=")
		if !ok || m.find(to) == nil || last != "zroot" {
			return "", "not a valid dataset"
		}
		m.bootfs = to
		return "", ""
	case "zfs list":
		for _, s := range m.sets {
			if slices.Contains(argv, "filesystem") {
				out += s.name + "\t" + s.mountpoint + "\t" + s.origin + "\n"
			}
		}
		if slices.Contains(argv, "snapshot") {
			out = strings.Join(m.snapshots, "\n") + "\n"
		}
		return out, ""
	case "zfs get":
		inherited := "-"
		for _, s := range m.sets {
			v, source := s.local[commandLine], "local"
			if v == "" {
				v, source = inherited, "inherited from zroot/ROOT"
			} else if s.name == "zroot/ROOT" {
				inherited = v
			}
			out += s.name + "\t" + v + "\t" + source + "\n"
		}
		return out, ""
	case "zfs snapshot":
		of, _, _ := strings.Cut(last, "@")
		if m.find(of) == nil || slices.Contains(m.snapshots, last) {
			return "", "cannot create snapshot"
		}
		m.snapshots = append(m.snapshots, last)
		return "", ""
	case "zfs clone":
		from := argv[len(argv)-2]
		if m.find(last) != nil || !slices.Contains(m.snapshots, from) {
			return "", "cannot create clone"
		}
		s := set{last, "?", from, map[string]string{}}
		for i, a := range argv {
			if k, v, ok := strings.Cut(a, "="); ok && argv[i-1] == "-o" {
				s.local[k] = v
			}
		}
		s.mountpoint = s.local["mountpoint"]
		m.sets = append(m.sets, s)
		return "", ""
	}
	return "", "unknown command " + fmt.Sprint(argv)
}

func read(t *testing.T, m *machine) *Environments {
	t.Helper()
	e, err := Read(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestSnapshotCloneAndRollback takes a machine through an update that goes wrong.
func TestSnapshotCloneAndRollback(t *testing.T) {
	m, ctx := newMachine(), t.Context()
	e := read(t, m)
	if len(e.All) != 1 || !e.All[0].Running || !e.All[0].Default || !e.Menu ||
		!slices.Equal(e.All[0].Snapshots, []string{"installed"}) {
		t.Fatalf("%+v", e)
	}
	if name, err := e.Snapshot(ctx, "", "before"); err != nil || name != "zroot/ROOT/void@before" {
		t.Fatal(name, err)
	}
	if _, err := read(t, m).Snapshot(ctx, "void", "before"); err == nil {
		t.Error("a second snapshot of the same name was taken")
	}
	name, err := read(t, m).Rollback(ctx, "before")
	if err != nil || name != "zroot/ROOT/void-before" || m.bootfs != name {
		t.Fatal(name, m.bootfs, err)
	}
	s := m.find(name)
	if s.local["canmount"] != "noauto" || s.mountpoint != "/" ||
		s.local[commandLine] != "%{parent} resume=/dev/mapper/cryptswap" {
		t.Errorf("the clone is %+v", s)
	}
	if _, err := read(t, m).Activate(ctx, "void"); err != nil || m.bootfs != "zroot/ROOT/void" {
		t.Error(m.bootfs, err)
	}
	// Interrupted after the clone, the same command ends it.
	if _, err := read(t, m).Rollback(ctx, "void@before"); err != nil || m.bootfs != name {
		t.Error(m.bootfs, err)
	}
	if _, err := read(t, m).Clone(ctx, "installed", "old"); err != nil {
		t.Error(err)
	}
	e = read(t, m)
	if len(e.All) != 3 || e.All[1].Origin != "zroot/ROOT/void@before" || e.All[1].Running || !e.All[1].Default {
		t.Errorf("%+v", e.All)
	}
	for _, line := range m.ran {
		if strings.Contains(line, "destroy") || strings.Contains(line, "zfs rollback") {
			t.Errorf("%s destroys", line)
		}
	}
}

// TestRefused refuses what cannot work before it changes anything.
func TestRefused(t *testing.T) {
	other := newMachine()
	other.fstype, other.root = "ext4", "/dev/sda1"
	if _, err := Read(t.Context(), other); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a root on ext4 gave %v", err)
	}
	m := newMachine()
	e := read(t, m)
	before := len(m.ran)
	for want, do := range map[string]func() (string, error){
		"no boot environment gone":  func() (string, error) { return e.Snapshot(t.Context(), "gone", "x") },
		"no boot environment data":  func() (string, error) { return e.Activate(t.Context(), "data") },
		`"-r" is not a name`:        func() (string, error) { return e.Snapshot(t.Context(), "", "-r") },
		`"a/b" is not a name`:       func() (string, error) { return e.Clone(t.Context(), "installed", "a/b") },
		"void has no snapshot gone": func() (string, error) { return e.Rollback(t.Context(), "gone") },
		"environment void already":  func() (string, error) { return e.Clone(t.Context(), "installed", "void") },
		"snapshot installed already": func() (string, error) {
			return e.Snapshot(t.Context(), "", "installed")
		},
	} {
		if _, err := do(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if len(m.ran) != before {
		t.Errorf("ran %q", m.ran[before:])
	}
	// Another loader does not read bootfs.
	for i := range m.sets {
		m.sets[i].local = nil
	}
	if _, err := read(t, m).Rollback(t.Context(), "installed"); !fault.Is(err, fault.Unsupported) || len(m.sets) != 3 {
		t.Errorf("%v, %d datasets", err, len(m.sets))
	}
}

func FuzzRead(f *testing.F) {
	f.Add("zroot/ROOT/void\t/\t-\n", "zroot/ROOT/void@a\n", "zroot/ROOT/void\tquiet\tlocal\n")
	f.Fuzz(func(t *testing.T, list, snapshots, lines string) {
		e := &Environments{Pool: "zroot", Parent: "zroot/ROOT"}
		e.read(list, snapshots, "zroot/ROOT/void", "zroot/ROOT/void")
		e.readLines(lines)
		for _, n := range e.All {
			if !strings.HasPrefix(n.Dataset, "zroot/ROOT/") {
				t.Errorf("%q is not below the parent", n.Dataset)
			}
		}
	})
}
