package engine

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/probe"
	"bakeoff/prepare/install/spec"
	"bakeoff/reach/conn/local"
)

// bsdFakes are the programs of NetBSD. The partition table, the FAT and the files of the sets
// are real: gpt starts sgdisk, newfs_msdos mkfs.vfat, and tar, grep, cp, cmp and dd are those
// of this machine. FAKE_DISK is wd0.
var bsdFakes = map[string]func(f *fake, args []string) error{
	"uname": (*fake).bsdUname, "drvctl": (*fake).drvctl, "atactl": (*fake).atactl, "gpt": (*fake).gpt,
	"dkctl": (*fake).dkctl, "devpubd": (*fake).devpubd, "newfs_msdos": (*fake).newfsMSDOS, "newfs": (*fake).newfs,
	"installboot": (*fake).installboot, "modload": (*fake).modload, "modstat": (*fake).modstat, "cksum": (*fake).cksum,
	"mount": (*fake).bsdMount, "umount": (*fake).bsdUmount, "swapctl": (*fake).swapctl, "chroot": (*fake).bsdChroot,
	"zpool": (*fake).zpool, "zfs": (*fake).zfs, "zdb": (*fake).zdb, "sysctl": (*fake).bsdSysctl,
	"ftp": (*fake).ftp, "shutdown": (*fake).bsdShutdown,
}

func bsdDisk() string { return os.Getenv("FAKE_DISK") }

// bsdOutput runs a program of this machine.
func bsdOutput(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

func (*fake) bsdUname(args []string) error {
	fmt.Println(map[string]string{"-s": "NetBSD", "-r": "11.0", "-m": "amd64"}[args[0]])
	return nil
}

func (*fake) ftp(args []string) error {
	text, err := get(args[2])
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], text, 0o644)
}

func (f *fake) bsdSysctl(args []string) error {
	if name, value, _ := strings.Cut(args[1], "="); name == "init.root" {
		return f.initRoot(args[0], value)
	}
	fmt.Println(map[string]string{"hw.physmem64": "1073741824", "machdep.bootmethod": "UEFI",
		"hw.disknames": "wd0 cd0"}[args[1]])
	return nil
}

// initRoot prints or sets the root that init gives to programs after it has executed /etc/rc.
func (f *fake) initRoot(flag, value string) error {
	if os.Getenv("FAKE_INIT") == "small" {
		return errors.New("top level name 'init' in 'init.root' is invalid")
	}
	old := "/"
	if text, err := os.ReadFile(f.run + "/init-root"); err == nil {
		old = string(text)
	}
	if flag == "-n" {
		fmt.Println(old)
		return nil
	}
	fmt.Printf("init.root: %s -> %s\n", old, value)
	return os.WriteFile(f.run+"/init-root", []byte(value), 0o600)
}

// bsdShutdown keeps what init would start next.
func (f *fake) bsdShutdown(args []string) error {
	if !slices.Equal(args, []string{"now"}) {
		return errors.New("usage: shutdown time")
	}
	if os.Getenv("FAKE_FAIL") == "shutdown" {
		return errors.New("Operation not permitted")
	}
	root, _ := os.ReadFile(f.run + "/init-root")
	mounts, _ := os.ReadFile(f.run + "/mounts")
	began, err := os.OpenFile(f.keep+"/shutdown", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(began, "init.root=%s %s", root, mounts)
		err = errors.Join(err, began.Close())
	}
	return err
}

func (*fake) drvctl(args []string) error {
	if args[1] != "wd0" {
		return errors.New("ENXIO")
	}
	if args[2] == "disk-info/geometry/sector-size" {
		fmt.Println(512)
		return nil
	}
	out, err := bsdOutput("/usr/sbin/blockdev", "--getsz", bsdDisk())
	fmt.Print(out)
	return err
}

func (*fake) atactl([]string) error {
	fmt.Println("Model: QEMU HARDDISK, Rev: 2.5+, Serial #: QM00001")
	return nil
}

func (*fake) swapctl([]string) error {
	fmt.Println("no swap devices configured")
	return nil
}

