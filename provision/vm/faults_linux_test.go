package vm

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
)

// A qcow2 file that names another file of this machine, as a stranger's may, is refused wherever
// a guest could get it, and nothing is made.
func TestDiskThatNamesOtherFiles(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	s, dir := newStore(t), t.TempDir()
	secret := filepath.Join(dir, "shadow")
	if err := os.WriteFile(secret, []byte(strings.Repeat("root:x", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	backed, split := filepath.Join(dir, "backed.qcow2"), filepath.Join(dir, "split.qcow2")
	if err := disk.Overlay(t.Context(), s.Host, secret, "raw", backed); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-o", "data_file="+secret+".data", split,
		"1M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for file, want := range map[string]string{backed: "has a backing file", split: "has its data in another file"} {
		check := func(how string, err error) {
			t.Helper()
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || fault.Fix(err) == "" {
				t.Errorf("%s: %v", how, err)
			}
		}
		_, err := s.Prepare(t.Context(), nil, Source{What: "disk:" + file}, build.Options{})
		check("run", err)
		for how, text := range map[string]string{
			"image":    `{"brand": "kvm", "disks": [{"image": "disk:` + file + `"}]}`,
			"second":   `{"brand": "bhyve", "disks": [{"size": 1}, {"image": "disk:` + file + `"}]}`,
			"nocreate": `{"brand": "kvm", "disks": [{"size": 1}, {"path": "` + file + `", "nocreate": true}]}`,
			"cdrom":    `{"brand": "kvm", "disks": [{"size": 1}, {"path": "` + file + `", "media": "cdrom"}]}`,
		} {
			_, err := s.PrepareManifest(t.Context(), nil, read(t, text), dir, build.Options{})
			check(how, err)
		}
		check("artifact", s.importDisk(t.Context(), file, "qcow2", filepath.Join(dir, "imported")))
		if left, _ := filepath.Glob(filepath.Join(dir, "imported*")); len(left) > 0 {
			t.Errorf("left are %q", left)
		}
	}
	checkEmpty(t, s)
}

// Ten thousand NICs are one mistake, not ten thousand.
func TestTenThousandNICs(t *testing.T) {
	nics := strings.TrimSuffix(strings.Repeat(`{"nic_tag": "a"},`, 10_000), ",")
	_, err := manifest.Read("f", []byte(`{"brand": "kvm", "nics": [`+nics+`]}`))
	if p := manifest.ProblemsOf(err); len(p) != 1 || p[0].Path != "nics" || !strings.Contains(p[0].Reason,
		"10000 items") {
		t.Errorf("%.300v", err)
	}
}

// envFull is set in the process of TestFullDisk whose files are on a small file system.
const envFull = "BAKEOFF_TEST_FULL"

// A disk of this machine that becomes full while a guest is created leaves no part of that guest,
// and the guests that exist are as before. When there is room, the same create succeeds.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(envFull); dir != "" {
		fillDisk(t, dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	dir := t.TempDir()
	c := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -t tmpfs -o size=4m none "$1" && exec "$2" -test.run '^TestFullDisk$' -test.v`, "sh", dir, os.Args[0])
	c.Env = append(os.Environ(), envFull+"="+dir)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFullDisk") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fillDisk is TestFullDisk in a folder with 4 MiB.
func fillDisk(t *testing.T, dir string) {
	s := &Store{State: dir, Host: newStore(t).Host}
	create(t, s, "before")
	content := make([]byte, 6<<20)
	for i := range content {
		content[i] = byte(i)%255 + 1 // no hole
	}
	from := filepath.Join(t.TempDir(), "disk.raw")
	if err := os.WriteFile(from, content, 0o600); err != nil {
		t.Fatal(err)
	}
	fill := func(size int64) error {
		_, err := s.Create(t.Context(), manifest.Guest{Brand: manifest.KVM, Alias: "full"}, Boot{}, func(to string) error {
			if err := os.Truncate(from, size); err != nil {
				return err
			}
			return disk.Import(t.Context(), s.Host, from, "raw", filepath.Join(to, "disk0.qcow2"))
		})
		return err
	}
	err := fill(6 << 20)
	if err == nil || !strings.Contains(err.Error(), "No space left") {
		t.Fatalf("the create says %v", err)
	}
	all, lerr := s.List()
	leases, eerr := s.leases().All(t.Context())
	names, nerr := s.names()
	if err := errors.Join(lerr, eerr, nerr); err != nil || len(all) != 1 || all[0].Alias != "before" || len(leases) != 1 ||
		len(names) != 1 {
		t.Errorf("left are the guests %v, %d leases and the folders %q, %v", all, len(leases), names, err)
	}
	if err := fill(1 << 20); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

// What a guest does is what was written last, even if the clock of this machine has gone back
// since, or was far in the future.
func TestClockThatJumps(t *testing.T) {
	s := newStore(t)
	g := create(t, s, "x")
	for _, years := range []int{50, -50} {
		at := time.Now().AddDate(years, 0, 0).UTC().Format(time.RFC3339Nano)
		f, err := os.OpenFile(g.Path(fileJournal), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(`{"at":"` + at + `","state":"failed","why":"then"}` + "\n")
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if g, err := s.Find("x"); err != nil || g.State != Failed || g.Why != "then" {
			t.Errorf("%d years: %+v, %v", years, g, err)
		}
		if err := writeTransition(g.Path(fileJournal), Transition{State: Stopped, Why: "now"}); err != nil {
			t.Fatal(err)
		}
		if g, err := s.Find("x"); err != nil || g.State != Stopped || g.Why != "now" {
			t.Errorf("%d years, afterwards: %+v, %v", years, g, err)
		}
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	checkEmpty(t, s)
}

// A file that a guest writes to is no other guest's disk, whatever name it has. Nothing is made
// of the second guest. Many may read a CD.
func TestDiskOfAnotherGuest(t *testing.T) {
	s, dir := newStore(t), t.TempDir()
	data, other := filepath.Join(dir, "data.raw"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(data, make([]byte, 1<<20), 0o600), os.Symlink(data, other)); err != nil {
		t.Fatal(err)
	}
	disks := func(path, more string) string {
		return `{"brand": "kvm", "disks": [{"size": 1}, {"path": "` + path + `"` + more + `}]}`
	}
	first := withDisks(t, s, disks(data, `, "nocreate": true`))
	second := withDisks(t, s, disks(data, `, "media": "cdrom"`))
	for _, path := range []string{data, other} {
		m := read(t, disks(path, `, "nocreate": true`))
		_, err := s.Create(t.Context(), m, Boot{}, nil)
		if p := manifest.ProblemsOf(err); len(p) != 1 || p[0].Path != "disks.1.path" ||
			!strings.Contains(p[0].Reason, "guest "+first.UUID+" has this disk") {
			t.Errorf("%s: %v", path, err)
		}
	}
	_, err := second.Update(t.Context(), Origin{Dir: dir}, "u", []byte(`{"add_disks": [{"path": "`+other+
		`", "nocreate": true}]}`))
	if err == nil || !strings.Contains(err.Error(), "has this disk") {
		t.Errorf("update: %v", err)
	}
	if all, err := s.List(); err != nil || len(all) != 2 {
		t.Errorf("%d guests, %v", len(all), err)
	}
}

// A machine that does not boot is named with the end of its console, and with the command that
// shows all of it.
func TestGuestThatNeverBoots(t *testing.T) {
	defer func(d time.Duration) { answerTime = d }(answerTime)
	answerTime = 100 * time.Millisecond
	dir, err := os.MkdirTemp("", "nb") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s := &Store{State: dir, Host: newStore(t).Host}
	g := create(t, s, "slow")
	l, err := net.Listen("unix", g.Path("c")) // QEMU listens, and no agent is behind it
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for console, want := range map[string]string{"": "its console is empty",
		"Waiting for root device /dev/vda...\n": "the end of its console:\nWaiting for root device /dev/vda..."} {
		if err := os.WriteFile(g.ConsoleLog(), []byte(console), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := g.Agent(t.Context())
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "guest slow did not answer within 100ms") ||
			!strings.Contains(err.Error(), want) || !strings.Contains(fault.Fix(err), "vm logs "+g.UUID) {
			t.Errorf("with the console %q: %v; %s", console, err, fault.Fix(err))
		}
	}
}
