package lint

import (
	"io/fs"
	"testing"
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
