package guestinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
	"bakeoff/base/safetext"
)

// rootDevice returns the block device with the root: a disk, a disk image in the initial
// RAM disk, or a partition of either.
func (in *initProcess) rootDevice() (string, error) {
	image, disk := in.config.RootDisk, in.config.RootDisk
	if image == "" {
		var err error
		if disk, err = findDisk(in.config.Root); err != nil {
			return "", err
		}
	}
	in.report.Root = disk
	if in.config.RootPartition == nil {
		if image == "" {
			return disk, nil
		}
		return loopDevice(image, 0, 0)
	}
	p, err := bootPartition(disk, in.config.RootPartition.Name)
	if err != nil {
		return "", fmt.Errorf("the root on %s: %w", disk, err)
	}
	in.report.Root = describePartition(disk, p)
	if image != "" {
		return loopDevice(image, p.Offset, p.Size)
	}
	return partitionDevice(disk, p.Number)
}

// bootPartition reads the GPT of a disk and chooses the partition to boot.
func bootPartition(disk, name string) (gpt.Partition, error) {
	f, err := os.Open(disk)
	if err != nil {
		return gpt.Partition{}, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd) // the size of a block device, too
	if err != nil {
		return gpt.Partition{}, err
	}
	parts, err := gpt.Read(f, size)
	if err != nil {
		return gpt.Partition{}, err
	}
	return gpt.Boot(parts, name)
}

// describePartition is for the report: partition 2 of /disk.img, "name", bootme.
func describePartition(disk string, p gpt.Partition) string {
	words := []string{fmt.Sprintf("partition %d of %s", p.Number, disk)}
	if p.Name != "" {
		words = append(words, strconv.Quote(safetext.Line(p.Name)))
	}
	return strings.Join(append(words, gpt.Attributes(p.Attributes)...), ", ")
}

// partitionDevice waits for the block device of a partition: the kernel reads the table,
// too.
func partitionDevice(disk string, number int) (string, error) {
	name, err := findDevice(filepath.Join("/sys/block", filepath.Base(disk), "*"),
		func(dir string) bool { return reads(filepath.Join(dir, "partition"), strconv.Itoa(number)) })
	if err != nil {
		return "", fmt.Errorf("the kernel shows no partition %d of %s", number, disk)
	}
	return "/dev/" + name, nil
}

// loopDevice makes a block device of size bytes of a file, from offset on; a size of 0 is
// the rest. It stays as long as the guest.
func loopDevice(file string, offset, size int64) (string, error) {
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer backing.Close() // the device keeps its own reference
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return "", fault.WithFix(fault.New(fault.Unsupported, "the kernel has no loop devices, which a disk image in the "+
			"initial RAM disk needs"), "use a kernel with CONFIG_BLK_DEV_LOOP, or load the module loop")
	}
	if err != nil {
		return "", err
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", fmt.Errorf("find a free loop device: %w", err)
	}
	name := fmt.Sprintf("/dev/loop%d", n)
	loop, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer loop.Close()
	if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_FD, int(backing.Fd())); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	info := unix.LoopInfo64{Offset: uint64(offset), Sizelimit: uint64(size)}
	copy(info.File_name[:len(info.File_name)-1], file)
	if err := unix.IoctlLoopSetStatus64(int(loop.Fd()), &info); err != nil {
		unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_CLR_FD, 0)
		return "", fmt.Errorf("%s: bytes %d to %d of %s: %w", name, offset, offset+size, file, err)
	}
	return name, nil
}
