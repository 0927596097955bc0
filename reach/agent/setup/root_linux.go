package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

// makeRoot mounts everything. The image may be foreign: names in it are
// resolved inside it, so that a link to / cannot cause a mount on the host.
func makeRoot(r wire.Root) (err error) {
	for _, dir := range []string{r.At, r.Lower, r.Upper, r.Work} {
		// These characters have a special meaning in overlay options.
		if !filepath.IsAbs(dir) || strings.ContainsAny(dir, `,:\"`) {
			return fault.New(fault.Invalid, "invalid path %q: it must be absolute, without , : \\ and quotes", dir)
		}
	}
	// What is above the root belongs to root alone: the image, or a program in the
	// environment, may put a file into the root that gives its user the rights of root.
	if err := os.Chmod(filepath.Dir(r.At), 0o700); err != nil {
		return err
	}
	options := "lowerdir=" + r.Lower + ",upperdir=" + r.Upper + ",workdir=" + r.Work
	if err := unix.Mount("overlay", r.At, "overlay", 0, options); err != nil {
		return overlayFailed(err, r)
	}
	defer func() {
		if err != nil {
			unix.Unmount(r.At, unix.MNT_DETACH) // with all that is mounted below it
		}
	}()
	root, err := os.OpenRoot(r.At)
	if err != nil {
		return err
	}
	defer root.Close()
	in := inside{root: root}
	if r.System {
		if err := in.mountAll(kernelFiles); err != nil {
			return err
		}
	}
	if r.System || r.Dev {
		if err := in.mountAll(devFiles); err != nil {
			return err
		}
		if err := in.devices(); err != nil {
			return err
		}
	}
	for _, d := range r.Dirs {
		if err := in.mkdir(d, 0o777|fs.ModeSticky); err != nil {
			return err
		}
	}
	for _, b := range r.Binds {
		if err := in.bind(b); err != nil {
			return err
		}
	}
	return nil
}

// overlayFailed explains the kernel's error numbers for an overlay mount.
func overlayFailed(err error, r wire.Root) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return &fault.Error{Kind: fault.Unsupported, Op: "overlay", Err: err,
			Fix: "run modprobe overlay, or use a kernel with CONFIG_OVERLAY_FS"}
	case errors.Is(err, unix.EINVAL):
		return &fault.Error{Kind: fault.Unsupported, Op: "overlay", Err: err,
			Fix: "its upper directory " + r.Upper + " must lie on ext4, xfs, btrfs or tmpfs, not on another overlay"}
	case errors.Is(err, unix.EPERM):
		return &fault.Error{Kind: fault.Unsupported, Op: "overlay", Err: err, Fix: "mounting requires root"}
	}
	return fmt.Errorf("overlay over %s: %w", r.Lower, err)
}

// inside works in a root and never leaves it.
type inside struct{ root *os.Root }

// relative is a path inside, relative to the root.
func relative(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	if p == "" {
		return "."
	}
	return p
}

func (in inside) mkdir(p string, mode fs.FileMode) error {
	if err := in.root.MkdirAll(relative(p), 0o755); err != nil {
		return fmt.Errorf("create %s in the root: %w", p, err)
	}
	return in.root.Chmod(relative(p), mode)
}

// mount mounts on a path inside. The target is a descriptor, so that the kernel
// does not resolve the path again.
func (in inside) mount(source, p, kind string, flags uintptr, data string) error {
	t, err := in.open(p)
	if err != nil {
		return fmt.Errorf("mount on %s in the root: %w", p, err)
	}
	defer unix.Close(t)
	if err := unix.Mount(source, fmt.Sprintf("/proc/self/fd/%d", t), kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s in the root: %w", kind, p, err)
	}
	return nil
}

// open returns a descriptor (O_PATH) of a path, resolved inside the root.
func (in inside) open(p string) (int, error) {
	dir, err := in.root.Open(".")
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	return unix.Openat2(int(dir.Fd()), relative(p), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
}

// bind creates the target if necessary, as a directory or an empty file.
func (in inside) bind(b wire.Bind) error {
	s, err := os.Stat(b.From)
	if err != nil {
		return err
	}
	if s.IsDir() {
		if _, err := in.root.Stat(relative(b.To)); errors.Is(err, fs.ErrNotExist) {
			if err := in.root.MkdirAll(relative(b.To), 0o755); err != nil {
				return fmt.Errorf("create %s in the root: %w", b.To, err)
			}
		}
	} else {
		if err := in.root.MkdirAll(path.Dir(relative(b.To)), 0o755); err != nil {
			return fmt.Errorf("create %s in the root: %w", b.To, err)
		}
		f, err := in.root.OpenFile(relative(b.To), os.O_CREATE|os.O_RDONLY, 0o755)
		if err != nil {
			return fmt.Errorf("create %s in the root: %w", b.To, err)
		}
		f.Close()
	}
	if err := in.mount(b.From, b.To, "", unix.MS_BIND, ""); err != nil || !b.ReadOnly {
		return err
	}
	return in.mount("", b.To, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// fileSystem is one that the kernel makes.
type fileSystem struct {
	at, kind string
	flags    uintptr
	data     string
}

// What programs expect on a Linux system: in mount order, without the devices.
var (
	kernelFiles = []fileSystem{
		{"proc", "proc", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV, ""},
		{"sys", "sysfs", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV | unix.MS_RDONLY, ""},
	}
	devFiles = []fileSystem{
		{"dev", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k"},
		{"dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"},
		{"dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV, "mode=1777"},
	}
)

func (in inside) mountAll(all []fileSystem) error {
	for _, m := range all {
		if err := in.root.MkdirAll(m.at, 0o755); err != nil {
			return fmt.Errorf("create %s in the root: %w", m.at, err)
		}
		if err := in.mount(m.kind, m.at, m.kind, m.flags, m.data); err != nil {
			return err
		}
	}
	return nil
}

// devices creates the harmless devices of the Linux annex of the Filesystem
// Hierarchy Standard (OCI runtime-spec, default devices).
func (in inside) devices() error {
	dev, err := in.root.Open("dev")
	if err != nil {
		return err
	}
	defer dev.Close()
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := node(int(dev.Fd()), name, 1, minor); err != nil {
			return err
		}
	}
	if err := node(int(dev.Fd()), "tty", 5, 0); err != nil {
		return err
	}
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := in.root.Symlink(to, "dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

func node(dir int, name string, major, minor uint32) error {
	err := unix.Mknodat(dir, name, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor)))
	if err == nil {
		err = unix.Fchmodat(dir, name, 0o666, 0) // undo the umask
	}
	if err != nil {
		return fmt.Errorf("device %s: %w", name, err)
	}
	return nil
}
