//go:build freebsd || dragonfly

package probe

import "golang.org/x/sys/unix"

// fileSystem says what file system path is on, and what it lies on.
func fileSystem(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:]) + " on " + unix.ByteSliceToString(st.Mntfromname[:])
}
