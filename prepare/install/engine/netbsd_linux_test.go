package engine

import (
	"bytes"
	"crypto/sha512"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/probe"
	"bakeoff/prepare/install/spec"
	"bakeoff/reach/conn/local"
)

// repository makes a folder with sets, kernel, RAM disk and their checksums.
func (m *machine) repository() {
	m.t.Helper()
	sets := m.dir + "/sets"
	for name, files := range map[string][]string{"base": {"bin/sh", "sbin/init"},
		"etc": {"etc/passwd", "etc/shadow", "dev/MAKEDEV"},
		"modules": {"stand/amd64/11.0/modules/zfs/zfs.kmod", "stand/amd64/11.0/modules/solaris/solaris.kmod",
			"stand/amd64/11.0/modules/nfs/nfs.kmod"}} {
		from := m.dir + "/tree-" + name
		for _, f := range files {
			text := name + " " + f + "\n"
			switch f {
			case "etc/passwd":
				text = "root:x:0:0::/root:/bin/sh\n"
			case "dev/MAKEDEV":
				text = "[ \"$1\" = all ] && rm -f null console && mknod null c 1 3 && mknod console c 5 1\n"
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(from+"/"+f), 0o755), os.MkdirAll(from+"/root", 0o755),
				os.WriteFile(from+"/"+f, []byte(text), 0o644)); err != nil {
				m.t.Fatal(err)
			}
		}
		if err := os.MkdirAll(sets, 0o755); err != nil {
			m.t.Fatal(err)
		}
		m.must("tar", "-cJf", sets+"/"+name+".tar.xz", "-C", from, ".")
	}
	var list bytes.Buffer
	for _, f := range []string{"netbsd-GENERIC.gz", "ramdisk-zfsroot.fs"} {
		if err := os.WriteFile(sets+"/"+f, []byte(f), 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
	for _, f := range []string{"netbsd-GENERIC.gz", "ramdisk-zfsroot.fs", "base.tar.xz", "etc.tar.xz", "modules.tar.xz",
		"games.tar.xz"} { // the last one was not downloaded
		b, _ := os.ReadFile(sets + "/" + f)
		fmt.Fprintf(&list, "SHA512 (%s) = %x\n", f, sha512.Sum512(b))
	}
	if err := os.WriteFile(sets+"/SHA512", list.Bytes(), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// asNetBSD gives a machine the programs of NetBSD.
func (m *machine) asNetBSD() {
	m.t.Helper()
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	m.bin = m.dir + "/bsd"
	if err := os.Mkdir(m.bin, 0o700); err != nil {
		m.t.Fatal(err)
	}
	for name := range bsdFakes {
		if err := os.Symlink(self, m.bin+"/"+name); err != nil {
			m.t.Fatal(err)
		}
	}
	m.bsd = true
	m.repository()
	if err := bsdFolders(); err != nil {
		m.t.Fatal(err)
	}
	for _, dir := range []string{"/altroot", "/dev/wedges"} {
		if os.Mkdir(dir, 0o755) == nil {
			m.t.Cleanup(func() { _ = os.Remove(dir) })
		}
	}
}

// bsdFolders waits until no other process runs these tests: the folders have fixed names, and whoever ends
// first removes them. The lock lasts as long as the process.
var bsdFolders = sync.OnceValue(func() error {
	f, err := os.Open("/dev")
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		bsdLock = f // a file that is not in use any more would be closed
	}
	return err
})

var bsdLock *os.File

// bsdPlan makes the plan from what the probe sees, with more lines of the specification.
func (m *machine) bsdPlan(more string) *plan.Plan {
	m.t.Helper()
	for _, kv := range append(m.env(), "PATH="+m.bin+":"+os.Getenv("PATH")) {
		k, v, _ := strings.Cut(kv, "=")
		defer os.Setenv(k, os.Getenv(k)) // the test itself is no NetBSD
		os.Setenv(k, v)
	}
	facts, err := probe.Read(m.t.Context(), local.Conn{})
	if err != nil {
		m.t.Fatal(err)
	}
	s, err := spec.Parse("install.yaml", fmt.Appendf(nil, bsdSpec+more, m.dir))
	if err != nil {
		m.t.Fatal(err)
	}
	p, err := plan.New(s, plan.TargetOf(facts))
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// bsdState is what the disk holds in the end, read by programs that did not write it.
func (m *machine) bsdState() string {
	m.t.Helper()
	var b strings.Builder
	for line := range strings.Lines(m.must("sfdisk", "--dump", m.disk)) {
		if strings.HasPrefix(line, "label-id:") { // gpt draws the GUIDs
			continue
		}
		before, after, ok := strings.Cut(line, "uuid=")
		if ok {
			_, after, _ = strings.Cut(after, ",")
			line = before + after
		}
		b.WriteString(line)
	}
	for _, c := range [][]string{{"fsck.vfat", "-n", m.disk + "p1"}, {"mdir", "-b", "-/", "-i", m.disk + "p1", "::"}} {
		b.WriteString(m.must(c...))
	}
	label, err := (&fake{}).label(m.disk + "p3")
	if err != nil {
		m.t.Fatal(err)
	}
	fmt.Fprintf(&b, "%s exported %v %v\n", label.Name, label.Exported, label.Sets)
	for _, dir := range []string{"pool", "ffs"} {
		b.WriteString(m.tree(m.dir + "/keep/" + dir))
	}
	return b.String()
}

// TestNetBSD installs NetBSD, is killed in the middle of steps, and gets to the same end. A
// set that does not fit its checksum stops the installation before the disk is touched.
func TestNetBSD(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device, and is killed many times")
	}
	m := newMachine(t, 1)
	m.asNetBSD()
	p := m.bsdPlan("")
	for _, damage := range []string{"etc.tar.xz", "SHA512"} {
		m.powerOn()
		whole, err := os.ReadFile(m.dir + "/sets/" + damage)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.dir+"/sets/"+damage, bytes.Replace(whole, []byte("SHA512 (etc"), []byte("SHA512 (gone"), 1),
			0o644); err != nil {
			t.Fatal(err)
		}
		if damage != "SHA512" {
			if err := os.Truncate(m.dir+"/sets/"+damage, 20); err != nil {
				t.Fatal(err)
			}
		}
		out, err := m.run(m.begin(p, "damaged-"+damage))
		if want := map[string]string{"SHA512": "verify-list", "etc.tar.xz": "etc.tar.xz: FAILED"}[damage]; err == nil ||
			!strings.Contains(out, want) || strings.Contains(out, "partition: write") {
			t.Errorf("a damaged %s gave %v\n%s", damage, err, out)
		}
		if err := os.WriteFile(m.dir+"/sets/"+damage, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		m.powerOff()
	}
	m.powerOn()
	out, err := m.run(m.begin(m.bsdPlan("release: 11.0.1\n"), "other-release"))
	if err == nil || !strings.Contains(out, "modules and kernel are of one release") || !strings.Contains(out,
		"no line with ./stand/amd64/11.0.1/modules/") || strings.Contains(out, "partition: write") {
		t.Errorf("modules of another release gave %v\n%s", err, out)
	}
	m.untouched()
	m.powerOff()
	killedUntil(t, m, p, 5, m.bsdState)
	if want := "/keep/pool/rpool/ROOT/home/anna/.ssh/authorized_keys"; !strings.Contains(m.bsdState(), want) {
		t.Errorf("%s is not in\n%s", want, m.bsdState())
	}
}

// TestNetBSDInit ends an installation in each way of init. With restart, the new root is mounted and is
// that of init when all programs end, and the loss of the connection is no failure. If shutdown fails,
// everything is released, and resume repeats it. An init that starts no other root stops the
// installation before the disk is touched, unless the plan does not need it.
func TestNetBSDInit(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device")
	}
	m := newMachine(t, 1)
	m.asNetBSD()
	m.powerOn()
	p := m.bsdPlan("init: restart\n")
	record := m.begin(p, "restart")
	out, err := m.run(record, "FAKE_INIT=small")
	if err == nil || !strings.Contains(out, "plan with init: none") || !strings.Contains(out, "is invalid") {
		t.Fatalf("%v\n%s", err, out)
	}
	m.untouched()
	if out, err = m.run(record, "FAKE_FAIL=shutdown"); err == nil || !strings.Contains(out, "not permitted") {
		t.Fatalf("%v\n%s", err, out)
	}
	if root := m.inside("cat", m.dir+"/run/init-root"); root != "/" {
		t.Errorf("after a failure, the root of init is %q", root)
	}
	if want := "rpool exported true"; !strings.Contains(m.bsdState(), want) {
		t.Errorf("%s is not in\n%s", want, m.bsdState())
	}
	if out, err = m.run(record, "ENGINE_LOST=shutdown"); err != nil || !strings.Contains(out, "the connection ended") {
		t.Fatalf("%v\n%s", err, out)
	}
	began, err := os.ReadFile(m.dir + "/keep/shutdown")
	if err != nil || !strings.HasPrefix(string(began), "init.root=/altroot ") ||
		!strings.Contains(string(began), "rpool/ROOT on /altroot type zfs") || strings.Count(string(began), "\n") != 1 {
		t.Errorf("%v: shutdown saw %s", err, began)
	}

	// Killed while all programs end, the step is over: a second one would end the new system.
	m.powerOff()
	m.blank()
	m.powerOn()
	record = m.begin(p, "killed")
	if out, err = m.run(record, fmt.Sprintf("ENGINE_KILL=%d:ran", len(p.Steps)-1)); err == nil {
		t.Fatalf("not killed\n%s", out)
	}
	m.unlocked(record)
	if out, err = m.run(record); err == nil || !strings.Contains(out, "has ended") {
		t.Errorf("%v\n%s", err, out)
	}

	m.powerOff()
	m.blank()
	m.powerOn()
	if out, err = m.run(m.begin(m.bsdPlan("init: none\n"), "none"), "FAKE_INIT=small"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "rpool exported true"; !strings.Contains(m.bsdState(), want) {
		t.Errorf("%s is not in\n%s", want, m.bsdState())
	}
}

// TestNetBSDMirror downloads the sets from a mirror. A set that does not fit its checksum stops the
// installation before the disk is touched. After it was removed, resume downloads it again.
func TestNetBSDMirror(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device")
	}
	m := newMachine(t, 1)
	m.asNetBSD()
	served := m.dir + "/mirror/NetBSD-11.0/amd64/"
	for folder, files := range map[string]string{"binary/kernel": "netbsd-GENERIC.gz", "binary/sets": "*.tar.xz",
		"installation/ramdisk": "ramdisk-zfsroot.fs"} {
		m.must("mkdir", "-p", served+folder)
		m.must("sh", "-c", "cp "+m.dir+"/sets/SHA512 "+m.dir+"/sets/"+files+" "+served+folder)
	}
	m.must("rm", "-r", m.dir+"/sets")
	s := httptest.NewServer(http.FileServer(http.Dir(m.dir + "/mirror")))
	defer s.Close()
	record := m.begin(m.bsdPlan("mirror: "+s.URL+"/\ninit: prepare\n"), "mirror")
	whole, err := os.ReadFile(served + "binary/sets/base.tar.xz")
	if err == nil {
		err = os.WriteFile(served+"binary/sets/base.tar.xz", []byte("<html>busy</html>"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.powerOn()
	if out, err := m.run(record); err == nil || !strings.Contains(out, "base.tar.xz: FAILED") {
		t.Fatalf("a spoiled set gave %v\n%s", err, out)
	}
	if got := m.must("wipefs", m.disk); got != "" {
		t.Errorf("the disk was touched:\n%s", got)
	}
	m.must("rm", m.dir+"/sets/base.tar.xz")
	if err := os.WriteFile(served+"binary/sets/base.tar.xz", whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := m.run(record); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"rpool exported false", "/keep/pool/rpool/ROOT/bin/sh", "/keep/ffs/netbsd.gz"} {
		if !strings.Contains(m.bsdState(), want) {
			t.Errorf("%s is not in\n%s", want, m.bsdState())
		}
	}
}

// TestNetBSDUpdate runs the script that updates kernel, RAM disk and modules together: the old
// kernel stays in the menu, and a file that does not fit its checksum changes nothing.
func TestNetBSDUpdate(t *testing.T) {
	if testing.Short() {
		t.Skip("makes sets")
	}
	m := newMachine(t, 1)
	m.asNetBSD()
	script := m.bsdPlan("").Step("update").Stdin.Text
	root := m.dir + "/installed"
	for name, text := range map[string]string{"/boot-ffs/netbsd.gz": "old kernel", "/boot-ffs/ramdisk-zfsroot.fs": "old",
		"/boot-ffs/boot.cfg": "menu=Boot NetBSD with its root on ZFS:load /stand/amd64/10.1/modules/zfs/zfs.kmod;" +
			"fs /ramdisk-zfsroot.fs;boot /netbsd.gz\ndefault=1\n", "/update.sh": script} {
		err := errors.Join(os.MkdirAll(filepath.Dir(root+name), 0o755), os.WriteFile(root+name, []byte(text), 0o755))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"mount", "umount"} {
		_ = os.Remove(m.bin + "/" + name)
		if err := os.WriteFile(m.bin+"/"+name, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	update := func() (string, error) {
		cmd := exec.Command("sh", root+"/update.sh", m.dir+"/sets", root)
		cmd.Env = append(m.env(), "PATH="+m.bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if err := os.WriteFile(m.dir+"/sets/ramdisk-zfsroot.fs", []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := m.tree(root)
	if out, err := update(); err == nil || !strings.Contains(out, "ramdisk-zfsroot.fs: FAILED") || m.tree(root) != before {
		t.Errorf("a damaged RAM disk gave %v\n%s", err, out)
	}
	if err := os.WriteFile(m.dir+"/sets/ramdisk-zfsroot.fs", []byte("ramdisk-zfsroot.fs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := update(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	menu, _ := os.ReadFile(root + "/boot-ffs/boot.cfg")
	for _, want := range []string{"load /stand/amd64/11.0/modules/solaris/solaris.kmod;load " +
		"/stand/amd64/11.0/modules/zfs/zfs.kmod;fs /ramdisk-zfsroot.fs;boot /netbsd.gz\n",
		"menu=Boot single user:load /stand/amd64/11.0/modules/solaris/solaris.kmod;load " +
			"/stand/amd64/11.0/modules/zfs/zfs.kmod;fs /ramdisk-zfsroot.fs;boot /netbsd.gz -s\n",
		"load /stand/amd64/10.1/modules/zfs/zfs.kmod;fs /ramdisk-old.fs;boot /netbsd.old.gz\n"} {
		if !strings.Contains(string(menu), want) {
			t.Errorf("%q is not in\n%s", want, menu)
		}
	}
	for name, want := range map[string]string{"netbsd.gz": "netbsd-GENERIC.gz", "netbsd.old.gz": "old kernel",
		"ramdisk-old.fs": "old", "ramdisk-zfsroot.fs": "ramdisk-zfsroot.fs"} {
		if b, _ := os.ReadFile(root + "/boot-ffs/" + name); string(b) != want {
			t.Errorf("%s holds %q", name, b)
		}
	}
	for _, at := range []string{"/boot-ffs", ""} {
		if _, err := os.Stat(root + at + "/stand/amd64/11.0/modules/zfs/zfs.kmod"); err != nil {
			t.Error(err)
		}
	}
}
