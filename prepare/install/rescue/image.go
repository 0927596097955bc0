package rescue

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
	"bakeoff/base/hexsum"
	"bakeoff/base/lock"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
)

// The sizes of images: of a new one, and the least that a plan admits.
const (
	DefaultSize = 16 * unit.GiB
	leastSize   = 9 * unit.GiB
)

// Access is what a command does with an image.
type Access int

// Look changes nothing. Change needs a file with a disk, which it may change. Make also makes
// it, if there is no such file, or an empty one.
const (
	Look Access = iota
	Change
	Make
)

// Image is a file that is a disk of the machine, with the bytes of the disk.
type Image struct {
	Path string // absolute
	// Serial is the serial number of the disk. It depends on Path alone, so that a later
	// command finds the disk of the plan.
	Serial string
	Size   int64 // bytes
	// New says that there is no such file, or an empty one.
	New bool

	made, grown bool // by OpenImage
	held        *lock.Lock
}

// OpenImage opens the file of a disk and locks it. A file that Make makes has size bytes, of which
// none takes space yet; 0 is DefaultSize. Errors are of kind fault.NotFound, or fault.Invalid: what
// is there is not a disk, is in use, or has another size.
func OpenImage(name string, size unit.Bytes, access Access) (*Image, error) {
	i, err := openImage(name, size, access)
	if err != nil && !fault.Is(err, fault.NotFound) {
		err = fault.Wrap(fault.Invalid, "--image "+safetext.Line(name), err)
	}
	return i, err
}

func openImage(name string, size unit.Bytes, access Access) (*Image, error) {
	full, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the folder of %s does not exist", safetext.Line(name))
	} else if err != nil {
		return nil, err
	}
	i := &Image{Path: filepath.Join(dir, filepath.Base(full))}
	i.Serial = "image-" + hexsum.Of(i.Path)[:12] // virtio has 20 bytes
	info, err := os.Lstat(i.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		i.New = true
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeDevice != 0:
		return nil, fault.WithFix(errors.New("the path names a device, not a file"),
			"leave --image out, and write the disk into the specification")
	case !info.Mode().IsRegular():
		return nil, errors.New("the path does not name a regular file")
	default:
		i.Size, i.New = info.Size(), info.Size() == 0
	}
	if i.New && access == Change {
		return nil, fault.WithFix(fault.New(fault.NotFound, "--image %s: nothing is installed in it", safetext.Line(name)),
			"name the image that holds the installation")
	}
	if i.New {
		if i.Size = int64(size); size == 0 {
			i.Size = int64(DefaultSize)
		}
	}
	if err := i.checkSize(size); err != nil {
		return nil, err
	}
	if err := i.open(errors.Is(err, fs.ErrNotExist), access != Look); err != nil {
		return nil, err
	}
	return i, nil
}

func (i *Image) checkSize(wanted unit.Bytes) error {
	switch {
	case wanted != 0 && i.Size != int64(wanted):
		return fault.WithFix(fault.New(fault.Invalid, "the image has %d bytes, but --image-size says %d", i.Size,
			int64(wanted)),
			"leave --image-size out, or use another file")
	case i.Size < int64(leastSize):
		return fault.WithFix(fault.New(fault.Invalid, "%s is too small for an image: the pool alone needs 8 GiB",
			unit.Bytes(i.Size)),
			"use --image-size 16GiB and a new file")
	case i.Size%512 != 0:
		return fault.New(fault.Invalid, "the file is not a raw disk: its size of %d bytes is not a multiple of 512", i.Size)
	}
	return nil
}

// open locks the file, and makes it if write is set.
func (i *Image) open(absent, write bool) error {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	if absent && write {
		flag |= os.O_CREATE | os.O_EXCL
	} else if absent {
		return nil
	}
	f, err := os.OpenFile(i.Path, flag, 0o600)
	if err != nil {
		return err
	}
	i.made = absent
	if i.held, err = lock.Of(f); err != nil {
		f.Close()
		if errors.Is(err, lock.ErrHeld) {
			err = fault.WithFix(errors.New("the image is in use: another process installs into it"), "wait until it ends")
		}
		return err
	}
	err = i.unused(f)
	if err == nil && i.New && write {
		i.grown = true
		err = f.Truncate(i.Size)
	}
	if err != nil {
		err = errors.Join(err, i.Close(false))
	}
	return err
}

// unused refuses a file that is another kind of image, or a loop device.
func (i *Image) unused(f *os.File) error {
	head := make([]byte, 64)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if other := gpt.ImageFormat(head[:n]); other != "" {
		return fault.WithFix(fault.New(fault.Invalid, "the file is a %s image, not a raw image", other), "use a new file")
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range loops {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it was detached meanwhile
		}
		other, err := os.Stat(strings.TrimSuffix(string(text), "\n"))
		if err == nil && os.SameFile(info, other) {
			dev := "/dev/" + strings.Split(name, "/")[3]
			return fault.WithFix(fault.New(fault.Invalid, "the image is in use: %s is attached to it", dev), "losetup -d "+dev)
		}
	}
	return nil
}

// Close releases the file. If nothing was installed, it removes what OpenImage made. Otherwise it
// waits until the file and its variables are on the host's disk: the machine did not wait for that.
func (i *Image) Close(installed bool) error {
	var err error
	switch {
	case installed:
		err = errors.Join(syncFile(i.Path), syncFile(i.Variables()))
	case i.made:
		err = errors.Join(remove(i.Path), remove(i.Variables()))
	case i.grown:
		err = errors.Join(os.Truncate(i.Path, 0), remove(i.Variables()))
	}
	i.held.Release()
	i.held = nil
	return err
}

// Variables is the file with the variables of the firmware, such as boot entries, that belong to
// the disk.
func (i *Image) Variables() string { return i.Path + ".efivars" }

// ByID is the name of the disk in the machine.
func (i *Image) ByID() string { return "/dev/disk/by-id/virtio-" + i.Serial }

// syncFile does nothing if there is no such file.
func syncFile(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
