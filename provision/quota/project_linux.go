package quota

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// system is the kernel of this machine. golang.org/x/sys/unix has no types for quotas.
type system struct{}

// attributes is struct fsxattr.
//
// Source: linux/fs.h.
type attributes struct {
	flags   uint32
	_       [2]uint32 // about extents
	project uint32
	_       uint32
	_       [8]byte
}

const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR: _IOR('X', 31, struct fsxattr)
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR: _IOW('X', 32, struct fsxattr)
	inherit       = 0x200      // FS_XFLAG_PROJINHERIT
)

// quotaState is struct fs_quota_stat, and projectQuota struct fs_disk_quota; sizes are in units of 512
// bytes.
//
// Source: linux/dqblk_xfs.h.
type quotaState struct {
	_     int8 // version
	flags uint16
	_     int8
	_     [9]uint64 // quota files, times and warnings
}

type projectQuota struct {
	version, flags       int8
	fields               uint16
	id                   uint32
	hard, soft           uint64
	hardFiles, softFiles uint64
	used, files          uint64
	_                    [7]uint64 // times, warnings and the real-time volume
}

// The commands and flags of quotactl_fd(2) for projects. ext4 has those of XFS, too.
const (
	typeProject = 2
	getState    = 'X'<<8 + 5
	getQuota    = 'X'<<8 + 3
	setLimit    = 'X'<<8 + 4

	flagCounts, flagEnforces = 1 << 4, 1 << 5
	fieldSoft, fieldHard     = 1 << 2, 1 << 3
	versionQuota             = 1
	ofProject                = 2
)

// sector is the unit of sizes, in bytes.
const sector = 512

func quotactl(dir string, command, id uint32, argument unsafe.Pointer) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), uintptr(command<<8|typeProject), uintptr(id),
		uintptr(argument), 0, 0)
	if errno != 0 {
		return &os.PathError{Op: "quotactl_fd", Path: dir, Err: errno}
	}
	return nil
}

func (system) state(dir string) (counts, enforces bool, _ error) {
	var s quotaState
	err := quotactl(dir, getState, 0, unsafe.Pointer(&s))
	if errors.Is(err, unix.ENOSYS) {
		return false, false, nil // no quotas, or a kernel before Linux 5.14
	}
	return s.flags&flagCounts != 0, s.flags&flagEnforces != 0, err
}

func (system) ioctl(dir string, request uintptr, a *attributes) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return &os.PathError{Op: "ioctl", Path: dir, Err: errno}
	}
	return nil
}

func (s system) project(dir string) (id uint32, inherited bool, _ error) {
	var a attributes
	err := s.ioctl(dir, getAttributes, &a)
	return a.project, a.flags&inherit != 0, err
}

func (s system) setProject(dir string, id uint32) error {
	var a attributes
	if err := s.ioctl(dir, getAttributes, &a); err != nil {
		return err
	}
	a.flags |= inherit
	a.project = id
	return s.ioctl(dir, setAttributes, &a)
}

func (system) known(dir string, id uint32) (bool, error) {
	var q projectQuota
	err := quotactl(dir, getQuota, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return q.used != 0 || q.files != 0 || q.hard != 0 || q.soft != 0 || q.hardFiles != 0 || q.softFiles != 0, err
}

func (system) limit(dir string, id uint32, bytes uint64) error {
	q := projectQuota{version: versionQuota, flags: ofProject, fields: fieldSoft | fieldHard, id: id, hard: bytes / sector}
	return quotactl(dir, setLimit, id, unsafe.Pointer(&q))
}