// gpt is sgdisk, but that add refuses an index that is taken.
func (f *fake) gpt(args []string) error {
	if args[len(args)-1] != "wd0" {
		return errors.New("No such device")
	}
	o, _ := options(args[1:], "aitlsb")
	switch args[0] {
	case "create":
		_, err := bsdOutput("/usr/sbin/sgdisk", "--zap-all", "--clear", bsdDisk())
		return err
	case "add":
		i, kind := o["i"][0], map[string]string{"efi": "ef00", "ffs": "a902", "zfs": "bf01"}[o["t"][0]]
		if out, err := bsdOutput("/usr/sbin/sgdisk", "-i", i, bsdDisk()); err == nil && strings.Contains(out, "unique GUID") {
			return fmt.Errorf("entry at index %s is not free", i)
		}
		size := "0"
		if len(o["s"]) > 0 {
			size = "+" + o["s"][0]
		}
		_, err := bsdOutput("/usr/sbin/sgdisk", "-n", i+":0:"+size, "-t", i+":"+kind, "-c", i+":"+o["l"][0], bsdDisk())
		return err
	case "set":
		_, err := bsdOutput("/usr/sbin/sgdisk", "-A", o["i"][0]+":set:59", bsdDisk())
		return err
	case "show":
		return f.gptShow(o)
	}
	return errors.New("unknown command")
}

func (*fake) gptShow(o map[string][]string) error {
	kind, _ := bsdOutput("/usr/sbin/blkid", "-p", "-s", "PTTYPE", "-o", "value", bsdDisk())
	if strings.TrimSpace(kind) != "gpt" {
		fmt.Print("GPT not found, displaying data from MBR.\n\n  start  size  index  contents\n    0  100      Unused\n")
		return nil
	}
	head := "Pri GPT header"
	if _, ok := o["g"]; ok {
		id, _ := bsdOutput("/usr/sbin/blkid", "-p", "-s", "PTUUID", "-o", "value", bsdDisk())
		head += " - " + id
	}
	fmt.Printf("  start  size  index  contents\n    0     1         PMBR\n    1     1         %s\n", head)
	for _, i := range []string{"1", "2", "3"} {
		out, _ := bsdOutput("/usr/sbin/sgdisk", "-i", i, bsdDisk())
		if _, label, ok := strings.Cut(out, "Partition name: '"); ok {
			label, _, _ = strings.Cut(label, "'")
			fmt.Printf("    2048  1     %s  GPT part - %s\n", i, label)
		}
	}
	return nil
}

var bsdWedges = map[string]string{"EFI": "p1", "boot": "p2", "rpool": "p3"}

func (f *fake) dkctl(args []string) error {
	switch args[1] {
	case "makewedges":
		if _, err := bsdOutput("partx", "-u", bsdDisk()); err != nil {
			return err
		}
		return os.WriteFile(f.run+"/wedges", nil, 0o600)
	case "listwedges":
		if _, err := os.Stat(f.run + "/wedges"); err != nil {
			fmt.Println("/dev/rwd0: no wedges configured")
			return nil
		}
		fmt.Println("/dev/rwd0: 3 wedges:\ndk0: EFI, 1048576 blocks at 2048, type: msdos\n" +
			"dk1: boot, 1048576 blocks at 1050624, type: ffs\ndk2: rpool, 48234462 blocks at 2099200, type: zfs")
		return nil
	}
	return errors.New("unknown command")
}

func (f *fake) devpubd([]string) error {
	if _, err := os.Stat(f.run + "/wedges"); err != nil {
		return err
	}
	for name, part := range bsdWedges {
		to := "/dev/wedges/" + name
		_ = os.Remove(to)
		if err := os.Symlink(bsdDisk()+part, to); err != nil {
			return err
		}
	}
	return nil
}

func (*fake) newfsMSDOS(args []string) error {
	_, err := bsdOutput("/usr/sbin/mkfs.vfat", "-F32", "-n", "EFI", bsdDisk()+bsdWedges[strings.TrimPrefix(
		args[len(args)-1], "NAME=")])
	return err
}

// newfs makes an empty file system, which is a folder.
func (f *fake) newfs([]string) error {
	return errors.Join(os.RemoveAll(f.keep+"/ffs"), os.Mkdir(f.keep+"/ffs", 0o755))
}

func (f *fake) installboot([]string) error {
	return os.WriteFile(f.keep+"/bootblocks", []byte("ffsv2"), 0o600)
}

