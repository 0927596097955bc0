package install

import (
	"bytes"
	"debug/pe"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bakeoff/reach/initramfs"
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

// TestHibernation hibernates Debian 13.
func TestHibernation(t *testing.T) { hibernation(t, "trixie") }

// TestBookwormHibernation hibernates Debian 12.
func TestBookwormHibernation(t *testing.T) { hibernation(t, "bookworm") }

// hibernation hibernates a system with its pool imported and starts it again: it is the same boot,
// a program keeps its memory, and the pool is whole.
func hibernation(t *testing.T, release string) {
	b := newBench(t, release)
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

// unpackImage takes the unified kernel image of an installation apart, so that QEMU starts it.
func (b *bench) unpackImage(of installation) *direct {
	b.t.Helper()
	image := filepath.Join(b.dir, "image.efi")
	out, err := exec.CommandContext(b.t.Context(), "mcopy", "-n", "-i", filepath.Join(of.dir, diskSerials[0])+"@@1M",
		"::EFI/Linux/debian-"+b.r.Version+".efi", image).CombinedOutput()
	if err != nil {
		b.t.Fatalf("mcopy: %v\n%s", err, out)
	}
	f, err := pe.Open(image)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	section := func(name string) []byte {
		s := f.Section(name)
		if s == nil {
			b.t.Fatalf("the image has no section %s", name)
		}
		text, err := s.Data()
		if err != nil {
			b.t.Fatal(err)
		}
		return text[:min(len(text), int(s.VirtualSize))]
	}
	d := &direct{filepath.Join(b.dir, "linux"), filepath.Join(b.dir, "initrd"),
		strings.TrimRight(string(section(".cmdline")), "\x00\n ")}
	b.keep(d.kernel, string(section(".linux")))
	b.keep(d.initrd, string(section(".initrd")))
	return d
}

// with is d with files that replace those of its initramfs.
func (b *bench) with(d *direct, all ...map[string]string) *direct {
	b.t.Helper()
	text, err := os.ReadFile(d.initrd)
	if err != nil {
		b.t.Fatal(err)
	}
	out := bytes.NewBuffer(append(text, make([]byte, (4-len(text)%4)%4)...))
	a := initramfs.New(out)
	for _, files := range all {
		for name, text := range files {
			if err := a.File(name, 0o644, int64(len(text)), strings.NewReader(text)); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	if err := a.Close(); err != nil {
		b.t.Fatal(err)
	}
	other := &direct{d.kernel, d.initrd + "-other", d.append}
	b.keep(other.initrd, out.String())
	return other
}

// Two programs that need no file once they run: one says on the console that it lives, one
// writes to the pool.
const lives = `mkfifo /run/wait1 /run/wait2
nohup bash -c 'exec 3>/dev/ttyS0 4<>/run/wait1; for ((n=0;;n++)); do read -t 1 -u 4; echo "lives $n" >&3; done' \
	>/dev/null 2>&1 &
nohup bash -c 'exec 4<>/run/wait2; text=$(head -c 700000 /dev/urandom | base64 -w0)
	for ((n=0;;n++)); do read -t 1 -u 4; printf %s "$text" >/root/busy$((n % 50)); done' >/dev/null 2>&1 &`

// slow is a drop-in that lets the resume wait for the import, but not for long: without an order
// between them, the import is first.
var slow = map[string]string{"/etc/systemd/system/systemd-hibernate-resume.service.d/slow.conf": "[Service]\n" +
	"ExecStartPre=/bin/sh -c 'n=0; while [ $$n -lt 40 ] && ! systemctl -q is-active zfs-import-scan; do " +
	"sleep 1; n=$$((n+1)); done'\n"}

// ordered are the drop-ins of the import with another text.
func ordered(text string) map[string]string {
	files := map[string]string{}
	for _, unit := range []string{"scan", "cache"} {
		files["/etc/systemd/system/zfs-import-"+unit+".service.d/after-resume.conf"] = "[Unit]\n" + text
	}
	return files
}

const askSwap, askPool = "passphrase for disk", "Encrypted ZFS password for"

// asleep is a hibernated system, which QEMU starts from the files of its unified kernel image.
type asleep struct {
	disks     []disk
	variables string // of the firmware, a file: they say where the image is
	planned   *direct
	boot      string // its ID
}

// fallAsleep starts the encrypted system, lets two programs run in it, and hibernates it.
func (b *bench) fallAsleep(i installation) asleep {
	b.t.Helper()
	b.overlay(i)
	a := asleep{planned: b.unpackImage(i), variables: filepath.Join(b.dir, "asleep")}
	a.planned.append += " systemd.show_status=1 systemd.status_unit_format=name nowatchdog"
	b.direct = a.planned
	b.unlock()
	a.boot = b.run("cat /proc/sys/kernel/random/boot_id")
	b.run("dd if=/dev/urandom of=/root/before bs=1M count=64 2>/dev/null; sha256sum /root/before >/root/sums; sync")
	b.run(lives)
	b.hibernate()
	a.disks = b.disks
	b.keepVariables(a.variables)
	return a
}

// wake switches the machine on as it was when the system fell asleep.
func (b *bench) wake(a asleep, with *direct) {
	b.t.Helper()
	b.branch(a.disks)
	b.variables(a.variables)
	b.direct = with
	b.start(false)
}

var color = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// heard is how often the console said something.
func (b *bench) heard(what string) int {
	return strings.Count(color.ReplaceAllString(b.console(), ""), what)
}

// imported reports whether the console says that the pool was imported.
func (b *bench) imported() bool {
	return b.heard("Finished zfs-import-scan.service") > 0 || b.heard(askPool) > 0
}

// TestImportBeforeResume starts a hibernated system. With the initramfs of the plan, the import of
// the pool is refused while the swap is closed, and does not come before the resume. With an
// initramfs that lacks the order, the import comes first.
func TestImportBeforeResume(t *testing.T) {
	b := newBench(t, "trixie")
	a := b.fallAsleep(b.installed(b.encrypted()))

	t.Log("wrong passphrases of the swap: no import")
	b.wake(a, a.planned)
	wrong := 0
	b.until("the import is refused", bootLimit, func() bool {
		for ; wrong < b.heard(askSwap); wrong++ {
			b.say("wrong")
		}
		return b.heard("Assertion failed for zfs-import-scan.service") > 0 || b.imported()
	})
	if b.imported() {
		t.Error("the pool was imported while the swap was closed")
	}
	b.cut()

	t.Log("the passphrase then, and a slow resume: the system resumes before any import")
	b.direct = b.with(a.planned, slow)
	b.start(false)
	b.answer(askSwap, 1, passSwap)
	b.until("the system is resumed", bootLimit, func() bool { return b.heard("lives ") > 0 || b.imported() })
	if b.imported() {
		t.Error("the pool was imported before the resume")
	}
	b.login()
	b.prints("cat /proc/sys/kernel/random/boot_id", a.boot)
	b.run("zpool scrub -w zroot")
	b.prints("zpool status -x; sha256sum --quiet -c /root/sums", healthy)
	b.cut()

	t.Log("without the order, and a slow resume: the pool is imported first")
	b.wake(a, b.with(a.planned, slow, ordered("")))
	b.answer(askSwap, 1, passSwap)
	b.until("the pool is imported", bootLimit, func() bool { return b.heard("lives ") > 0 || b.imported() })
	if !b.imported() {
		t.Error("the system was resumed before the import, also without the order")
	}
}

var (
	// notSwap are the words of the command line by which the system finds its swap.
	notSwap = regexp.MustCompile(`\b(rd\.luks\.uuid|resume)=\S+ ?`)
	whole   = regexp.MustCompile(`scrub repaired 0B in \S+ with 0 errors(?s:.*)errors: No known data errors`)
	damaged = regexp.MustCompile(`with [1-9][0-9]* errors|cannot import`)
)

// scrubResumed resumes the hibernated system, lets it write to the pool for a minute, and cuts the
// power. It returns what a scrub of the pool in the rescue system finds.
func (b *bench) scrubResumed(a asleep) string {
	b.t.Helper()
	b.direct = a.planned
	b.start(false)
	b.answer(askSwap, 1, passSwap)
	b.until("the resumed system has run for a minute", bootLimit, func() bool {
		return b.heard("lives ") > 60 || b.heard("Kernel panic") > 0
	})
	b.cut()
	b.rescue()
	out, _ := b.try("zpool import -f -N zroot && zpool scrub -w zroot && zpool status zroot")
	b.cut()
	return out
}

// TestUnguardedImport starts a hibernated machine without the swap, and resumes the system later.
// With the initramfs of the plan, the import is refused, and the pool stays whole. With an
// initramfs that does not refuse the import, a second system starts from the pool and writes to
// it, and after the resume the pool is damaged.
func TestUnguardedImport(t *testing.T) {
	b := newBench(t, "trixie")
	a := b.fallAsleep(b.installed(b.encrypted()))
	closed := &direct{a.planned.kernel, a.planned.initrd,
		notSwap.ReplaceAllString(a.planned.append, "") + " luks=no systemd.swap=no"}

	t.Log("a start without the swap, and the resume: the import is refused, and the pool is whole")
	b.wake(a, closed)
	b.until("the import is refused", bootLimit, func() bool {
		return b.heard("Assertion failed for zfs-import-scan.service") > 0 || b.imported()
	})
	if b.imported() {
		t.Error("the pool was imported while the swap was closed")
	}
	b.cut()
	if out := b.scrubResumed(a); !whole.MatchString(out) {
		t.Errorf("the pool after a refused import and the resume:\n%s", out)
	}

	t.Log("the same without the refusal: a second system writes to the pool, and the pool is damaged")
	b.wake(a, b.with(closed, ordered("After=local-fs-pre.target\n")))
	b.answer(askPool, 1, passPool)
	b.login()
	if b.run("cat /proc/sys/kernel/random/boot_id") == a.boot {
		t.Fatal("the hibernated system was resumed")
	}
	b.run("rm -r /usr/share/doc /usr/share/zoneinfo; sync; dd if=/dev/urandom of=/root/other bs=1M count=256; sync")
	b.off()
	out := b.scrubResumed(a)
	if !damaged.MatchString(out) {
		t.Error("the pool is not damaged")
	}
	t.Logf("the pool after an import and the resume:\n%s", out)
}

// TestEnvironments goes back and forth in Debian 13.
func TestEnvironments(t *testing.T) { environments(t, "trixie") }

// TestBookwormEnvironments goes back and forth in Debian 12.
func TestBookwormEnvironments(t *testing.T) { environments(t, "bookworm") }

// environments takes a system through a change that goes wrong: it goes back to a snapshot and
// forth again, and each environment starts with its files.
func environments(t *testing.T, release string) {
	b := newBench(t, release)
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
	// A kernel that is installed there starts this environment.
	if release == "bookworm" {
		b.run("update-grub")
		b.prints("grep -o 'root=ZFS=[^ ]*' /boot/grub/grub.cfg | sort -u | tail -n 1", "root=ZFS=zroot/ROOT/debian-before")
	} else {
		b.run("kernel-install add $(uname -r) /boot/vmlinuz-$(uname -r) /boot/initrd.img-$(uname -r)")
		b.prints("ls /boot/efi/EFI/Linux", "debian-"+b.r.Version+".efi\nenv@debian-before@-"+b.r.Version+".efi")
	}
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
