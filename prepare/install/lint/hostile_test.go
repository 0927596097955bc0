package lint

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
)

// TestFilesThatCannotBeRead checks that a root without files leads to no panic.
func TestFilesThatCannotBeRead(t *testing.T) {
	for _, m := range []*machine{voidMachine(), debianMachine(), grubMachine(), unifiedMachine(), netbsdMachine()} {
		Check(m.System, brokenFS{})
		Check(m.System, nil)
	}
}

type brokenFS struct{}

func (brokenFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

var quotedPart = regexp.MustCompile(`'[^']*'`)

// TestHostileNames gives pools, datasets, disks and files names that a shell would execute, and checks
// that no fix contains them without quotes.
func TestHostileNames(t *testing.T) {
	const command = ";reboot"
	for _, m := range []*machine{voidMachine(), debianMachine(), oldDebianMachine(), grubMachine(), unifiedMachine(),
		sleepingMachine(), mirrorMachine()} {
		for name := range m.files {
			if name != "etc/fstab" && name != "boot/volume.key" {
				delete(m.files, name)
			}
		}
		root := m.Mounts[0].Source
		pool := installed.PoolOf(root)
		m.set(root, "canmount", "on")
		m.set(root, propCommandLine, "rd.luks.uuid="+luksID)
		m.set(root, propReadOnly, "on")
		m.set(pool, propKeySource, pool+"/none")
		m.Modes = map[string]string{"/etc/zfs/" + pool + ".key": "0644"}
		m.pool(pool, func(p *installed.Pool) {
			p.Props = map[string]string{"bootfs": "-", "ashift": "12", "autotrim": "off", "health": "DEGRADED",
				"compatibility": "openzfs-9.9-linux"}
		})
		m.Snapshots = installed.Snapshots{"bpool@today"}
		m.image(func(i *installed.Initramfs) { i.Mode = "0644" })
		m.Kernels[0].Initramfs = ""
		text, err := json.Marshal(m.System)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{pool, "bpool", "nvme0n1", "AAAA-0001", "cryptswap", "vmlinuz", "initrd.img", ".key"} {
			text = bytes.ReplaceAll(text, []byte(name), []byte(name+command))
		}
		s, err := installed.Read("facts", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		found := Check(s, m.files)
		if len(found) < 5 {
			t.Errorf("only %d findings", len(found))
		}
		for _, f := range found {
			if strings.Contains(quotedPart.ReplaceAllString(f.Fix, ""), command) {
				t.Errorf("%s: %s", f.Name, f.Fix)
			}
		}
	}
}

// FuzzConfiguration feeds hostile configuration to every check.
func FuzzConfiguration(f *testing.F) {
	m := voidMachine()
	for _, name := range []string{"etc/crypttab", "etc/fstab", "etc/dracut.conf.d/10-crypt.conf",
		"etc/xbps.d/10-kernel.conf"} {
		f.Add(string(m.files[name].Data), string(m.files["etc/fstab"].Data))
	}
	f.Add("deb [arch=a b] x y z\nmenu=a:load=;;fs", "a b c =,=\n")
	f.Fuzz(func(t *testing.T, one, two string) {
		for _, m := range []*machine{voidMachine(), debianMachine(), oldDebianMachine(), grubMachine(),
			netbsdMachine(), unifiedMachine()} {
			for _, name := range []string{"etc/crypttab", "etc/dracut.conf.d/a.conf", "etc/modprobe.d/zfs.conf",
				"etc/xbps.d/a.conf",
				"etc/apt/sources.list", "etc/apt/sources.list.d/debian.sources", "boot.cfg", "etc/default/grub",
				"etc/kernel/cmdline",
				"etc/initramfs-tools/initramfs.conf", "etc/cryptsetup-initramfs/conf-hook"} {
				m.write(name, one)
			}
			m.write("etc/fstab", two)
			m.set(m.Mounts[0].Source, propCommandLine, two)
			m.set(m.Mounts[0].Source, propKernel, one)
			Check(m.System, m.files)
		}
	})
}
