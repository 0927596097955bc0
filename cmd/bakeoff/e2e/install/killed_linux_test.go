package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// applyLimit bounds an installation under emulation.
const applyLimit = 90 * time.Minute

// moment is a point of an installation: in a step, when it began, shows how long it has been
// running or loads the modules of ZFS, or after it.
type moment struct {
	step string
	when string // "begins", "runs", "loads", "done" or, of what the step took, "released"
	cut  bool   // the power is cut; otherwise bakeoff gets SIGKILL
}

func (m moment) String() string {
	how := "SIGKILL"
	if m.cut {
		how = "a power cut"
	}
	return fmt.Sprintf("%s when %s %s", how, m.step, m.when)
}

// has reports whether the moment came, by lines of the journal and by what bakeoff says. A step that
// is done without its beginning, or sooner than it shows a time, counts, too.
func (m moment) has(journal []byte, said string) bool {
	if m.when == "runs" {
		if text, _ := os.ReadFile(said); bytes.Contains(text, []byte("\n"+m.step+" runs for")) {
			return true
		}
	}
	events := map[string][]string{"begins": {"start", "done"}, "released": {"release"}}[m.when]
	if events == nil {
		events = []string{"done"}
	}
	for line := range bytes.Lines(journal) {
		var l struct{ Event, Step string }
		if json.Unmarshal(line, &l) == nil && l.Step == m.step && slices.Contains(events, l.Event) {
			return true
		}
	}
	return false
}

func journalOf(record string) []byte {
	text, _ := os.ReadFile(filepath.Join(record, "journal.ndjson"))
	return text
}

// loading waits until dkms has begun to load the modules of ZFS, and writes what there is of them to the disk: dkms
// refuses them later if it was interrupted there.
const loading = "until ls -d /mnt/var/lib/dkms/zfs/*/*/* >/dev/null 2>&1; do sleep 0.05; done; zpool sync zroot"

// interrupt applies or resumes an installation until a moment.
func (b *bench) interrupt(m moment, record string, args ...string) {
	b.t.Helper()
	said, err := os.Create(filepath.Join(b.dir, "said"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer said.Close()
	before := len(journalOf(record))
	c := b.h.Command(append(append([]string{"install"}, args...), "--host", cmp.Or(b.host, b.name))...)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	loaded := make(chan struct{})
	if m.when == "loads" {
		go func() {
			defer close(loaded)
			if out, err := b.try(loading); err != nil && b.t.Context().Err() == nil {
				b.t.Errorf("%v: %v\n%s", m, err, out)
			}
		}()
	}
	came := func() bool {
		select {
		case <-loaded:
			return true
		default:
			return m.has(journalOf(record)[before:], said.Name())
		}
	}
	for end := time.Now().Add(applyLimit); !came(); time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(said.Name())
			b.t.Fatalf("it ended before %v: %v\n%s", m, err, text)
		default:
		}
		if time.Now().After(end) {
			b.t.Fatalf("waited %v for %v", applyLimit, m)
		}
	}
	if m.cut {
		b.cut()
		c.Process.Kill() // it would wait for the lost connection
		<-ended
		b.rescue()
		return
	}
	c.Process.Kill()
	<-ended
}

