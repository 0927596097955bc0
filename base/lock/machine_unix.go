//go:build unix

package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// OfMachine is the file of the lock that all runs on a machine share: that of
// BAKEOFF_LOCK, else /var/run/bakeoff.lock for root, else one in the user's home, which
// only that user's runs share; "" if the user may not write there. It is the same for a
// run over SSH, for which a shell may set other folders.
func OfMachine(getenv func(string) string, uid int) string {
	if file := getenv("BAKEOFF_LOCK"); file != "" {
		return file
	}
	if uid == 0 {
		return "/var/run/bakeoff.lock"
	}
	file := filepath.Join(getenv("HOME"), ".local/state/bakeoff/machine.lock")
	if !filepath.IsAbs(file) || !creatable(file) {
		return ""
	}
	return file
}

// creatable reports whether this user may write path or, if it does not exist, create it
// with the folders above it.
func creatable(path string) bool {
	err := unix.Access(path, unix.W_OK)
	for errors.Is(err, unix.ENOENT) && path != "/" {
		path = filepath.Dir(path)
		err = unix.Access(path, unix.W_OK|unix.X_OK)
	}
	return err == nil
}

// identityOf is the device and the inode of a file; "" if they are not known.
func identityOf(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
