package ubench

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// allocate takes size bytes from the system.
func allocate(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return b, nil
}

// release returns them to the system; it cannot fail for what allocate
// returned.
func release(b []byte) { _ = unix.Munmap(b) }
