package engine

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	"ftp": (*fake).ftp, "shutdown": (*fake).bsdShutdown, "sync": (*fake).bsdSync,
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
	return errors.Join(os.RemoveAll(f.keep+"/ffs"), os.Mkdir(f.keep+"/ffs", 0o755), f.flush("ffs"))
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

// bsdSync flushes everything that is mounted.
func (f *fake) bsdSync([]string) error {
	mounts, _ := os.ReadFile(f.run + "/mounts")
	var all []error
	for line := range strings.Lines(string(mounts)) {
		kind := strings.Fields(line)[4]
		all = append(all, f.flush(map[string]string{"msdos": "esp/bsd", "ffs": "ffs", "zfs": "pool/rpool"}[kind]))
	}
	return errors.Join(all...)
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
	if err := f.bsdSync(nil); err != nil {
		return err
	}
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
ssh_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample admin]
users: [{name: anna, groups: [wheel], ssh_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample anna]}]
`
