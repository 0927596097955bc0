package lint

import (
	"errors"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"bakeoff/prepare/install/installed"
)

// TestUnreadable checks that lint names a file that it cannot read, and claims nothing that the file may refute.
func TestUnreadable(t *testing.T) {
	ways := map[string]func(m *machine, name string) fs.FS{
		"a folder": func(m *machine, name string) fs.FS {
			delete(m.files, name)
			m.write(name+"/file", "")
			return m.files
		},
		"a pipe": func(m *machine, name string) fs.FS {
			m.files[name] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
			return m.files
		},
		"a huge file": func(m *machine, name string) fs.FS {
			m.files[name] = &fstest.MapFile{Data: make([]byte, maxText+1), Mode: 0o644}
			return m.files
		},
		"a loop": func(m *machine, name string) fs.FS {
			m.link(name, "/"+name)
			return m.files
		},
		"no permission": func(m *machine, name string) fs.FS { return forbiddenFS{m.files, []string{name}} },
	}
	for _, c := range []struct {
		base func() *machine
		name string
	}{
		{voidMachine, "etc/hostid"}, {voidMachine, "etc/crypttab"}, {voidMachine, "etc/fstab"}, {voidMachine, "etc/rc.conf"},
		{voidMachine, "etc/modprobe.d/zfs.conf"}, {voidMachine, "etc/dracut.conf.d/zol.conf"},
		{voidMachine, "etc/xbps.d/10-kernel.conf"}, {grubMachine, "etc/default/grub"},
		{grubMachine, "etc/apt/sources.list"}, {unifiedMachine, "etc/kernel/cmdline"},
		{unifiedMachine, "etc/kernel/install.conf"},
		{netbsdMachine, "boot.cfg"}, {oldDebianMachine, "etc/cryptsetup-initramfs/conf-hook"},
		{oldDebianMachine, "etc/initramfs-tools/initramfs.conf"}, {oldDebianMachine, "etc/initramfs-tools/conf.d/resume"},
	} {
		for how, damage := range ways {
			if how == "a folder" && strings.HasSuffix(path.Dir(c.name), ".d") {
				continue // which all programs skip
			}
			m := c.base()
			found := Check(m.System, damage(m, c.name))
			for _, f := range found {
				if f.Name != "file-unreadable" || f.Where != c.name {
					t.Errorf("%s is %s: %+v", c.name, how, f)
				}
			}
			if len(found) != 1 {
				t.Errorf("%s is %s: %d findings", c.name, how, len(found))
			}
		}
	}
}

