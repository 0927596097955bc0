package bootenv

import (
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// images is what systemd-boot and the files of environments keep: files by dataset and path,
// and those of the ESP by name.
type images struct {
	files   map[string]string // "DATASET PATH"
	esp     map[string]string // the command line of an image, by its name
	mounted string            // at mountDir
	pattern string            // the loader's default
	ownBoot bool              // /boot is a file system of its own
	fails   int               // the number of the command that does not end; 0 is none
	count   int
}

// newImages is a machine that systemd-boot starts.
func newImages() *machine {
	m := newMachine()
	for i := range m.sets {
		m.sets[i].local = nil
	}
	m.files = map[string]string{
		"zroot/ROOT/void /etc/kernel/cmdline":     "root=zfs:zroot/ROOT/void resume=/dev/mapper/cryptswap quiet\n",
		"zroot/ROOT/void /etc/kernel/entry-token": "debian\n",
	}
	m.esp = map[string]string{"debian-6.12.9.efi": "root=zfs:zroot/ROOT/void resume=/dev/mapper/cryptswap quiet"}
	m.pattern = "debian-*"
	return m
}

// starts is the dataset that the machine starts next; "" if no image fits the default.
func (m *machine) starts() (dataset string) {
	for _, name := range slices.Sorted(maps.Keys(m.esp)) {
		if ok, _ := path.Match(m.pattern, name); ok && strings.HasSuffix(name, ".efi") {
			f := strings.Fields(m.esp[name])
			dataset = strings.TrimPrefix(f[0], rootArg)
		}
	}
	return dataset
}

// file is the key of a file of an environment, or of /boot.
func (m *machine) file(name string) string {
	if m.ownBoot && strings.HasPrefix(name, "/boot/") {
		return name
	}
	if in, ok := strings.CutPrefix(name, mountDir); ok {
		return m.mounted + " " + in
	}
	return m.root + " " + name
}

func (m *machine) image(cmd conn.Cmd) (out, problem string, known bool) {
	if m.count++; m.count == m.fails {
		return "", "killed", true
	}
	a := cmd.Argv
	last := a[len(a)-1]
	option := func(name string) string { return a[slices.Index(a, name)+1] }
	switch {
	case a[0] == "cat":
		text, ok := m.files[m.file(last)]
		if !ok {
			return "", "No such file or directory", true
		}
		return text, "", true
	case a[0] == "install":
		text, _ := io.ReadAll(cmd.Stdin)
		m.files[m.file(last)] = string(text)
	case a[0] == "mv":
		from, to := a[len(a)-2], last
		if name, ok := strings.CutPrefix(to, "/boot/efi/EFI/Linux/"); ok {
			m.esp[name] = m.esp[path.Base(from)]
			delete(m.esp, path.Base(from))
			break
		}
		m.files[m.file(to)] = m.files[m.file(from)]
		delete(m.files, m.file(from))
	case a[0] == "findmnt" && slices.Contains(a, "-l"):
		out = m.root + " /\n"
		if m.mounted != "" {
			out += m.mounted + " " + mountDir + "\n"
		}
	case a[0] == "mount":
		if m.mounted != "" || m.find(a[len(a)-2]) == nil {
			return "", "cannot mount", true
		}
		m.mounted = a[len(a)-2]
		for key, text := range maps.Clone(m.files) { // a clone has the files of its origin
			of, file, _ := strings.Cut(key, " ")
			if s := m.find(m.mounted); strings.HasPrefix(s.origin, of+"@") && m.files[m.mounted+" "+file] == "" {
				m.files[m.mounted+" "+file] = text
			}
		}
	case a[0] == "umount":
		m.mounted = ""
	case a[0] == "ls":
		out = "config-6.12.9\nvmlinuz-6.12.9\ninitrd.img-6.12.10\nvmlinuz-6.12.10\n"
	case a[0] == "find" && a[len(a)-1] == "modules.builtin": // each environment has modules for other kernels
		for _, kernel := range strings.Fields(m.files[m.file(strings.TrimSuffix(a[1], "/usr/lib/modules")+"/modules")]) {
			out += a[1] + "/" + kernel + "/modules.builtin\n"
		}
	case a[0] == "mountpoint":
		if !m.ownBoot {
			return "", "not a mountpoint", true
		}
	case a[0] == "update-grub":
		m.updateGRUB()
	case a[0] == "ukify":
		m.esp[path.Base(option("--output"))] = option("--cmdline")
	case a[0] == "bootctl" && a[1] == "set-default":
		m.pattern = last
	case a[0] == "bootctl":
		out = "/boot/efi\n"
	case a[0] == "mkdir", a[0] == "find":
	default:
		return "", "", false
	}
	return out, "", true
}

// TestImages goes back to a snapshot on a machine that systemd-boot starts, and forth again.
// Whatever command an interruption hits, the same command ends it.
func TestImages(t *testing.T) {
	const second = "zroot/ROOT/void-installed"
	whole := newImages()
	e := read(t, whole)
	if name, err := e.Rollback(t.Context(), "installed"); err != nil || name != second {
		t.Fatal(name, err)
	}
	if got := whole.starts(); got != second || whole.bootfs != second || whole.mounted != "" {
		t.Errorf("it starts %q, bootfs is %s, mounted %q", got, whole.bootfs, whole.mounted)
	}
	if got := whole.files[second+" /etc/kernel/cmdline"]; got !=
		"root=zfs:"+second+" resume=/dev/mapper/cryptswap quiet\n" {
		t.Errorf("its kernels get %q", got)
	}
	if got := whole.esp["env@void-installed@-6.12.10.efi"]; !strings.Contains(got, second) {
		t.Errorf("the image of its newest kernel has %q", got)
	}
	for fails := 1; fails < whole.count; fails++ {
		m := newImages()
		m.fails = fails
		if e, err := Read(t.Context(), m); err == nil {
			_, err = e.Rollback(t.Context(), "installed")
			if got := m.starts(); err == nil || got == "" {
				t.Errorf("interrupted at command %d: %v, and it starts %q", fails, err, got)
			}
		}
		if _, err := read(t, m).Rollback(t.Context(), "installed"); err != nil {
			t.Fatal(fails, err)
		}
		if !maps.Equal(m.files, whole.files) || !maps.Equal(m.esp, whole.esp) || m.starts() != second || m.mounted != "" {
			t.Errorf("interrupted at command %d: %v %v %q", fails, m.files, m.esp, m.mounted)
		}
	}
	built := len(whole.esp)
	if _, err := read(t, whole).Activate(t.Context(), "void"); err != nil || whole.starts() != "zroot/ROOT/void" ||
		len(whole.esp) != built {
		t.Errorf("%v, it starts %q from %v", err, whole.starts(), whole.esp)
	}
	// The command line of the running environment decides what starts it.
	m := newImages()
	m.files["zroot/ROOT/void /etc/kernel/cmdline"] = "root=/dev/sda1\n"
	if _, err := read(t, m).Rollback(t.Context(), "installed"); !fault.Is(err, fault.Unsupported) || len(m.sets) != 3 {
		t.Errorf("%v, %d datasets", err, len(m.sets))
	}
}
