package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/prepare/install/plan"
	"bakeoff/reach/conn/local"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		check plan.Check
		ok    bool
		out   string
		want  outcome
	}{
		{plan.Check{}, true, "", satisfied},
		{plan.Check{}, false, "", absent},
		{plan.Check{Expect: []string{"available"}}, true, "unavailable\n", conflicting},
		{plan.Check{Expect: []string{"available"}, Replaces: true}, true, "unavailable\n", absent},
		{plan.Check{Expect: []string{"available"}}, true, "a\navailable\n", satisfied},
		{plan.Check{Expect: []string{"a", "b"}}, true, "a\nb\n", conflicting},
		{plan.Check{Expect: []string{"a", "b"}}, true, "b x a\n", satisfied},
		{plan.Check{Expect: []string{"a"}}, true, "\n", absent},
		{plan.Check{Expect: []string{"mode 0"}}, true, "mode 000", conflicting},
		{plan.Check{Expect: []string{"zfs.ko"}}, true, "/extra/zfs.ko.xz\n", satisfied},
		{plan.Check{Expect: []string{"/mnt"}}, true, "/mnt\n", satisfied},
		{plan.Check{Empty: true}, true, "\n", satisfied},
		{plan.Check{Empty: true}, true, "/boot/initramfs\n", conflicting},
		{plan.Check{Empty: true}, false, "", absent},
	} {
		if got := judge(c.check, c.ok, c.out); got != c.want {
			t.Errorf("%+v with %q gave %d, want %d", c.check, c.out, got, c.want)
		}
	}
}

