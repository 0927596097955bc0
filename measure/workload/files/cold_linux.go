package files

import (
	"fmt"
	"os"
	"unsafe"

	"bakeoff/base/fault"

	"golang.org/x/sys/unix"
)

// evictPages drops the first size bytes of a file from the page cache, and verifies
// that with the kernel. It returns a short note with the result. It does not
// use /proc/sys/vm/drop_caches: that needs root, and would drop the cache of
// the whole machine.
//
// Source: posix_fadvise(2), mincore(2).
func evictPages(fd int, size int64) (string, error) {
	// The kernel drops only clean pages.
	if err := unix.Fsync(fd); err != nil && err != unix.EINVAL && err != unix.EROFS {
		return "", fmt.Errorf("fsync: %w", err)
	}
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		return "", fault.Wrap(fault.Unsupported, "posix_fadvise", err)
	}
	in, all, err := resident(fd, size)
	if err != nil {
		return "", fault.Wrap(fault.Unsupported, "mincore", err)
	}
	if in*100 > all {
		return "", fault.New(fault.Unsupported,
			"%d of %d pages stay in memory: the file system is in memory, or keeps its pages there; use cache=warm", in, all)
	}
	return fmt.Sprintf("%d of %d pages were in memory", in, all), nil
}

// resident counts the pages of a file that are in memory.
func resident(fd int, size int64) (in, all int, err error) {
	m, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Munmap(m)
	page := os.Getpagesize()
	vec := make([]byte, (len(m)+page-1)/page)
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)),
		uintptr(unsafe.Pointer(&vec[0])))
	if e != 0 {
		return 0, 0, e
	}
	for _, v := range vec {
		in += int(v & 1)
	}
	return in, len(vec), nil
}
