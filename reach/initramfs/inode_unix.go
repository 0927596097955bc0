//go:build unix

package initramfs

import (
	"io/fs"
	"syscall"
)

func inodeOf(info fs.FileInfo) (inode, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, false
	}
	return inode{uid: int(st.Uid), gid: int(st.Gid), links: int(st.Nlink), number: uint64(st.Ino)}, true
}