// TestCause finds what a failed command says of its cause.
func TestCause(t *testing.T) {
	for said, want := range map[string]string{
		"Reading...\nE: Unable to locate package x\nE: setup failed: E: apt-get\nI: main() received signal PIPE\n" +
			"E: mmdebstrap failed to run\n": "E: Unable to locate package x",
		"cannot create 'zroot'\ninvalid property\n": "invalid property",
		"Need to get 59.1 MB of archives.\nE: You don't have enough free space in /x/archives/.\n": "Need to get 59.1 MB " +
			"of archives. E: You don't have enough free space in /x/archives/.",
		"Need to get 59.1 MB of archives.\nE: Some files failed to download\n": "E: Some files failed to download",
		"dpkg: error processing package zfs-dkms (--configure):\n installed zfs-dkms package post-installation script " +
			"subprocess returned error exit status 4\ndpkg: error processing package zfs-zed (--configure):\n dependency " +
			"problems - leaving unconfigured\nErrors were encountered while processing:\n zfs-dkms\n zfs-zed\nE: Sub-process " +
			"/usr/bin/dpkg returned an error code (1)\n": "dpkg: error processing package zfs-dkms (--configure): installed " +
			"zfs-dkms package post-installation script subprocess returned error exit status 4",
		"": "",
	} {
		if got := cause(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add("available", "unavailable\n")
	f.Fuzz(func(t *testing.T, expect, out string) {
		got := judge(plan.Check{Expect: []string{expect}}, true, out)
		if got == satisfied && !strings.Contains(out, expect) {
			t.Errorf("%q is not in %q", expect, out)
		}
	})
}

// taken returns what is mounted below /mnt in the namespace of a machine, and what is open.
func (m *machine) taken() string {
	m.t.Helper()
	out, err := exec.Command("nsenter", "--mount", "--target", strconv.Itoa(m.holder.Process.Pid), "--", "sh", "-c",
		`grep " /mnt/" /proc/self/mountinfo; ls /dev/mapper; ls "$1" | grep pool-`, "sh", m.dir+"/run").Output()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		m.t.Fatal(err)
	}
	return string(out)
}

// TestFails lets a late step fail: what the steps took is released, the pool is exported, and
// resume ends the installation. What does not fit is refused.
func TestFails(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device")
	}
	m := newMachine(t, 1)
	p := m.plan(voidSpec)
	m.powerOn()
	before := m.taken() // of the machine that tests
	record := m.begin(p, "fails")
	out, err := m.run(record, "FAKE_FAIL=kwrite")
	if err == nil || !strings.Contains(out, "the mirror is gone") || !strings.Contains(out, "install resume "+record) {
		t.Fatalf("%v\n%s", err, out)
	}
	if left := m.taken(); left != before {
		t.Errorf("left behind:\n%s", left)
	}
	if label, err := (&fake{}).label(m.disk + "p3"); err != nil || !label.Exported {
		t.Errorf("the pool is not exported: %v", err)
	}
	r, err := Look(record)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Status()
	if s.Next != "desktop" || s.Done < 60 || !strings.HasPrefix(s.Failed, "desktop: ") || s.PoolGUID == "" {
		t.Errorf("the status is %+v", s)
	}
	m.refuses(record)
	// dracut leaves a module out. The image is mended by hand.
	out, err = m.run(record, "FAKE_OMIT=resume")
	if err == nil || !strings.Contains(out, "image-modules: ") || !strings.Contains(out, "printed no line with resume") {
		t.Fatalf("%v\n%s", err, out)
	}
	image, err := os.OpenFile(m.dir+"/keep/pool/zroot/ROOT/void/boot/initramfs-6.12.img", os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = image.WriteString("add_dracutmodules+=\" resume \"\n")
	}
	if err = errors.Join(err, image.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := m.run(record); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A file of the system changes, and a property.
	for name, text := range map[string]string{"/etc/fstab": "none", "/etc/hostname": "other\n"} {
		if err := os.WriteFile(m.dir+"/keep/pool/zroot/ROOT/void"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	label, err := (&fake{}).label(m.disk + "p3")
	if err != nil {
		t.Fatal(err)
	}
	label.Props["bootfs"] = "zroot/ROOT/old"
	label.Exported = false // the system ran: only its hostid imports the pool without force
	if err := (&fake{}).writeLabel(m.disk+"p3", label); err != nil {
		t.Fatal(err)
	}
	m.powerOff()
	m.powerOn()
	before = m.taken()
	out, err = m.run(record, "ENGINE_VERIFY=1")
	for _, want := range []string{"{fstab ", "{hostname ", "{bootfs "} {
		if err == nil || !strings.Contains(out, want) || strings.Count(out, "sha256sum") != 2 {
			t.Errorf("the drift %s is not in\n%s", want, out)
		}
	}
	if left := m.taken(); left != before {
		t.Errorf("verify left behind:\n%s", left)
	}
}

// TestKeptPartitions partitions a disk whose old partitions the kernel keeps. One run of partx leaves out
// the new ones that overlap them.
func TestKeptPartitions(t *testing.T) {
	m := newMachine(t, 1)
	m.must("sgdisk", "-n", "1:0:+10M", "-n", "2:0:+10M", "-n", "3:0:+10M", m.disk)
	m.must("partx", "-u", m.disk)
	m.must("fallocate", "-p", "-o", "0", "-l", strconv.Itoa(24<<30), m.images[0])
	m.must("blockdev", "--flushbufs", m.disk)
	p := m.plan(voidSpec)
	m.powerOn()
	record := m.begin(p, "kept")
	nodes := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.ID == "nodes" })
	if out, err := m.run(record, fmt.Sprintf("ENGINE_KILL=%d:mid", nodes+1)); err == nil ||
		!strings.Contains(out, fmt.Sprintf("killed at %d\n", nodes+1)) {
		t.Fatalf("%v\n%s", err, out)
	}
	for i := range 3 {
		want := m.must("sgdisk", "-i", strconv.Itoa(i+1), m.disk)
		size, err := os.ReadFile(fmt.Sprintf("/sys/class/block/%sp%d/size", filepath.Base(m.disk), i+1))
		if err != nil || !strings.Contains(want, "Partition size: "+strings.TrimSpace(string(size))+" sectors") {
			t.Errorf("the kernel has %q, %v, and the table\n%s", size, err, want)
		}
	}
	log, err := os.ReadFile(record + "/log")
	if n := strings.Count(string(log), "partx"); err != nil || n < 2 {
		t.Errorf("partx ran %d times, so nothing was left out: %v", n, err)
	}
}

// refuses tries to resume with another partition table, another plan, and another disk.
func (m *machine) refuses(record string) {
	m.t.Helper()
	table := m.must("sgdisk", "-p", m.disk)
	gpt := strings.ToUpper(strings.Split(strings.SplitAfter(table, "Disk identifier (GUID): ")[1], "\n")[0])
	m.must("sgdisk", "-U", "11111111-2222-8333-8444-555555555555", m.disk)
	if out, err := m.run(record); err == nil || !strings.Contains(out, "another partition table") {
		m.t.Errorf("%v\n%s", err, out)
	}
	m.must("sgdisk", "-U", gpt, m.disk)
	other := m.begin(m.plan(voidSpec), "other")
	if out, err := m.run(other); err == nil || !strings.Contains(out, "changed since the plan was made") {
		m.t.Errorf("a disk with content was accepted: %v\n%s", err, out)
	}
	journal, err := os.ReadFile(filepath.Join(record, "journal.ndjson"))
	if err != nil {
		m.t.Fatal(err)
	}
	changed := bytes.Replace(journal, []byte(`"plan":"`), []byte(`"plan":"0`), 1)
	if err := os.WriteFile(filepath.Join(other, "journal.ndjson"), changed, 0o600); err != nil {
		m.t.Fatal(err)
	}
	if _, err := Look(other); err == nil || !strings.Contains(err.Error(), "another plan or disk") {
		m.t.Errorf("the journal of another plan gave %v", err)
	}
}

// TestSecrets reads references, and refuses what is not safe.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"good": 0o600, "open": 0o644} {
		if err := os.WriteFile(dir+"/"+name, []byte("two words\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("a", maxSecret)
	for name, text := range map[string]string{"crlf": "two words\r\n", "long": long, "longer": long + "b"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &Secrets{}
	for ref, want := range map[string]string{"file:" + dir + "/good": "two words", "command:echo a b": "a b",
		"file:" + dir + "/crlf": "two words", "file:" + dir + "/long": long, `command:printf %s "a  b"`: "a  b"} {
		if got, err := s.get(ref, ref); err != nil || string(got) != want {
			t.Errorf("%s gave %q, %v", ref, got, err)
		}
	}
	for ref, want := range map[string]string{"file:" + dir + "/open": "chmod 600", "prompt": "not a terminal",
		"file:" + dir + "/longer": "longer than 4096 bytes", "command: ": "the command is empty", "command:true": "empty"} {
		_, err := s.get(ref, ref)
		if err == nil || !strings.Contains(err.Error()+fault.Fix(err), want) {
			t.Errorf("%s gave %v", ref, err)
		}
	}
	if got := s.scrub("it is two words."); strings.Contains(got, "two") {
		t.Errorf("%q shows a secret", got)
	}
}

// TestUsable refuses secrets with which nobody could open the pool or log in, and shows none of them.
func TestUsable(t *testing.T) {
	const hash = "$6$salt$0123456789abcdefghijklmnopqrstuvwxyz"
	for _, c := range [][3]string{{"pool", "hunter2 hunter2", ""}, {"pool", "hunter2", "length: 7 bytes"},
		{"pool", "hunter2\rhunter2", "has a control character"}, {"pool", "hunter2\nhunter2", "has more than one line"},
		{"swap", "hunter2\x00", "has a control character"}, {"swap", "\r", "has a control character"}, {"swap", "ü", ""},
		{"root", "root:" + hash, ""}, {"root", "root:*", ""}, {"root", "root:!", ""}, {"root", "root:!" + hash, ""},
		{"root", "root:$y$j9T$salt./$" + hash[9:], ""}, {"root", "root:$2b$12$" + hash[8:], ""},
		{"root", "hunter2", "the secret root does not begin with root:; write root:HASH; openssl passwd -6 or mkpasswd"},
		{"root", hash, "does not begin with root:"}, {"root", "anna:" + hash, "does not begin with root:"},
		{"root", "root:hunter2", "the secret root has no hash of a password after root:"},
		{"root", "root:$6$salt", "has no hash"}, {"root", "root:" + hash + ":1", "has no hash"},
		{"root", "root:" + hash + " ", "has no hash"}, {"root", "root:", "has no hash"},
		{"user-anna", "anna:" + hash, ""}, {"user-anna", "root:" + hash, "the secret user-anna does not begin with anna:"},
		{"user-anna", "anna:hunter2", "write anna:HASH"}} {
		err := usable(c[0], []byte(c[1]))
		if text := fmt.Sprint(err, "; ", fault.Fix(err)); (err == nil) != (c[2] == "") ||
			!strings.Contains(text, c[2]) || strings.Contains(text, "hunter2") {
			t.Errorf("%s %q: %s, want %q", c[0], c[1], text, c[2])
		}
	}
}

// TestOwnFiles refuses files that the mounts of the new system would hide, and a folder of downloads with files that
// bakeoff did not make.
func TestOwnFiles(t *testing.T) {
	for _, c := range [][2]string{{"", ""}, {"debian/base.tar", ""}, {"debian/var/x", ""},
		{"debian/dists/x", "files that bakeoff did not make, such as dists; move these files, or make a plan"},
		{"link", "leads to /mnt/base.tar, below /mnt, where the new system is mounted; put the file into"}} {
		dir := t.TempDir()
		base := dir + "/base.tar"
		switch {
		case c[0] == "link":
			if err := os.Symlink("/mnt/base.tar", base); err != nil {
				t.Fatal(err)
			}
		case c[0] != "":
			if err := os.MkdirAll(dir+"/"+c[0], 0o700); err != nil {
				t.Fatal(err)
			}
		}
		e := &Engine{Conn: local.Conn{}, Record: &Record{Plan: &plan.Plan{Recipe: "debian-zfs", Steps: []plan.Step{
			{ID: "base-verify", Argv: []string{"sha256sum", base}},
			{ID: "download-clear", Argv: []string{"rm", "-rf", dir + "/debian"}},
			{ID: "wipe", Argv: []string{"wipefs", "/mnt"}, Destroys: "all"}}}}}
		err := e.ownFiles(t.Context())
		if text := fmt.Sprint(err, "; ", fault.Fix(err)); (err == nil) != (c[1] == "") || !strings.Contains(text, c[1]) {
			t.Errorf("%s: %s, want %q", c[0], text, c[1])
		}
		e.states = map[string]string{"download-clear": eventDone}
		if err := e.ownFiles(t.Context()); err != nil {
			t.Errorf("%s, after the step: %v", c[0], err)
		}
	}
}