// moments are those of a plan at which TestKilled interrupts: in the middle of the steps that
// destroy and of the longest ones, and, in the long form, after every step. Every tenth cuts the
// power. BAKEOFF_TEST_PART=1/2 selects the first of two of them, the third of four, and so on.
func moments(t *testing.T, plan string) (all []moment) {
	t.Helper()
	text, err := os.ReadFile(plan)
	var p struct {
		Steps []struct{ ID, Destroys, Releases string }
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	long := os.Getenv("BAKEOFF_TEST_LONG") != ""
	for n, s := range p.Steps[:len(p.Steps)-1] { // after the last, there is nothing to resume
		inside := moment{step: s.ID, cut: slices.Contains([]string{"pool", "luks", "zfs", "loader"}, s.ID)}
		switch s.ID {
		case "base", "kernel", "images":
			inside.when = "runs"
		case "zfs":
			inside.when = "loads"
		case "partition", "pool", "luks", "mkswap", "loader", "entry":
			inside.when = "begins"
		default:
			if long && s.Destroys != "" {
				inside.when = "begins"
			}
		}
		if inside.when != "" {
			all = append(all, inside)
		}
		switch {
		case !long:
		case s.Releases != "":
			all = append(all, moment{s.Releases, "released", n%10 == 9})
		default:
			all = append(all, moment{s.ID, "done", n%10 == 9})
		}
	}
	part, parts := 1, 1
	if text := os.Getenv("BAKEOFF_TEST_PART"); text != "" {
		if _, err := fmt.Sscanf(text, "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
			t.Fatalf("BAKEOFF_TEST_PART is %q; write a part such as 1/2", text)
		}
	}
	n := 0
	return slices.DeleteFunc(all, func(moment) bool { n++; return (n-part)%parts != 0 })
}

// TestKilled ends bakeoff and cuts the power while it installs: what it makes is what an
// installation without interruptions made, and it starts.
func TestKilled(t *testing.T) {
	b := newBench(t, "trixie")
	i := b.installed(b.encrypted())
	want, err := os.ReadFile(filepath.Join(i.dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(i.dir, "tree")
	if _, err := os.Stat(tree); err != nil {
		b.overlay(i)
		b.rescue()
		b.keep(tree, b.tree())
		b.off()
	}
	file := filepath.Join(i.dir, "plan.json")
	b.empty(b.dir, 1)
	b.rescue()
	record := filepath.Join(b.dir, "record")
	args := []string{"apply", "--plan", file, "--confirm", hashOf(t, file), "--dir", record}
	for _, m := range moments(t, file) {
		if m.when == "done" && m.has(journalOf(record), os.DevNull) {
			continue // an interruption was a moment late
		}
		began := time.Now()
		b.interrupt(m, record, args...)
		t.Logf("%v, %v after the last", m, time.Since(began).Round(time.Second))
		args = []string{"resume", record}
	}
	b.bakeoff(args...)
	b.verified(record)
	if got := b.made(); got != string(want) {
		t.Errorf("the interrupted installation made\n%s\n\nwithout interruptions it is\n%s", got, want)
	}
	b.sameTree(tree, b.tree())
	b.off()

	b.unlock()
	b.holds()
}

// tree lists every file of the installed system, in the rescue system: path, type, mode, owner,
// target of a link, and digest. The pool is not imported before or after.
func (b *bench) tree() string {
	b.t.Helper()
	return b.run(fmt.Sprintf(`set -e
zpool import -N -o readonly=on -R /mnt -d /dev/disk/by-id/virtio-%[1]s-part3 zroot
echo '%[2]s' | zfs load-key zroot >/dev/null
mount -t zfs -o ro,zfsutil zroot/ROOT/debian /mnt
mount -o ro /dev/disk/by-id/virtio-%[1]s-part1 /mnt/boot/efi
cd /mnt
find boot/efi -printf '%%p\t%%y\n'
find . -xdev -printf '%%P\t%%y %%m %%U:%%G %%l\n' | sort
find . -xdev -type f -print0 | sort -z | xargs -0 sha256sum | sed 's/^\([0-9a-f]*\)  .*\.\/\(.*\)$/\2\t\1/'
cd /
umount /mnt/boot/efi /mnt
i=0 # the pool may stay busy for a moment
until zpool export zroot 2>/run/busy; do
	i=$((i + 1))
	[ $i -lt 60 ] || { cat /run/busy; exit 1; }
	sleep 1
done`, diskSerials[0], passPool))
}

// changing are files whose content differs between two installations by the same plan: keys,
// dates, logs, caches, indexes that a mirror renewed, and what is built from them.
var changing = []string{"/var/log/", "/var/cache/", "/etc/ssh/ssh_host_", "/etc/shadow", "/var/lib/dkms/",
	"/boot/initrd.img-", "/var/lib/dpkg/", "/var/lib/systemd/", "/var/lib/dbus/machine-id", "/var/lib/dracut/",
	"/var/lib/apt/lists/"}

// temporary are files that a killed program may leave: lsinitrd and dracut in temporary folders, and
// setupcon in the folder that it makes for an initramfs.
var temporary = regexp.MustCompile(`^(tmp|var/tmp|run)/|/tmpkbd\.`)

// sameTree asserts that two trees have the same files, whose content may differ for those that change.
func (b *bench) sameTree(kept, now string) {
	b.t.Helper()
	want, err := os.ReadFile(kept)
	if err != nil {
		b.t.Fatal(err)
	}
	b.keep(kept+"-interrupted", now)
	read := func(text string) map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if temporary.MatchString(name) {
				continue
			}
			if len(value) == 64 {
				if slices.ContainsFunc(changing, func(p string) bool { return strings.HasPrefix("/"+name, p) }) {
					continue
				}
				name += " (content)"
			}
			all[name] = value
		}
		return all
	}
	old, got := read(string(want)), read(now)
	if len(old) < 10000 {
		b.t.Errorf("a system of %d files", len(old))
	}
	var differ []string
	for name, value := range got {
		if old[name] != value {
			differ = append(differ, fmt.Sprintf("%s: %q instead of %q", name, value, old[name]))
		}
		delete(old, name)
	}
	for name := range old {
		differ = append(differ, name+" is missing")
	}
	slices.Sort(differ)
	b.t.Logf("compared %d files and contents", len(got))
	if len(differ) > 0 {
		b.t.Errorf("%d files differ from those without interruptions:\n%s", len(differ),
			strings.Join(differ[:min(len(differ), 200)], "\n"))
	}
}
