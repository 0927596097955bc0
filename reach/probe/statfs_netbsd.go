package probe

import "golang.org/x/sys/unix"

// fileSystem says what file system path is on, and what it lies on.
func fileSystem(path string) string {
	var st unix.Statvfs_t
	if err := unix.Statvfs(path, &st); err != nil {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:]) + " on " + unix.ByteSliceToString(st.Mntfromname[:])
}
