package bootenv

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// newGRUB is a machine that GRUB starts. Its first environment got a kernel after the snapshot.
func newGRUB() *machine {
	m := newMachine()
	for i := range m.sets {
		m.sets[i].local = nil
	}
	m.ownBoot = true
	m.files = map[string]string{
		"zroot/ROOT/void /modules":           "6.12.9 6.12.10",
		"zroot/ROOT/void-installed /modules": "6.12.9 6.12.8",
	}
	m.updateGRUB()
	return m
}

// updateGRUB writes the menu of the running environment, as the real program does: its entries name
// the root of the machine first, then what the choice adds.
func (m *machine) updateGRUB() {
	line, first := grubRoot+m.root, "0"
	for text := range strings.Lines(m.files[m.root+" "+grubChoice]) {
		if v, ok := strings.CutPrefix(text, `GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX `); ok {
			line += " " + strings.TrimSuffix(strings.TrimSpace(v), `"`)
		}
		if v, ok := strings.CutPrefix(text, "GRUB_DEFAULT="); ok {
			first = strings.Trim(strings.TrimSpace(v), "'")
		}
		if strings.HasPrefix(text, "for kernel in ") { // TestNewestEntry runs it
			for _, kernel := range []string{"6.12.9", "6.12.10"} {
				if slices.Contains(strings.Fields(m.files[m.root+" /modules"]), kernel) {
					first = "gnulinux-advanced-/dev/vda3>gnulinux-" + kernel + "-advanced-/dev/vda3"
				}
			}
		}
	}
	menu := fmt.Sprintf("set default=%q\nsubmenu 'Advanced' $menuentry_id_option 'gnulinux-advanced-/dev/vda3' {\n", first)
	for _, kernel := range []string{"6.12.10", "6.12.9"} {
		menu += fmt.Sprintf("menuentry 'x' $menuentry_id_option 'gnulinux-%[1]s-advanced-/dev/vda3' {\n"+
			"linux /BOOT/debian@/vmlinuz-%[1]s %[2]s\n}\n", kernel, line)
	}
	m.files[grubMenu] = menu
}

// startsByGRUB is the dataset and the kernel that the menu starts.
func (m *machine) startsByGRUB() string {
	menu := m.files[grubMenu]
	_, first, _ := strings.Cut(menu, `set default="`)
	first, _, _ = strings.Cut(first, `"`)
	if first == "0" {
		first = "6.12.10"
	}
	first = strings.TrimSuffix(strings.TrimPrefix(first, "gnulinux-advanced-/dev/vda3>gnulinux-"), "-advanced-/dev/vda3")
	_, line, _ := strings.Cut(menu, "/vmlinuz-"+first+" ")
	line, _, _ = strings.Cut(line, "\n")
	return strings.TrimPrefix(line[strings.LastIndex(line, grubRoot):], grubRoot) + " " + first
}

// TestGRUB goes back to a snapshot on a machine that GRUB starts, and forth again. Whatever command
// an interruption hits, the machine still starts, and the same command ends it.
func TestGRUB(t *testing.T) {
	const first, second = "zroot/ROOT/void 6.12.10", "zroot/ROOT/void-installed 6.12.9"
	whole := newGRUB()
	if got := whole.startsByGRUB(); got != first {
		t.Fatalf("it starts %s at first", got)
	}
	if name, err := read(t, whole).Rollback(t.Context(), "installed"); err != nil || name != "zroot/ROOT/void-installed" {
		t.Fatal(name, err)
	}
	if got := whole.startsByGRUB(); got != second || whole.bootfs != "zroot/ROOT/void-installed" || whole.mounted != "" {
		t.Errorf("it starts %q, bootfs is %s, mounted %q", got, whole.bootfs, whole.mounted)
	}
	for fails := 1; fails < whole.count; fails++ {
		m := newGRUB()
		m.fails = fails
		if e, err := Read(t.Context(), m); err == nil {
			_, err = e.Rollback(t.Context(), "installed")
			if got := m.startsByGRUB(); got != second && (err == nil || got != first) {
				t.Errorf("interrupted at command %d: %v, and it starts %q", fails, err, got)
			}
		}
		if _, err := read(t, m).Rollback(t.Context(), "installed"); err != nil {
			t.Fatal(fails, err)
		}
		if !maps.Equal(m.files, whole.files) || m.startsByGRUB() != second || m.mounted != "" {
			t.Errorf("interrupted at command %d: %v %q", fails, m.files, m.mounted)
		}
	}
	// What the second environment writes when it runs starts the same.
	whole.root = "zroot/ROOT/void-installed"
	whole.updateGRUB()
	if got := whole.startsByGRUB(); got != second {
		t.Errorf("after update-grub there, it starts %s", got)
	}
	if _, err := read(t, whole).Activate(t.Context(), "void"); err != nil || whole.startsByGRUB() != first {
		t.Errorf("%v, it starts %s", err, whole.startsByGRUB())
	}
}

func TestGRUBRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine)
		says   string
		kind   fault.Kind
	}{
		"folder": {func(m *machine) { m.ownBoot = false }, "/boot is a file system of its own", fault.Unsupported},
		"othermenu": {func(m *machine) { m.files[grubMenu] = "linux /vmlinuz root=/dev/sda1" }, "does not name the root",
			fault.Unsupported},
		"nokernel": {func(m *machine) { m.files["zroot/ROOT/void-installed /modules"] = "6.12.8" },
			`has modules for the kernels ["6.12.8"], but /boot has other kernels: ["6.12.9" "6.12.10"]`, fault.Invalid},
		"noentry": {func(m *machine) { m.files[grubMenu] = strings.ReplaceAll(m.files[grubMenu], "6.12.9", "6.12.7") },
			"has no entry for the kernel 6.12.9", fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGRUB()
			c.change(m)
			menu := m.files[grubMenu]
			_, err := read(t, m).Rollback(t.Context(), "installed")
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || m.files[grubMenu] != menu ||
				m.bootfs != "zroot/ROOT/void" {
				t.Errorf("%v, bootfs is %s", err, m.bootfs)
			}
		})
	}
}

func TestMenuEntry(t *testing.T) {
	for _, c := range [][3]string{
		{"submenu 'A' $menuentry_id_option 'gnulinux-advanced-x' {\nmenuentry $menuentry_id_option 'gnulinux-6.1-advanced-x'",
			"6.1", "gnulinux-advanced-x>gnulinux-6.1-advanced-x"},
		{"menuentry $menuentry_id_option 'gnulinux-6.1-advanced-x'", "6.1", "gnulinux-6.1-advanced-x"},
		{"menuentry $menuentry_id_option 'gnulinux-6x1-advanced-x'", "6.1", ""},
		{"menuentry $menuentry_id_option 'gnulinux-6.1-recovery-x'", "6.1", ""},
	} {
		if got, err := grubEntry(c[0], c[1]); got != c[2] || (err == nil) != (c[2] != "") {
			t.Errorf("%s: %q, %v", c[0], got, err)
		}
	}
}

// TestNewestEntry lets a shell choose the newest kernel with modules, where one of them is left over.
func TestNewestEntry(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"boot/vmlinuz-6.1.0-9-amd64", "boot/vmlinuz-6.1.0-50-amd64",
		"boot/vmlinuz-6.1.0-57-amd64", "boot/config-6.1.0-60-amd64", "usr/lib/modules/6.1.0-9-amd64/modules.builtin",
		"usr/lib/modules/6.1.0-50-amd64/modules.builtin", "usr/lib/modules/6.1.0-57-amd64/updates/dkms/zfs.ko"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := newestEntry("gnulinux-advanced-x>gnulinux-6.1.0-9-amd64-advanced-x", "6.1.0-9-amd64")
	script = strings.NewReplacer(" /boot ", " "+dir+"/boot ", "/usr/lib", dir+"/usr/lib").Replace(script)
	out, err := exec.Command("sh", "-euc", script+"\necho \"$GRUB_DEFAULT\"").CombinedOutput()
	got := strings.TrimSpace(string(out))
	if err != nil || got != "gnulinux-advanced-x>gnulinux-6.1.0-50-amd64-advanced-x" {
		t.Errorf("%v: %s", err, got)
	}
}
