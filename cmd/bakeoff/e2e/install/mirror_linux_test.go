package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// espsOf reads the identities of the ESPs of a mirror from its plan.
func espsOf(t *testing.T, i installation) (first, second string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(i.dir, "plan.json"))
	var p struct {
		IDs struct {
			ESP    string
			Second struct{ ESP string }
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.IDs.ESP == "" || p.IDs.Second.ESP == "" {
		t.Fatalf("no ESPs in the plan: %v", err)
	}
	return p.IDs.ESP, p.IDs.Second.ESP
}

// settled waits until the system has mounted the ESPs that are there.
func (b *bench) settled() {
	b.t.Helper()
	b.until("esp-sync has ended", bootLimit, func() bool {
		out, _ := b.try("systemctl show -P ExecMainExitTimestamp esp-sync; systemctl is-active esp-sync")
		return strings.HasSuffix(out, "inactive") && out != "inactive" || strings.HasSuffix(out, "failed")
	})
	b.prints("systemctl is-failed esp-sync || true", "inactive")
}

// healed waits until the pool has both of its disks, up to date. A disk that was away may be read before that,
// which ZFS counts as errors of checksums. A scrub then finds none.
func (b *bench) healed() {
	b.t.Helper()
	b.run("zpool wait -t resilver zroot")
	b.run("zpool clear zroot && zpool scrub -w zroot")
	b.prints("zpool status -x", healthy)
}

// TestMirror installs a system on two disks. It starts it without the first, with both, and
// without the second. What an update writes while the first disk is missing is
// on both ESPs in the end, and starts the system. The loader changes its random seed itself.
func TestMirror(t *testing.T) {
	b := newBench(t, "trixie")
	i := b.installed(b.mirrored())
	first, second := espsOf(t, i)
	b.overlay(i)
	both := b.disks
	const image = "/boot/efi/EFI/Linux/debian-99.test.efi"
	where := "findmnt -n -o PARTUUID --mountpoint /boot/efi | uniq"
	kernel := b.r.Version

	t.Log("without the first disk")
	b.disks = both[1:]
	b.start(false)
	b.login()
	b.startedBy(second)
	b.settled()
	b.prints(where, second)
	b.prints("zpool get -H -o value health zroot", "DEGRADED")
	// What the package of a newer kernel does, without the hour that its module takes.
	b.run("kernel-install add 99.test /boot/vmlinuz-" + kernel + " /boot/initrd.img-" + kernel)
	b.apt("install --reinstall hostname")
	b.prints("ls "+image, image)
	b.off()

	t.Log("with both disks")
	b.disks = both
	b.start(false)
	b.login()
	b.startedBy(first)
	b.settled()
	b.prints(where, first)
	b.prints("diff -r -x random-seed /boot/efi /boot/efi2; ls "+image, image)
	b.healed()
	b.prints("systemctl --failed --no-legend --plain", "")
	b.off()

	t.Log("without the second disk")
	b.disks = both[:1]
	b.start(false)
	b.login()
	b.startedBy(first)
	b.settled()
	b.prints("bootctl status | grep -m1 -o 'debian-[0-9].*efi'", "debian-99.test.efi")
	b.prints(where, first)
	b.prints("zpool get -H -o value health zroot", "DEGRADED")
	b.off()
}
