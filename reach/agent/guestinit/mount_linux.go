package guestinit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/reach/wire"
)

type mountPoint struct {
	kind, target string
	flags        uintptr
	data         string
	optional     bool // a kernel may be built without it
}

// kernelMounts are what init needs before it reads its configuration.
var kernelMounts = []mountPoint{
	{kind: "proc", target: "/proc", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{kind: "sysfs", target: "/sys", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{kind: "devtmpfs", target: "/dev", flags: unix.MS_NOSUID, data: "mode=0755"},
}

// rootMounts are what programs expect in addition.
var rootMounts = []mountPoint{
	{kind: "devpts", target: "/dev/pts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, data: "gid=5,mode=0620,ptmxmode=0666",
		optional: true},
	{kind: "tmpfs", target: "/dev/shm", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=1777"},
	{kind: "tmpfs", target: "/run", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=0755"},
	{kind: "tmpfs", target: "/tmp", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=1777"},
	{kind: "cgroup2", target: "/sys/fs/cgroup", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, optional: true},
}

func mountAll(points []mountPoint) error {
	for _, m := range points {
		// If the directory cannot be created, mount reports an error.
		_ = os.MkdirAll(m.target, 0o755)
		err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.data)
		if err != nil && !m.optional && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
		}
	}
	return nil
}

// useConsole makes the console standard input, output and error. The kernel may
// have failed to open it at the start.
func useConsole() error {
	f, err := os.OpenFile("/dev/console", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil // a machine may have no console
	}
	defer f.Close()
	for fd := range 3 {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("console: %w", err)
		}
	}
	return nil
}

// loadModule loads an uncompressed kernel module.
func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("module %s: %w", filepath.Base(path), err)
	}
	return nil
}

// enterRoot mounts the root, moves the existing mounts into it, and makes it
// "/": from then on every path of a host's request is a path in the guest. The
// agent stays visible in it.
func (in *initProcess) enterRoot() error {
	if in.config.Root == "" && in.config.RootDisk == "" {
		if err := os.MkdirAll(wire.GuestScratch, 0o777); err != nil {
			return err
		}
		return mountAll(rootMounts)
	}
	const root = "/root"
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	device, err := in.rootDevice()
	if err != nil {
		return err
	}
	if err := unix.Mount(device, root, in.config.RootType, unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mount the root from %s as %s: %w", device, in.config.RootType, err)
	}
	if err := showAgent(root); err != nil {
		return err
	}
	for _, m := range kernelMounts {
		if err := os.MkdirAll(root+m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.target, root+m.target, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", m.target, err)
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	return mountAll(rootMounts)
}

// showAgent binds the running executable into root, and empties the folder for files of runs:
// the machine may have stopped in one.
func showAgent(root string) error {
	at := root + wire.GuestAgent
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(root + wire.GuestScratch); err != nil {
		return err
	}
	if err := os.MkdirAll(root+wire.GuestScratch, 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	f.Close()
	if err := unix.Mount("/init", at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the agent: %w", err)
	}
	return nil
}

// findDisk returns the block device with this serial number, or the partition whose name
// follows partitionRoot.
func findDisk(serial string) (string, error) {
	if part, ok := strings.CutPrefix(serial, partitionRoot); ok {
		return findPartition(part)
	}
	name, err := findDevice("/sys/block/*", func(disk string) bool { return serialOf(disk) == serial })
	if err != nil {
		return "", fmt.Errorf("there is no disk with the serial number %q", serial)
	}
	return "/dev/" + name, nil
}

// serialOf returns the serial number of a disk in /sys/block: for virtio it is
// in a file of the disk, for NVMe in one of its controller, and for SCSI (which
// includes SATA disks) in page 80h of its vital product data.
func serialOf(disk string) string {
	for _, name := range []string{"serial", "device/serial"} {
		if text, err := os.ReadFile(filepath.Join(disk, name)); err == nil {
			return strings.Trim(string(text), " \n\x00")
		}
	}
	page, err := os.ReadFile(filepath.Join(disk, "device/vpd_pg80"))
	if err != nil || len(page) < 4 {
		return ""
	}
	return strings.Trim(string(page[4:]), " \x00") // after the header of 4 bytes
}

func mountVolume(v wire.InitVolume) error {
	if !filepath.IsAbs(v.Path) || filepath.Clean(v.Path) == "/" {
		return fmt.Errorf("the path must be absolute and below / (got %q)", v.Path)
	}
	if err := os.MkdirAll(v.Path, 0o755); err != nil {
		return err
	}
	device, data := "tmpfs", ""
	switch v.Type {
	case "tmpfs":
		if v.Size > 0 {
			data = fmt.Sprintf("size=%d", int64(v.Size))
		}
	case "btrfs", "ext3", "ext4", "xfs":
		var err error
		if device, err = findDisk(v.Serial); err != nil {
			return err
		}
		// noatime is a flag of the call, and the rest is for the file system.
		data = strings.TrimPrefix(strings.TrimPrefix(v.Options, "noatime"), ",")
	case "nfs4":
		device, data = v.Source, v.Options // the kernel reads addr= without mount.nfs(8)
	default:
		return fmt.Errorf("the file system must be tmpfs, btrfs, ext3, ext4, xfs or nfs4 (got %q)", v.Type)
	}
	return unix.Mount(device, v.Path, v.Type, unix.MS_NOATIME, data)
}

// setSysctl writes one setting below /proc/sys.
func setSysctl(s wire.InitSetting) error {
	dir, err := os.OpenRoot("/proc/sys")
	if err != nil {
		return err
	}
	defer dir.Close()
	// As in sysctl(8), a slash in the name stands for a dot within a part.
	path := strings.NewReplacer(".", "/", "/", ".").Replace(s.Name)
	f, err := dir.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("setting %s: %w", s.Name, err)
	}
	defer f.Close()
	if _, err := f.WriteString(s.Value); err != nil {
		return fmt.Errorf("setting %s = %s: %w", s.Name, s.Value, err)
	}
	return nil
}