func (f *fake) modload(args []string) error {
	if _, err := os.Stat(f.run + "/module-" + args[0]); err == nil {
		return errors.New("File exists")
	}
	return os.WriteFile(f.run+"/module-"+args[0], nil, 0o600)
}

func (f *fake) modstat(args []string) error {
	if _, err := os.Stat(f.run + "/module-" + args[1]); err != nil {
		return errors.New("No such file or directory")
	}
	fmt.Println("NAME CLASS SOURCE FLAG REFS SIZE REQUIRES\n" + args[1] + " vfs filesys - 0 123 -")
	return nil
}

// cksum prints digests, and with -c verifies the files that are named of a list; as the real
// one, it says nothing of a file that the list does not have.
func (*fake) cksum(args []string) error {
	sum := func(name string, long bool) (string, error) {
		b, err := os.ReadFile(name)
		if long {
			s := sha512.Sum512(b)
			return hex.EncodeToString(s[:]), err
		}
		s := sha256.Sum256(b)
		return hex.EncodeToString(s[:]), err
	}
	o, rest := options(args, "ac")
	if o["c"] == nil {
		hex, err := sum(rest[0], false)
		fmt.Printf("SHA256 (%s) = %s\n", rest[0], hex)
		return err
	}
	list, err := os.ReadFile(o["c"][0])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		want, ok := strings.CutPrefix(strings.TrimSpace(line), "SHA512 ("+rest[0]+") = ")
		if !ok {
			continue
		}
		if got, err := sum(rest[0], true); err != nil || got != want {
			return fmt.Errorf("(SHA512) %s: FAILED", rest[0])
		}
	}
	return nil
}

// bsdMount shows folders in place of file systems.
func (f *fake) bsdMount(args []string) error {
	if len(args) == 0 {
		mounts, _ := os.ReadFile(f.run + "/mounts")
		fmt.Print("/dev/dk9 on / type ffs (local)\n" + string(mounts))
		return nil
	}
	o, rest := options(args, "t")
	kind, from, at := o["t"][0], rest[0], rest[1]
	dir := f.keep + "/ffs"
	switch kind {
	case "msdos":
		if _, err := bsdOutput("/usr/sbin/blkid", "-p", bsdDisk()+"p1"); err != nil {
			return errors.New("Invalid argument")
		}
		dir = f.keep + "/esp/bsd"
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	case "zfs":
		if _, p, err := f.imported("rpool"); err != nil || p.Sets[from] == nil {
			return errors.New("No such file or directory")
		}
		dir = f.keep + "/pool/" + from
	}
	if err := syscall.Mount(dir, at, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	mounts, _ := os.ReadFile(f.run + "/mounts")
	return os.WriteFile(f.run+"/mounts", fmt.Appendf(mounts, "%s on %s type %s (local)\n", from, at, kind), 0o600)
}

func (f *fake) bsdUmount(args []string) error {
	at := args[len(args)-1]
	if err := syscall.Unmount(at, 0); err != nil {
		return fmt.Errorf("%s: not currently mounted: %w", at, err)
	}
	mounts, _ := os.ReadFile(f.run + "/mounts")
	var left strings.Builder
	for line := range strings.Lines(string(mounts)) {
		if !strings.Contains(line, " on "+at+" type") {
			left.WriteString(line)
		}
	}
	if strings.HasSuffix(at, "/efi") {
		dirs, _ := filepath.Glob(f.keep + "/esp/bsd/*")
		argv := append([]string{"mcopy", "-s", "-o", "-i", bsdDisk() + "p1"}, dirs...)
		if _, err := bsdOutput(append(argv, "::")...); err != nil && len(dirs) > 0 {
			return err
		}
	}
	return os.WriteFile(f.run+"/mounts", []byte(left.String()), 0o600)
}

func (f *fake) bsdChroot(args []string) error { return f.chroot(args) }

const bsdSpec = `schema: bakeoff/install/v1
recipe: netbsd-zfs
disk: /dev/wd0
hostname: netbsd
sets_dir: %s/sets
sets: [base, etc, modules]
ssh_keys: [ssh-ed25519 AAAA admin]
users: [{name: anna, groups: [wheel], ssh_keys: [ssh-ed25519 AAAA anna]}]
`

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
