package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/probe"
	"bakeoff/prepare/install/spec"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// secretMark is in every secret of the tests.
const secretMark = "hunter2"

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); fakes[name] != nil || bsdFakes[name] != nil {
		os.Exit(fakeMain(name))
	}
	if os.Getenv("ENGINE_CHILD") != "" {
		os.Exit(childMain())
	}
	os.Exit(m.Run())
}

// childMain runs or verifies the installation of a folder in a process that the test kills.
func childMain() int {
	r, err := Open(os.Getenv("ENGINE_CHILD"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	k := &killer{Conn: local.Conn{}, record: r, step: -1}
	if at, how, ok := strings.Cut(os.Getenv("ENGINE_KILL"), ":"); ok {
		k.step, _ = strconv.Atoi(at)
		k.how = how
	}
	e := &Engine{Record: r, Conn: k, Secrets: &Secrets{}, Say: func(line string) { fmt.Println(line) }}
	if os.Getenv("ENGINE_VERIFY") != "" {
		drifts, unchecked, err := e.Verify(context.Background())
		fmt.Println("drifts:", drifts, "unchecked:", unchecked)
		if err != nil || len(drifts) > 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if err := e.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killer ends its own process by kill -9 in the middle of the command of a step (mid), the
// first one to run that is not before step, or after it
// (ran), or after the line of the journal that follows (noted).
type killer struct {
	conn.Conn
	record *Record
	step   int
	how    string
	armed  bool
}

func (k *killer) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	for _, word := range append(slices.Clone(cmd.Argv), cmd.Env...) {
		if strings.Contains(word, secretMark) {
			fmt.Fprintln(os.Stderr, "a secret is in", cmd.Argv[0]+"'s arguments or environment")
			os.Exit(3)
		}
	}
	if k.armed {
		die()
	}
	if cmd.Argv[0] == os.Getenv("ENGINE_LOST") { // the connection is lost while the program runs
		_, err := k.Conn.Exec(ctx, cmd)
		return conn.Exit{}, errors.Join(fault.New(fault.Lab, "lost the connection"), err)
	}
	last := k.record.Lines[len(k.record.Lines)-1]
	at := slices.IndexFunc(k.record.Plan.Steps, func(s plan.Step) bool {
		begun := last.Event == eventStart && last.Step == s.ID || s.Releases != ""
		return begun && slices.Equal(cmd.Argv, s.Argv)
	})
	if k.how == "" || at < k.step {
		return k.Conn.Exec(ctx, cmd)
	}
	fmt.Printf("killed at %d\n", at)
	if k.how == "mid" {
		go func() {
			time.Sleep(3 * time.Millisecond)
			die()
		}()
	}
	exit, err := k.Conn.Exec(ctx, cmd)
	switch k.how {
	case "mid", "ran":
		die()
	default:
		k.armed = true
	}
	return exit, err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// machine is a machine that gets a system: a loop device, and a mount namespace of its own.
type machine struct {
	t              *testing.T
	dir, disk, bin string
	disks, images  []string // disk is the first
	bsd            bool     // it runs NetBSD
	holder         *exec.Cmd
	xbps           *repository // of Void
	deb            *archive    // of Debian
}

func newMachine(t *testing.T, disks int) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for loop devices and a mount namespace")
	}
	for name, pkg := range map[string]string{"sgdisk": "gdisk", "cryptsetup": "cryptsetup-bin", "mkfs.vfat": "dosfstools",
		"mcopy": "mtools", "fsck.vfat": "dosfstools", "partx": "util-linux", "losetup": "mount", "sfdisk": "fdisk"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: apt-get install %s", name, pkg)
		}
	}
	m := &machine{t: t, dir: t.TempDir()}
	m.bin = m.dir + "/bin"
	for _, d := range []string{"bin", "keep", "run", "keys"} {
		if err := os.Mkdir(m.dir+"/"+d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.xbps, m.deb = newRepository(t, m.dir+"/keys"), newArchive(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range fakes {
		if err := os.Symlink(self, m.bin+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	for i := range disks {
		m.attach(fmt.Sprintf("%s/disk%d.img", m.dir, i+1))
	}
	m.disk = m.disks[0]
	m.blank()
	for name, text := range map[string]string{"pool": secretMark + "-pool", "swap": secretMark + "-swap",
		"root": "root:$6$" + secretMark, "anna": "anna:$6$" + secretMark, "zbm.EFI": "image of ZFSBootMenu"} {
		if err := os.WriteFile(m.dir+"/"+name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// attach adds a disk.
func (m *machine) attach(image string) {
	t := m.t
	t.Helper()
	m.must("truncate", "-s", "24G", image)
	out, err := exec.Command("losetup", "-f", "--show", image).CombinedOutput()
	if err != nil {
		t.Skipf("needs loop devices: %v: %s", err, out)
	}
	disk := strings.TrimSpace(string(out))
	m.disks, m.images = append(m.disks, disk), append(m.images, image)
	t.Cleanup(func() {
		m.powerOff()
		m.forgetPartitions(disk)
		_ = exec.Command("losetup", "-d", disk).Run()
		_ = os.Remove("/dev/mapper") // if it is empty, as this test made it
	})
	m.forgetPartitions(disk) // of a file that the device had before
	m.must("sgdisk", "-n", "1:0:0", disk)
	// Who else reads the disk at this moment, such as a scan for devices, keeps partx from it.
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		said, _ := exec.Command("partx", "-u", disk).CombinedOutput()
		if _, err := os.Stat(disk + "p1"); err == nil {
			return
		}
		mounts, _ := os.ReadFile("/proc/self/mounts")
		if !strings.Contains(string(mounts), " /dev devtmpfs ") {
			t.Skip("needs nodes of partitions in /dev, where no devtmpfs is mounted")
		}
		if time.Now().After(end) {
			t.Fatalf("%sp1 does not exist after a minute of partx -u: %s", disk, said)
		}
	}
}

// forgetPartitions takes the partitions of a disk from the kernel. A loop device keeps them when its file is
// detached, and partx -u adds nothing, without an error, where a kept partition overlaps. Who else reads a
// partition at this moment keeps the kernel from it.
func (m *machine) forgetPartitions(disk string) {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		said, _ := exec.Command("partx", "-d", disk).CombinedOutput()
		name := filepath.Base(disk)
		kept, err := filepath.Glob("/sys/block/" + name + "/" + name + "p*")
		if err == nil && len(kept) == 0 {
			return
		}
		if time.Now().After(end) {
			m.t.Errorf("the kernel keeps %q after a minute of partx -d: %s", kept, said)
			return
		}
	}
}

func (m *machine) must(argv ...string) string {
	m.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// powerOn starts the mount namespace: what is in it is lost when the power is cut.
func (m *machine) powerOn() {
	m.t.Helper()
	script := `set -e
mount --make-rprivate /
mkdir -p /dev/mapper
mount -t tmpfs tmpfs /dev/mapper
mount -t tmpfs tmpfs "$1/run"
mkdir -p "$1/run/etc" "$1/run/work" "$1/run/vup" "$1/run/vwork"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/run/etc,workdir=$1/run/work" overlay /etc
mount -t overlay -o "lowerdir=/var,upperdir=$1/run/vup,workdir=$1/run/vwork" overlay /var
mkdir -p /var/db/xbps/keys && cp "$1"/keys/*.plist /var/db/xbps/keys
mkdir -p "$1/run/root/mnt"
mount --bind "$1/run/root/mnt" /mnt
if [ -n "$2" ]; then
	mkdir -p "$1/run/uup/mdec" "$1/run/uwork"
	echo efi > "$1/run/uup/mdec/bootx64.efi"; echo boot > "$1/run/uup/mdec/boot"; echo xx > "$1/run/uup/mdec/bootxx_ffsv2"
	mount -t overlay -o "lowerdir=/usr,upperdir=$1/run/uup,workdir=$1/run/uwork" overlay /usr
	mount -t tmpfs tmpfs /dev/wedges
fi
echo ready
exec sleep 3600`
	netbsd := ""
	if m.bsd {
		netbsd = "yes"
	}
	m.holder = exec.Command("unshare", "--mount", "sh", "-c", script, "sh", m.dir, netbsd)
	m.holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	m.holder.Stderr = &stderr
	out, err := m.holder.StdoutPipe()
	if err == nil {
		err = m.holder.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	ready := make([]byte, 6)
	if n, _ := out.Read(ready); string(ready[:n]) != "ready\n" {
		_ = m.holder.Wait()
		m.t.Skipf("needs a mount namespace with overlay: %s", stderr.String())
	}
}

// powerOff ends the namespace, and with it what was mounted, imported and opened.
func (m *machine) powerOff() {
	if m.holder == nil {
		return
	}
	_ = m.holder.Process.Kill()
	_ = m.holder.Wait()
	m.holder = nil
	// The kernel names the file as the namespace of the machine did, which may lack /dev.
	of := func(back, disk string) bool {
		return filepath.Base(strings.TrimSpace(back)) == filepath.Base(disk)+"p2"
	}
	for _, line := range strings.Fields(m.must("losetup", "--list", "--noheadings", "--output", "NAME")) {
		if back, err := os.ReadFile("/sys/block/" + filepath.Base(line) + "/loop/backing_file"); err == nil &&
			slices.ContainsFunc(m.disks, func(d string) bool { return of(string(back), d) }) {
			m.must("losetup", "-d", line)
		}
	}
}

// run runs the engine in the namespace, and returns its output and exit status.
func (m *machine) run(record string, env ...string) (string, error) {
	self, _ := os.Executable()
	cmd := exec.Command("nsenter", "--mount", "--target", strconv.Itoa(m.holder.Process.Pid), "--", self)
	cmd.Env = append(append(m.env(), "PATH="+m.bin+":/usr/sbin:/usr/bin:/sbin:/bin", "ENGINE_CHILD="+record), env...)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte(secretMark)) {
		m.t.Errorf("a secret is in the output:\n%s", out)
	}
	return string(out), err
}

// env is what the fakes read.
func (m *machine) env() []string {
	all := []string{"FAKE_KEEP=" + m.dir + "/keep", "FAKE_RUN=" + m.dir + "/run"}
	if m.bsd {
		all = append(all, "FAKE_DISK="+m.disk)
	}
	return all
}

// voidSpec and debianSpec are what follows the disk: %[1]s is the folder of the secrets,
// %[2]s the digest of the boot loader, %[3]s the other disk, %[4]s the repository of Void and %[5]s
// that of Debian.
const (
	voidSpec = `recipe: void-zfs
mirror: %[4]s
hibernate: true
swap_gib: 3
desktop: true
flatpak: true
microcode: amd
ssh_keys: ["ssh-ed25519 AAAA me"]
zfsbootmenu: {file: %[1]s/zbm.EFI, sha256: %[2]s, ssh_keys: ["ssh-ed25519 AAAA menu"]}
secrets: {pool: "file:%[1]s/pool", swap: "file:%[1]s/swap", root: "file:%[1]s/root"}
users:
  - {name: anna, groups: [wheel], password: "file:%[1]s/anna"}
`
	mirrorSpec = `recipe: void-zfs
mirror_disk: %[3]s
mirror: %[4]s
swap_gib: 3
zfsbootmenu: {file: %[1]s/zbm.EFI, sha256: %[2]s}
secrets: {pool: "file:%[1]s/pool", swap: "file:%[1]s/swap", root: "file:%[1]s/root"}
`
	plainSpec = `recipe: void-zfs
encryption: off
mirror: %[4]s
swap_gib: 3
zfsbootmenu: {file: %[1]s/zbm.EFI, sha256: %[2]s}
secrets: {swap: "file:%[1]s/swap", root: "file:%[1]s/root"}
`
	grubSpec = `recipe: debian-zfs
release: bookworm
mirror: %[5]s
mirror_disk: %[3]s
swap_gib: 3
secrets: {pool: "file:%[1]s/pool", swap: "file:%[1]s/swap", root: "file:%[1]s/root"}
`
	debianSpec = `recipe: debian-zfs
release: trixie
mirror: %[5]s
hibernate: true
swap_gib: 3
microcode: amd
packages: [vim]
pool: {compression: zstd, properties: {atime: off}}
datasets:
  - {name: var, mountpoint: none}
  - {name: var/tmp, mountpoint: /var/tmp, properties: {setuid: off}}
  - {name: srv, mountpoint: /srv}
secrets: {pool: "file:%[1]s/pool", swap: "file:%[1]s/swap", root: "file:%[1]s/root"}
users:
  - {name: anna, groups: [sudo], password: "file:%[1]s/anna", ssh_keys: ["ssh-ed25519 AAAA me"]}
`
)

// plan makes the plan for the loop device.
func (m *machine) plan(text string) *plan.Plan {
	m.t.Helper()
	var disks []plan.Disk
	for _, name := range m.disks {
		d, ok, err := probe.Disk(m.t.Context(), local.Conn{}, name)
		if err != nil || !ok {
			m.t.Fatalf("the probe does not find %s: %v", name, err)
		}
		disks = append(disks, plan.Disk{Path: name, ByID: name, Serial: d.Serial, Size: d.Size, Logical: d.Logical,
			Known: true})
	}
	sum := sha256.Sum256([]byte("image of ZFSBootMenu\n"))
	text = strings.ReplaceAll(text, "%[1]s", m.dir)
	text = strings.ReplaceAll(text, "%[2]s", hex.EncodeToString(sum[:]))
	text = strings.ReplaceAll(text, "%[3]s", m.disks[len(m.disks)-1])
	text = strings.ReplaceAll(text, "%[4]s", m.xbps.url)
	text = strings.ReplaceAll(text, "%[5]s", m.deb.url)
	text = "schema: " + spec.Schema + "\nhostname: box\ndisk: " + m.disk + "\n" + text
	s, err := spec.Parse("install.yaml", []byte(text))
	if err != nil {
		m.t.Fatal(err)
	}
	p, err := plan.New(s, plan.Target{RAM: 2 << 30, EFI: true, EFIVars: true, Disks: disks})
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// blank makes the disk and the firmware empty.
func (m *machine) blank() {
	m.t.Helper()
	for i, d := range m.disks {
		m.forgetPartitions(d)
		m.must("fallocate", "-p", "-o", "0", "-l", strconv.FormatInt(24<<30, 10), m.images[i])
		m.must("blockdev", "--flushbufs", d)
	}
	for _, name := range []string{"pool", "esp", "nvram", "ffs", "bootblocks"} {
		if err := os.RemoveAll(m.dir + "/keep/" + name); err != nil {
			m.t.Fatal(err)
		}
	}
}

// begin makes the folder of an installation.
func (m *machine) begin(p *plan.Plan, name string) string {
	m.t.Helper()
	r, err := Create(m.dir+"/"+name, p)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		m.t.Fatal(err)
	}
	return r.Dir
}

// endState is what the disk holds, read by programs that did not write it.
func (m *machine) endState() string {
	m.t.Helper()
	var b strings.Builder
	keys, _ := filepath.Glob(m.dir + "/keep/pool/zroot/ROOT/*/boot/volume.key")
	for _, d := range m.disks {
		b.WriteString(m.must("sfdisk", "--dump", d))
		for _, c := range [][]string{{"cryptsetup", "luksUUID", d + "p2"},
			{"blkid", "-p", "-s", "UUID", "-s", "TYPE", d + "p1"}, {"fsck.vfat", "-n", d + "p1"},
			{"mdir", "-b", "-/", "-i", d + "p1", "::"}} {
			b.WriteString(m.must(c...))
		}
		for _, key := range keys {
			m.must("cryptsetup", "open", "--test-passphrase", "--key-file", key, d+"p2")
		}
		dump := m.must("cryptsetup", "luksDump", d+"p2")
		fmt.Fprintf(&b, "%d key slots\n", strings.Count(dump, ": ENABLED"))
		for _, p := range []string{"p3", "p4"} {
			if _, err := os.Stat(d + p); err != nil && p == "p4" {
				continue // the pool that GRUB reads
			}
			label, err := (&fake{}).label(d + p)
			if err != nil {
				m.t.Fatal(err)
			}
			delete(label.Props, "guid")
			text, _ := json.Marshal(label)
			b.Write(text)
		}
	}
	nvram, _ := os.ReadFile(m.dir + "/keep/nvram")
	b.Write(nvram)
	b.WriteString("\n")
	b.WriteString(m.tree(m.dir + "/keep/pool"))
	return b.String()
}

// tree lists the files below a folder with their modes and contents.
func (m *machine) tree(dir string) string {
	m.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case info.Mode().IsRegular() && filepath.Base(name) != "volume.key" && !strings.Contains(name, "/menu_"):
			content, _ := os.ReadFile(name)
			sum := sha256.Sum256(content)
			text = hex.EncodeToString(sum[:])
		case info.Mode()&fs.ModeSymlink != 0:
			text, _ = os.Readlink(name)
		}
		fmt.Fprintf(&b, "%s %s %s\n", strings.TrimPrefix(name, m.dir), info.Mode(), text)
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return b.String()
}

// TestKilled installs once without a disturbance, and then again while the installation is
// killed at some steps (with BAKEOFF_TEST_LONG, at every step in each of three ways),
// some of the times together with the machine. The ends are the same.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device, and is killed many times")
	}
	for _, c := range []struct {
		name, recipe  string
		disks, stride int // each kill costs the checks of all steps before it
	}{{"void", voidSpec, 1, 4}, {"debian", debianSpec, 1, 8}, {"mirror", mirrorSpec, 2, 12}, {"grub", grubSpec, 2, 12},
		{"plain", plainSpec, 1, 20}} {
		t.Run(c.name, func(t *testing.T) { killed(t, newMachine(t, c.disks), c.recipe, c.stride) })
	}
}

func killed(t *testing.T, m *machine, recipe string, stride int) {
	killedUntil(t, m, m.plan(recipe), stride, m.endState)
	m.noSecrets()
}

// killedUntil executes a plan without a disturbance, and then killed on an empty disk, and
// compares the states of the ends.
func killedUntil(t *testing.T, m *machine, p *plan.Plan, stride int, endState func() string) {
	t.Helper()
	m.powerOn()
	record := m.begin(p, "straight")
	watch := watchProcesses(t)
	out, err := m.run(record)
	leaks := watch()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(leaks) > 0 {
		t.Errorf("secrets in %q", leaks)
	}
	want := endState()
	if out, err := m.run(record, "ENGINE_VERIFY=1"); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if got := endState(); got != want {
		t.Errorf("verify changed the system:\n%s", firstDifference(want, got))
	}
	if len(m.disks) > 1 {
		m.mirrored(record)
	}
	hows := []string{"mid", "ran", "noted"}
	rounds := 1
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		rounds, stride = len(hows), 1
	}
	for round := range rounds {
		m.powerOff()
		m.blank()
		m.powerOn()
		record := m.begin(p, fmt.Sprintf("killed-%d", round))
		killed, cut := 0, 0
		for i := 0; i < len(p.Steps); i += stride {
			out, err = m.run(record, fmt.Sprintf("ENGINE_KILL=%d:%s", i, hows[(killed+round)%len(hows)]))
			if err == nil {
				break
			}
			if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) ||
				ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("killed at step %d, %s: %v\n%s", i, p.Steps[max(0, i-1)].ID, err, out)
			}
			_, at, _ := strings.Cut(out, "killed at ")
			at, _, _ = strings.Cut(at, "\n")
			if i, err = strconv.Atoi(at); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			m.unlocked(record)
			killed++
			if killed%5 == 0 { // the machine goes too
				m.powerOff()
				m.powerOn()
				cut++
			}
		}
		if out, err = m.run(record); err != nil && !strings.Contains(out, "has ended") {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("killed %d times in %d steps, %d times with the machine", killed, len(p.Steps), cut)
		if killed < len(p.Steps)/stride/2 {
			t.Errorf("killed only %d times", killed)
		}
		if got := endState(); got != want {
			t.Errorf("the end differs:\n%s", firstDifference(want, got))
		}
	}
}

// unlocked waits until a killed engine's folder is free: a program that was just being started
// still holds what the killed process had open.
func (m *machine) unlocked(record string) {
	for end := time.Now().Add(time.Minute); lock.Held(filepath.Join(record, "lock")) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// mirrored reads both ESPs, which hold the same files, and exchanges the second disk.
func (m *machine) mirrored(record string) {
	m.t.Helper()
	for _, d := range m.disks {
		to := m.dir + "/fat" + filepath.Base(d)
		if err := os.Mkdir(to, 0o700); err != nil {
			m.t.Fatal(err)
		}
		m.must("mcopy", "-s", "-i", d+"p1", "::", to)
	}
	m.must("diff", "-r", m.dir+"/fat"+filepath.Base(m.disks[0]), m.dir+"/fat"+filepath.Base(m.disks[1]))
	if _, err := os.Stat(m.dir + "/fat" + filepath.Base(m.disks[1]) + "/EFI/BOOT/BOOTX64.EFI"); err != nil {
		m.t.Error(err)
	}
	table := m.must("sgdisk", "-p", m.disks[1])
	gpt, _, _ := strings.Cut(strings.SplitAfter(table, "Disk identifier (GUID): ")[1], "\n")
	m.must("sgdisk", "-U", "11111111-2222-8333-8444-555555555555", m.disks[1])
	if out, err := m.run(record, "ENGINE_VERIFY=1"); err == nil || !strings.Contains(out, "another partition table") {
		m.t.Errorf("%v\n%s", err, out)
	}
	m.must("sgdisk", "-U", gpt, m.disks[1])
}

// noSecrets searches the records and what the fakes saw.
func (m *machine) noSecrets() {
	m.t.Helper()
	if b, err := os.ReadFile(m.dir + "/keep/leak"); err == nil {
		m.t.Errorf("a program was started with a secret: %q", b)
	}
	records, _ := filepath.Glob(m.dir + "/*/journal.ndjson")
	searched := 0
	for _, r := range records {
		for _, name := range []string{"plan.json", "journal.ndjson", "log"} {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(r), name))
			if err != nil {
				m.t.Fatal(err)
			}
			if searched++; bytes.Contains(b, []byte(secretMark)) {
				m.t.Errorf("a secret is in %s", name)
			}
		}
	}
	if searched < 6 {
		m.t.Errorf("only %d files were searched", searched)
	}
}

// watchProcesses searches the command lines and environments of all processes for secrets
// until the function that it returns is called. A process with a mark of its own shows that
// it would find one.
func watchProcesses(t *testing.T) func() []string {
	t.Helper()
	const control = "hunter3-control"
	bait := exec.Command("sleep", "3600")
	bait.Env = []string{"BAIT=" + control}
	if err := bait.Start(); err != nil {
		t.Fatal(err)
	}
	stop, found := make(chan struct{}), make(chan []string)
	go func() {
		var leaks []string
		bitten := false
		for {
			dirs, _ := filepath.Glob("/proc/[0-9]*")
			for _, d := range dirs {
				for _, f := range []string{"cmdline", "environ"} {
					b, _ := os.ReadFile(d + "/" + f)
					if bytes.Contains(b, []byte(secretMark)) {
						leaks = append(leaks, string(b))
					}
					bitten = bitten || bytes.Contains(b, []byte(control))
				}
			}
			select {
			case <-stop:
				if !bitten {
					leaks = append(leaks, "the search does not find the bait")
				}
				found <- leaks
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() []string {
		close(stop)
		leaks := <-found
		_ = bait.Process.Kill()
		_ = bait.Wait()
		return leaks
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "- " + x[i] + "\n+ " + y[i]
		}
	}
	return fmt.Sprintf("%d lines and %d lines", len(x), len(y))
}
