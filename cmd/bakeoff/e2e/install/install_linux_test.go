package install

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const passPool, passSwap = "correct horse battery", "swap horse battery"

// installation is an installed system that was never started, in bakeoff's cache: disk,
// variables of the firmware, specification, facts of the target and plan.
type installation struct {
	dir   string
	disks int
}

// encrypted is an encrypted system on one disk, which hibernates.
func (b *bench) encrypted() installation { return installation{filepath.Join(b.kept, "installed"), 1} }

// mirrored is a system without encryption on two disks.
func (b *bench) mirrored() installation { return installation{filepath.Join(b.kept, "mirrored"), 2} }

// specification writes the install.yaml of an installation into its folder, with its secrets.
func (b *bench) specification(i installation) string {
	b.t.Helper()
	rest := fmt.Sprintf(`swap_gib: 5
hibernate: true
secrets: {pool: "file:%[1]s/pool", swap: "file:%[1]s/swap", root: "file:%[1]s/root"}
`, i.dir)
	if i.disks == 2 {
		rest = fmt.Sprintf("mirror_disk: /dev/disk/by-id/virtio-%s\nencryption: \"off\"\nsecrets: {root: \"file:%s/root\"}\n",
			diskSerials[1], i.dir)
	}
	args := "console=ttyS0"
	if b.release == "bookworm" { // systemd-stub, which adds them on Debian 13, does not start it
		args += ", " + patience
	}
	for name, text := range map[string]string{
		"pool": passPool, "swap": passSwap, "root": "root:*",
		"install.yaml": fmt.Sprintf(`schema: bakeoff/install/v1
recipe: debian-zfs
release: %[1]s
disk: /dev/disk/by-id/virtio-%[2]s
hostname: installed
kernel: linux-image-%[7]s
kernel_args: [%[10]s]
base: {file: %[8]s, sha256: %[9]s}
modules: {file: %[3]s, sha256: %[4]s}
ssh_keys: ["%[5]s"]
%[6]s`, b.release, diskSerials[0], b.r.Modules.File, b.r.Modules.SHA256, strings.TrimSpace(b.public), rest, b.r.Version,
			b.r.Base.File, b.r.Base.SHA256, args),
	} {
		if err := os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	return filepath.Join(i.dir, "install.yaml")
}

// stopwatch writes lines with the time since it began.
type stopwatch struct {
	w     io.Writer
	began time.Time
}

func (s stopwatch) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(s.w, "%6.0f %s", time.Since(s.began).Seconds(), p)
	return len(p), err
}

// slowest names the steps of a log of apply that took longest.
func slowest(log string) string {
	text, _ := os.ReadFile(log)
	type step struct {
		name         string
		began, ended float64
	}
	var all []step
	for line := range strings.Lines(string(text)) {
		var at float64
		var number, name string
		if n, _ := fmt.Sscan(line, &at, &number, &name); n != 3 {
			continue
		}
		if len(all) > 0 {
			all[len(all)-1].ended = at
		}
		if name, ok := strings.CutSuffix(name, ":"); ok && strings.Contains(number, "/") {
			all = append(all, step{name, at, at})
		}
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(b.ended-b.began, a.ended-a.began) })
	var out []string
	for _, s := range all[:min(8, len(all))] {
		out = append(out, fmt.Sprintf("%s %.0f s", s.name, s.ended-s.began))
	}
	return strings.Join(out, ", ")
}

