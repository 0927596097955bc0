package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/probe"
	"bakeoff/prepare/install/spec"
	"bakeoff/reach/conn/local"
)

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
		"root": "root:" + hashMark, "anna": "anna:" + hashMark, "zbm.EFI": "image of ZFSBootMenu"} {
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

// cutPower ends the namespace, and takes away what its file systems had not written to the disk.
func (m *machine) cutPower() {
	m.powerOff()
	flushed, _ := filepath.Glob(m.dir + "/keep/flushed/*.tar")
	for _, archive := range flushed {
		what, _, _ := strings.Cut(m.must("tar", "-tf", archive), "\n") // its first entry
		m.must("rm", "-rf", m.dir+"/keep/"+what)
		m.must("tar", "-C", m.dir+"/keep", "-xpf", archive)
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
ssh_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample me"]
zfsbootmenu: {file: %[1]s/zbm.EFI, sha256: %[2]s, ssh_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample menu"]}
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
  - {name: anna, groups: [sudo], password: "file:%[1]s/anna",
     ssh_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample me"]}
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
	for _, name := range []string{"pool", "esp", "nvram", "ffs", "bootblocks", "flushed"} {
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
