package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/prepare/install/rescue"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm"
)

const (
	// box is the name of the guest, and inBox how bakeoff install reaches it.
	box, inBox = "box", "root@vm:" + box
	// ownDisk is the first disk of the guest's manifest, in the guest.
	ownDisk = "/dev/disk/by-id/virtio-disk0"
	// slowWords are for the kernel of a guest under emulation, as docs/special/installing.md says.
	slowWords = "clearcpuid=erms no_timer_check"
)

// rescueDisk writes a raw disk to a file that UEFI starts: GRUB, and the rescue system, which accepts
// the key of the tests and uses their proxy.
func (b *bench) rescueDisk(file string) {
	b.t.Helper()
	var m qemu.Machine
	if err := b.r.Boot(&m, b.public, b.proxyURL()); err != nil {
		b.t.Fatal(err)
	}
	dir := b.t.TempDir()
	b.keep(filepath.Join(dir, "menu"), fmt.Sprintf("search --file /vmlinuz --set=root\n"+
		"linux /vmlinuz console=ttyS0 %s %s\ninitrd /initrd\nboot\n", slowWords, m.Append))
	out, err := exec.CommandContext(b.t.Context(), "sh", "-ec", `cd "$1"
grub-mkimage -O x86_64-efi -p /grub -c menu -o efi.img part_gpt fat linux normal search search_fs_file boot
truncate -s 127M esp
mformat -i esp -F ::
mmd -i esp ::/EFI ::/EFI/BOOT
mcopy -i esp efi.img ::/EFI/BOOT/BOOTX64.EFI
mcopy -i esp "$2" ::/vmlinuz
mcopy -i esp "$3" ::/initrd
size=$(($(stat -L -c %s "$4") / 1048576))
truncate -s $((size + 129))M "$5"
sgdisk -n 1:1M:+127M -t 1:ef00 -n 2:128M:+${size}M -t 2:8300 "$5"
dd if=esp of="$5" bs=1M seek=1 conv=notrunc,sparse status=none
dd if="$4" of="$5" bs=1M seek=128 conv=notrunc,sparse status=none`, "sh", dir, m.Kernel, m.Initrd, m.Disks[0].Path,
		file).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
}

// vm runs bakeoff vm, and returns its output.
func (b *bench) vm(args ...string) string {
	b.t.Helper()
	out, said, code := b.h.Bakeoff(b.t, stepLimit, append([]string{"vm"}, args...)...)
	if code != 0 {
		b.t.Fatalf("vm %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, said)
	}
	return out
}

// box is what bakeoff vm knows of the guest.
func (b *bench) box() (g vm.Guest) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.vm("get", box)), &g); err != nil {
		b.t.Fatal(err)
	}
	return g
}

// inBoxUntil waits for a condition, as long as the guest runs.
func (b *bench) inBoxUntil(what string, holds func() bool) {
	b.t.Helper()
	for end := time.Now().Add(bootLimit); !holds(); time.Sleep(time.Second) {
		if g := b.box(); g.State != vm.Running {
			b.t.Fatalf("the guest is %s, before %s: %s", g.State, what, b.vm("logs", box))
		}
		if time.Now().After(end) {
			b.t.Fatalf("waited %v for %s: %s", bootLimit, what, b.vm("logs", box))
		}
	}
}

// boots starts the guest and waits until it answers over SSH, by bakeoff vm ssh with some options.
func (b *bench) boots(options ...string) {
	b.t.Helper()
	began := time.Now()
	b.vm("start", box)
	b.answers(began, options...)
}

func (b *bench) answers(began time.Time, options ...string) {
	b.t.Helper()
	argv := append([]string{"vm", "ssh", "root@" + box, "--", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"},
		options...)
	b.inBoxUntil("it answers over SSH", func() bool {
		_, _, code := b.h.Bakeoff(b.t, stepLimit, append(argv, "true")...)
		return code == 0
	})
	b.t.Logf("from bakeoff vm start to an answer over SSH: %v", time.Since(began).Round(time.Second))
}

// typing is bakeoff vm console with an input, and what it printed.
type typing struct {
	in   io.Writer
	mu   sync.Mutex
	said bytes.Buffer
}

func (c *typing) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.Write(p)
}

func (c *typing) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.said.Bytes(), []byte(text))
}