// bakeoff runs bakeoff install with args on the system that runs, and returns its output. It
// keeps what bakeoff says, which the test shows if bakeoff fails.
func (b *bench) bakeoff(args ...string) string {
	b.t.Helper()
	out, code := b.tryBakeoff(args...)
	if code != 0 {
		said, _ := os.ReadFile(filepath.Join(b.dir, args[0]+".log"))
		b.t.Fatalf("bakeoff install %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, said)
	}
	return out
}

// tryBakeoff is bakeoff for a command that may fail; it returns the exit code too.
func (b *bench) tryBakeoff(args ...string) (string, int) {
	b.t.Helper()
	log, err := os.Create(filepath.Join(b.dir, args[0]+".log"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	var out strings.Builder
	began := time.Now()
	c := b.h.Command(append(append([]string{"install"}, args...), "--host", cmp.Or(b.host, b.name))...)
	c.Stdout, c.Stderr = &out, stopwatch{log, began}
	if err := c.Run(); err != nil && c.ProcessState == nil {
		b.t.Fatal(err)
	}
	b.t.Logf("install %s took %v", args[0], time.Since(began).Round(time.Second))
	return out.String(), c.ProcessState.ExitCode()
}

// hashOf reads the hash of a plan.
func hashOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	var p struct{ Hash string }
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.Hash
}

// verified asserts that the installed system differs from its plan in these steps only.
func (b *bench) verified(record string, steps ...string) {
	b.t.Helper()
	out, code := b.tryBakeoff("verify", record, "--json")
	var found struct{ Drifts []struct{ Step string } }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		said, _ := os.ReadFile(filepath.Join(b.dir, "verify.log"))
		b.t.Fatalf("verify: exit code %d, %v\n%s%s", code, err, out, said)
	}
	var got []string
	for _, d := range found.Drifts {
		got = append(got, d.Step)
	}
	if !slices.Equal(got, steps) || (code == 3) != (len(steps) > 0) {
		b.t.Errorf("verify ends with %d and differences in %q, want %q:\n%s", code, got, steps, out)
	}
}

// unlock starts the installed system and types both passphrases.
func (b *bench) unlock() {
	b.t.Helper()
	began := time.Now()
	b.start(false)
	b.passphrases()
	b.login()
	b.t.Logf("from power on to an answer over SSH: %v", time.Since(began).Round(time.Second))
}

// passphrases types the passphrases of the swap and of the pool, in the order in which the
// console asks for them.
func (b *bench) passphrases() {
	b.t.Helper()
	const swap, pool = "passphrase for disk", "Encrypted ZFS password for"
	asked := func(what string) bool { return strings.Contains(b.console(), what) }
	b.until("the console asks for a passphrase", bootLimit, func() bool { return asked(swap) || asked(pool) })
	if strings.LastIndex(b.console(), swap) > strings.LastIndex(b.console(), pool) {
		b.answer(swap, 1, passSwap)
		b.answer(pool, 1, passPool)
		return
	}
	b.answer(pool, 1, passPool)
	b.answer(swap, 1, passSwap)
}

// prints asserts what a command line prints in the system that runs.
func (b *bench) prints(command, want string) {
	b.t.Helper()
	if got := b.run(command); got != want {
		b.t.Errorf("%s prints %q, want %q", command, got, want)
	}
}

const healthy = "all pools are healthy"

// holds asserts what the plan promises of the system that runs.
func (b *bench) holds() {
	b.t.Helper()
	for _, c := range [][2]string{
		{"findmnt -n -o SOURCE /", "zroot/ROOT/debian"},
		{"zpool status -x", healthy},
		{"zpool get -H -o value bootfs,autotrim,compatibility zroot | tr '\\n' ' '",
			"zroot/ROOT/debian on " + map[string]string{"bookworm": "openzfs-2.1-linux",
				"trixie": "openzfs-2.2-linux"}[b.release]},
		{"zfs get -H -o value encryption,keylocation,compression,acltype,xattr,relatime,canmount zroot/ROOT/debian | " +
			"tr '\\n' ' '", "aes-256-gcm none lz4 posix " + map[string]string{"bookworm": "sa", // as it was set
			"trixie": "on"}[b.release] + " on noauto"},
		{"zfs get -H -o value keylocation zroot", "prompt"},
		{"findmnt -n -o SOURCE /home", "zroot/home"},
		{"swapon --noheadings --show=NAME", "/dev/dm-0"},
		{"hostname", "installed"},
		{"systemctl --failed --no-legend --plain", ""},
		{"stat -c %a /boot/initrd.img-*", "600"},
		{". /etc/default/locale; echo $LANG", "en_US.UTF-8"},
		{"dpkg --audit", ""},
	} {
		b.prints(c[0], c[1])
	}
	b.startedBy("")
	b.t.Logf("zpool status:\n%s", b.run("zpool status"))
}

// startedBy asserts that an entry of the boot loader on an ESP started the system that runs.
// bootctl makes the entry before the step does, by a name of its own.
func (b *bench) startedBy(esp string) {
	b.t.Helper()
	entries := b.run("efibootmgr -v")
	_, current, _ := strings.Cut(entries, "BootCurrent: ")
	current, _, _ = strings.Cut(current, "\n")
	_, entry, _ := strings.Cut(entries, "Boot"+current+"* ")
	entry, _, _ = strings.Cut(entry, "\n")
	loader := map[string]string{"bookworm": `\EFI\debian\grubx64.efi`, "trixie": `\EFI\systemd\systemd-bootx64.efi`}
	if !strings.Contains(entry, loader[b.release]) || !strings.Contains(entry, esp) {
		b.t.Errorf("the machine was not started by the entry that was made on %q:\n%s", esp, entries)
	}
}

// install installs a system on an empty disk by a plan, verifies it, and keeps it.
func (b *bench) install(i installation) installation {
	b.t.Helper()
	if err := os.RemoveAll(i.dir); err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.empty(i.dir, i.disks)
	b.rescue()
	facts := b.bakeoff("probe")
	file, record := filepath.Join(i.dir, "plan.json"), filepath.Join(i.dir, "record")
	b.keep(file, b.bakeoff("plan", b.specification(i), "--json"))
	b.mirror.record.Store(&record) // an installation needs no mirror after its first step that destroys
	b.bakeoff("apply", "--plan", file, "--confirm", hashOf(b.t, file), "--dir", record)
	if n := b.mirror.late.Load(); n > 0 {
		b.t.Errorf("the installation asked the mirror %d times after it was gone", n)
	}
	b.mirror.record.Store(nil)
	b.verified(record)
	if i.disks == 1 {
		b.keep(filepath.Join(i.dir, "made"), b.made())
	}
	b.off()
	b.t.Logf("the slowest steps: %s", slowest(filepath.Join(b.dir, "apply.log")))
	b.keepVariables(filepath.Join(i.dir, "variables"))
	b.keep(filepath.Join(i.dir, "facts.json"), facts) // last: it says that the installation is whole
	return i
}

// made describes what the destructive steps made, in the rescue system. The pool is not
// imported before or after.
func (b *bench) made() string {
	b.t.Helper()
	disk := "/dev/disk/by-id/virtio-" + diskSerials[0]
	return b.run(fmt.Sprintf(`set -e
sfdisk --dump %[1]s | grep -v '^device'
cryptsetup luksDump %[1]s-part2 | grep -E '^(Version|Cipher|Hash|UUID|MK bits|Key Slot)'
blkid -p -o export %[1]s-part1 | grep -E '^(TYPE|UUID|VERSION|FSSIZE)'
zpool import -N -o readonly=on -R /mnt -d %[1]s-part3 zroot
zpool get -H -o property,value ashift,autotrim,bootfs,compatibility,cachefile,feature@encryption zroot
zfs get -H -r -s local -o name,property,value all zroot | grep -v keylocation
zpool export zroot`, disk))
}

func (b *bench) keep(file, text string) {
	b.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// installed returns an installed system: that of the cache, if bakeoff would install the same
// one by the same steps, or a new one.
func (b *bench) installed(i installation) installation {
	b.t.Helper()
	old, err := os.ReadFile(filepath.Join(i.dir, "plan.json"))
	if _, ferr := os.Stat(filepath.Join(i.dir, "facts.json")); err != nil || ferr != nil {
		b.t.Logf("%s has no installation: it is made now", i.dir)
		return b.install(i)
	}
	now, said, code := b.h.Bakeoff(b.t, time.Minute, "install", "plan", b.specification(i), "--facts",
		filepath.Join(i.dir, "facts.json"), "--json")
	if code != 0 {
		b.t.Fatalf("plan again what %s holds: exit code %d\n%s", i.dir, code, said)
	}
	changed := changes(b.t, old, []byte(now))
	if len(changed) == 0 {
		return i
	}
	b.t.Logf("%s is of another plan, so it is made again: %s", i.dir, strings.Join(changed, ", "))
	return b.install(i)
}

// changes names what differs between two plans: steps and members, without the notes for the
// reader.
func changes(t *testing.T, a, b []byte) (all []string) {
	t.Helper()
	parts := func(text []byte) map[string]string {
		var p map[string]json.RawMessage
		var steps []json.RawMessage
		err := json.Unmarshal(text, &p)
		if err == nil {
			err = json.Unmarshal(p["steps"], &steps)
		}
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for name, value := range p {
			if name != "notes" && name != "hash" && name != "steps" {
				out[name] = string(value)
			}
		}
		var order []string
		for _, s := range steps {
			var id struct{ ID string }
			if err := json.Unmarshal(s, &id); err != nil {
				t.Fatal(err)
			}
			out["step "+id.ID] = string(s)
			order = append(order, id.ID)
		}
		out["order of steps"] = strings.Join(order, " ")
		return out
	}
	old, now := parts(a), parts(b)
	for name, value := range now {
		if old[name] != value {
			all = append(all, name)
		}
		delete(old, name)
	}
	return slices.Sorted(slices.Values(slices.AppendSeq(all, maps.Keys(old))))
}

// TestTrixie installs Debian 13 on an empty disk, verifies it, and starts it.
func TestTrixie(t *testing.T) {
	b := newBench(t, "trixie")
	b.overlay(b.install(b.encrypted()))
	b.unlock()
	b.holds()
}

// TestBookworm installs Debian 12 on an empty disk, verifies it, and starts it by GRUB, which
// reads the kernel from a pool of its own.
func TestBookworm(t *testing.T) {
	b := newBench(t, "bookworm")
	b.overlay(b.install(b.encrypted()))
	b.unlock()
	b.holds()
	b.prints("findmnt -n -o SOURCE /boot", "bpool/BOOT/debian")
	b.prints("ls /boot/efi/EFI/debian/grubx64.efi", "/boot/efi/EFI/debian/grubx64.efi")
	b.prints("zpool get -H -o value compatibility bpool", "grub2")
	b.off()
}