// TestUnreadableFolder checks folders that only root may read, and what does not depend on them.
func TestUnreadableFolder(t *testing.T) {
	m := change(voidMachine(), func(m *machine) {
		m.Pools["zroot"].Props["ashift"] = "9"
		delete(m.Modes, "/boot/volume.key") // which says that it is there
	})
	names := []string{}
	for _, f := range Check(m.System, forbiddenFS{m.files, []string{"boot", "etc/modprobe.d", "etc/zfs/zroot.key"}}) {
		names = append(names, f.Where+" "+f.Name)
	}
	slices.Sort(names)
	want := []string{"boot file-unreadable", "etc/modprobe.d file-unreadable", "zroot ashift ashift-small"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// forbiddenFS is a file system in which some names cannot be read.
type forbiddenFS struct {
	fstest.MapFS
	names []string
}

func (f forbiddenFS) check(name string) error {
	if slices.Contains(f.names, name) {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return nil
}

func (f forbiddenFS) Open(name string) (fs.File, error) {
	return nil, errors.Join(f.check(name), errors.New("unexpected call"))
}

func (f forbiddenFS) ReadFile(name string) ([]byte, error) {
	if err := f.check(name); err != nil {
		return nil, err
	}
	return f.MapFS.ReadFile(name)
}

func (f forbiddenFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.check(name); err != nil {
		return nil, err
	}
	return f.MapFS.ReadDir(name)
}

// TestResolve follows links below the root.
func TestResolve(t *testing.T) {
	link := func(to string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
	}
	r := &tree{FS: fstest.MapFS{
		"nix/store/abc/etc/fstab": {Data: []byte("a")}, "etc/static": link("/nix/store/abc/etc"),
		"etc/fstab": link("static/fstab"), "etc/up": link("../../../nix/store/abc/etc/fstab"), "etc/gone": link("/none"),
		"etc/self": link("self/x"),
	}}
	for name, want := range map[string]string{"etc/fstab": "a", "etc/up": "a", "etc/static/fstab": "a",
		"/etc/static/fstab": "a", "../etc/fstab": "a", "etc/none": ""} {
		if got := r.text(name); got != want || r.missed {
			t.Errorf("%s: %q, missed %v", name, got, r.missed)
		}
	}
	if got := files(r, "etc/static", "tab"); !slices.Equal(got, []string{"etc/static/fstab"}) {
		t.Errorf("%q", got)
	}
	if r.text("etc/gone") != "" || !r.missed || len(r.problems) > 0 {
		t.Error("the content of a link that leads out of the tree is known")
	}
	if r.text("etc/self"); len(r.problems) != 1 {
		t.Errorf("%+v", r.problems)
	}
}

// TestAssignments reads files that a shell reads.
func TestAssignments(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"A=1; B='2 3' # C=4\nexport D=\"5\"":                 {"A": "1", "B": "2 3", "D": "5"},
		"A=1\r\nB=\"$A ${A}\"\r\n":                           {"A": "1", "B": "1 1"},
		"A=x\nA+=y\nA=\"$A z\"":                              {"A": "xy z"},
		"A=\"one \\\n two\"\nB=a\\\nb":                       {"A": "one  two", "B": "ab"},
		"A=\"first\nsecond\"":                                {"A": "first\nsecond"},
		"if [ -e /x ]; then A=1; fi; [ -e /y ] && B=2":       {"A": "1", "B": "2"},
		"echo A=1\nprintf '%s' B=2 | cat":                    {},
		"A='$B' B=\"a\\\"b\\$c\" C=\"${D:-e f}\" E=$(f g=h)": {"A": "$B", "B": "a\"b$c", "C": "${D:-e f}", "E": "$(f g=h)"},
		"A=\"$A b\" B=$UNKNOWN C=`d e`":                      {"A": " b", "B": "$UNKNOWN", "C": "`d e`"},
		"# A=1\nB=a#b\nC= D=":                                {"B": "a#b", "C": "", "D": ""},
		"A=\"open":                                           {"A": "open"},
		"A=$(open b":                                         {"A": "$(open b"},
		"layout = uki":                                       {},
		"1A=2 -B=3 =4":                                       {},
	} {
		if got := assignments(text, map[string]string{}); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	// Variables that contain each other fill neither the memory nor the time.
	for _, line := range []string{"A=$A$A\n", "A=\"$A$A\"\n", "A+=12345678\n", "#\n"} {
		text := "A=12345678\n" + strings.Repeat(line, maxText/len(line))
		if n := len(assignments(text, map[string]string{})["A"]); n > 3*maxExpanded {
			t.Errorf("%d bytes", n)
		}
	}
}

// TestKernelWords divides the arguments of a kernel.
func TestKernelWords(t *testing.T) {
	got := kernelWords(` a="b c"  d "e=f g" ` + "\n" + `h`)
	if want := []string{"a=b c", "d", "e=f g", "h"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestVersions compares versions in all forms; what has no number is unknown.
func TestVersions(t *testing.T) {
	for version, want := range map[string][]int{"v3.1.0": {3, 1, 0}, "zfs-2.4.4-1": {2, 4, 4, 1},
		"2:2.6.1-4": {2, 6, 1, 4}, "6.12.117+deb13-amd64": {6, 12, 117}, "unknown": nil, "": nil} {
		if got := numbers(version); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
	if older("unknown", "2.2") || atLeast("unknown", "0") {
		t.Error("a version without a number is compared")
	}
	if got := release("zfs-2.3.9-0+deb13u1"); got != "2.3.9" {
		t.Errorf("%q", got)
	}
	m := voidMachine()
	m.Tools["zfs"] = "unknown"
	m.ZBM = &installed.ZBM{Version: "git", OpenZFS: "git"}
	for _, f := range check(m) {
		t.Errorf("false alarm: %+v", f)
	}
}
