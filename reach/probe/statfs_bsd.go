//go:build freebsd || dragonfly

package probe

import "golang.org/x/sys/unix"

// fileSystem returns the type and the device of the file system of path.
func fileSystem(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:]) + " on " + unix.ByteSliceToString(st.Mntfromname[:])
}