// typePassphrases answers the questions for both passphrases, in the order in which they come. leave
// leaves the console: a busy guest has not read the last keys yet, and QEMU drops what it has not read
// when the console is left.
func (b *bench) typePassphrases() (leave func()) {
	b.t.Helper()
	var c typing
	p := b.h.Command("vm", "console", box)
	in, err := p.StdinPipe()
	if err == nil {
		c.in, p.Stdout = in, &c
		err = p.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	answers := map[string]string{"passphrase for disk": passSwap, "Encrypted ZFS password for": passPool}
	for len(answers) > 0 {
		asked := ""
		b.inBoxUntil("the console asks for a passphrase", func() bool {
			for question := range answers {
				if c.has(question) {
					asked = question
				}
			}
			return asked != ""
		})
		if _, err := fmt.Fprintf(in, "%s\r", answers[asked]); err != nil {
			b.t.Fatal(err)
		}
		delete(answers, asked)
	}
	return func() {
		_, _ = in.Write([]byte{0x1d}) // ^]
		if err := p.Wait(); err != nil {
			b.t.Errorf("vm console: %v", err)
		}
	}
}

// TestGuest installs into a guest of bakeoff vm, from a rescue system that the guest starts from a
// second disk. bakeoff is killed when partition table, pool, LUKS and the base system are there. With
// BAKEOFF_TEST_LONG, the installation continues to its end, and the guest starts from the installed
// disk alone.
func TestGuest(t *testing.T) {
	b := newBench(t, "trixie")
	if what, pkg := bootdisk.Lacks(); what != "" {
		t.Skipf("needs %s: apt-get install %s", what, pkg)
	}
	if _, err := exec.LookPath("sgdisk"); err != nil {
		t.Skip("needs sgdisk: apt-get install gdisk")
	}
	dir := filepath.Join(b.dir, "guest")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	disk, manifest, config := filepath.Join(dir, "rescue.raw"), filepath.Join(dir, "box.json"), filepath.Join(dir, "ssh")
	b.rescueDisk(disk)
	b.keep(manifest, fmt.Sprintf(`{"brand": "bhyve", "alias": %q, "bootrom": "uefi", "ram": 4096, "vcpus": 2,
"autoboot": false, "ports": ["127.0.0.1:%d:22"],
"disks": [{"size": %d}, {"image": "disk:%s", "boot": true}]}`, box, b.port, diskSize>>20, disk))
	known := filepath.Join(dir, "known")
	b.keep(config, fmt.Sprintf("Host *\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n"+
		"  GlobalKnownHostsFile none\n  StrictHostKeyChecking accept-new\n", b.private, known))
	b.h.Env = append(b.h.Env, "BAKEOFF_SSH_CONFIG="+config)
	b.vm("create", "-f", manifest)
	defer func() {
		if t.Failed() {
			out := b.vm("logs", box)
			t.Logf("console:\n%s", out[max(0, len(out)-6000):])
		}
		b.vm("delete", box)
	}()
	b.boots("-F", config)

	// The specification is that of the other tests, for the disk of the guest.
	b.name, b.host = rescue.Host, inBox
	spec := b.specification(installation{dir, 1})
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	b.keep(spec, strings.NewReplacer("/dev/disk/by-id/virtio-"+diskSerials[0], ownDisk, "console=ttyS0",
		strings.Join(strings.Fields("console=ttyS0 "+slowWords+" "+patience), ", ")).Replace(string(text)))
	file, record := filepath.Join(dir, "plan.json"), filepath.Join(dir, "record")
	b.keep(file, b.bakeoff("plan", spec, "--json"))
	b.mirror.record.Store(&record)
	began := time.Now()
	b.interrupt(moment{step: "fstab", when: "begins"}, record, "apply", "--plan", file, "--confirm",
		hashOf(t, file), "--dir", record)
	t.Logf("from apply to the step fstab: %v", time.Since(began).Round(time.Second))
	journal, err := os.ReadFile(filepath.Join(record, "journal.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"partition", "pool", "luks", "base"} {
		done := false
		for line := range strings.Lines(string(journal)) {
			done = done || strings.Contains(line, `"done"`) && strings.Contains(line, `"step":"`+step+`"`)
		}
		if !done {
			t.Errorf("the journal does not say that %s is done:\n%s", step, journal)
		}
	}
	b.prints("chroot /mnt dpkg --audit", "")
	b.bakeoff("undo", record)
	b.prints("zpool list -H -o name", "")
	b.prints("cryptsetup isLuks "+ownDisk+"-part2 && blkid -p -s TYPE -o value "+ownDisk+"-part3", "zfs_member")
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		b.vm("stop", box)
		return
	}
	b.bakeoff("resume", record)
	b.verified(record)
	t.Logf("the slowest steps: %s", slowest(filepath.Join(b.dir, "resume.log")))
	b.vm("stop", box)

	// The guest starts from the installed disk, by the entry that the installation made.
	paths := b.box().Disks
	b.keep(filepath.Join(dir, "remove.json"), fmt.Sprintf(`{"remove_disks": [%q]}`, paths[1].Path))
	b.vm("update", box, "-f", filepath.Join(dir, "remove.json"))
	began = time.Now()
	b.vm("start", box)
	leave := b.typePassphrases()
	// The host key is another one: ssh refuses it, and says how to forget the old one.
	b.inBoxUntil("ssh refuses the new host key", func() bool {
		_, said, _ := b.h.Bakeoff(t, stepLimit, "vm", "ssh", "root@"+box, "--", "-F", config, "-o", "BatchMode=yes", "-o",
			"ConnectTimeout=20", "true")
		return strings.Contains(said, "REMOTE HOST IDENTIFICATION HAS CHANGED")
	})
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-f", known, "-R", "bakeoff-"+b.box().UUID).
		CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	b.answers(began, "-F", config)
	leave()
	b.name = "installed"
	b.holds()
	b.vm("stop", box)
}
