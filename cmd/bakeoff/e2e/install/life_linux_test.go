package install

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// hibernate hibernates the system, and waits until the machine is off.
func (b *bench) hibernate() {
	b.t.Helper()
	// 255: the connection ended before the answer, with the machine.
	out, err := b.try("systemctl hibernate")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() != 255 {
		b.t.Fatalf("systemctl hibernate: %v\n%s", err, out)
	}
	select {
	case <-b.guest.Process.Ended():
	case <-time.After(bootLimit):
		b.t.Fatal("the machine has not hibernated")
	}
	b.serial.Close()
	b.guest = nil
}

// TestHibernation hibernates the system with its pool imported and starts it again: it is the
// same boot, a program keeps its memory, and the pool is whole.
func TestHibernation(t *testing.T) {
	b := newBench(t, "trixie")
	b.overlay(b.installed(b.encrypted()))
	b.unlock()
	const word = "kept-in-memory"
	b.run("nohup sh -c 'word=" + word + "; while :; do sleep 1; echo $word >/run/word; done' >/dev/null 2>&1 &")
	boot := b.run("cat /proc/sys/kernel/random/boot_id")
	b.run("dd if=/dev/urandom of=/root/before bs=1M count=64 2>/dev/null; sha256sum /root/before >/root/sums; sync")
	began := time.Now()
	b.hibernate()
	asleep := time.Now()
	b.start(false)
	b.answer("passphrase for disk", 1, passSwap)
	b.login()
	t.Logf("hibernated in %v, resumed in %v", asleep.Sub(began).Round(time.Second),
		time.Since(asleep).Round(time.Second))
	b.prints("cat /proc/sys/kernel/random/boot_id", boot)
	b.run("rm -f /run/word; while ! [ -e /run/word ]; do sleep 1; done")
	b.prints("cat /run/word", word)
	b.run("sha256sum --quiet -c /root/sums && dd if=/dev/urandom of=/root/after bs=1M count=16 2>/dev/null && sync")
	b.run("zpool scrub -w zroot")
	b.prints("zpool status -x", healthy)
}

// TestEnvironments takes the system through a change that goes wrong: it goes back to a snapshot
// and forth again, and each environment starts with its files.
func TestEnvironments(t *testing.T) {
	b := newBench(t, "trixie")
	b.overlay(b.installed(b.encrypted()))
	b.unlock()
	b.bakeoff("env", "snapshot", "before")
	b.run("rm -r /etc/apt /usr/share/zoneinfo; echo wrong >/etc/motd; echo kept >/home/kept; sync")
	if out := b.bakeoff("env", "rollback", "before"); out != "zroot/ROOT/debian-before starts next\n" {
		t.Errorf("rollback prints %q", out)
	}
	b.off()

	b.unlock()
	b.prints("findmnt -n -o SOURCE /", "zroot/ROOT/debian-before")
	b.prints("ls -d /etc/apt /usr/share/zoneinfo", "/etc/apt\n/usr/share/zoneinfo")
	b.prints("cat /home/kept", "kept")
	b.prints("systemctl --failed --no-legend --plain", "")
	b.prints("zpool status -x", healthy)
	// The image of a kernel that is installed there starts this environment.
	b.run("kernel-install add $(uname -r) /boot/vmlinuz-$(uname -r) /boot/initrd.img-$(uname -r)")
	b.prints("ls /boot/efi/EFI/Linux", "debian-"+b.r.kernel+".efi\nenv@debian-before@-"+b.r.kernel+".efi")
	b.bakeoff("env", "activate", "debian")
	b.off()

	b.unlock()
	b.prints("findmnt -n -o SOURCE /", "zroot/ROOT/debian")
	b.prints("cat /etc/motd", "wrong")
	list := b.bakeoff("env", "list")
	if !strings.Contains(list, "debian: runs, starts next\n  debian@before\n") ||
		!strings.Contains(list, "debian-before: from zroot/ROOT/debian@before\n") {
		t.Errorf("env list prints\n%s", list)
	}
}
