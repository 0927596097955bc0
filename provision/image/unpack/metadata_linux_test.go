package unpack

import (
	"archive/tar"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestMetadata(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: sets owners")
	}
	owned := func(e entry, uid, gid int, mode int64) entry {
		e.Uid, e.Gid, e.Mode = uid, gid, mode
		return e
	}
	capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	ping := owned(file("bin/ping", "x"), 0, 0, 0o755)
	ping.PAXRecords = map[string]string{prefix + "security.capability": capability, prefix + "security.selinux": "x",
		prefix + "user.note": "n"}
	_, dir := unpacked(t, []entry{owned(folder("."), 7, 8, 0o711), owned(folder("tmp"), 0, 0, 0o1777),
		owned(file("tmp/f", "x"), 1000, 1001, 0o640), owned(file("bin/su", "x"), 0, 5, 0o6755),
		owned(symlink("l", "x"), 1000, 1001, 0o777), hardlink("h", "bin/su"), ping,
		owned(head(tar.TypeFifo, "run/pipe"), 3, 4, 0o620)})
	for name, want := range map[string]struct {
		mode     uint32
		uid, gid uint32
		links    int
	}{
		".": {syscall.S_IFDIR | 0o711, 7, 8, 0}, "tmp": {syscall.S_IFDIR | 0o1777, 0, 0, 0},
		"tmp/f":  {syscall.S_IFREG | 0o640, 1000, 1001, 1},
		"bin/su": {syscall.S_IFREG | 0o6755, 0, 5, 2}, "h": {syscall.S_IFREG | 0o6755, 0, 5, 2},
		"bin": {syscall.S_IFDIR | 0o755, 0, 0, 0}, "l": {syscall.S_IFLNK | 0o777, 1000, 1001, 1},
		"run/pipe": {syscall.S_IFIFO | 0o620, 3, 4, 1},
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Mode != want.mode || st.Uid != want.uid || st.Gid != want.gid || want.links > 0 && int(st.Nlink) != want.links {
			t.Errorf("%s: mode %o, owner %d:%d, %d links; want %+v (mode %o)", name, st.Mode, st.Uid, st.Gid, st.Nlink, want,
				want.mode)
		}
		if named := name == "." || name == "tmp" || want.mode&syscall.S_IFMT == syscall.S_IFREG; named &&
			!info.ModTime().Equal(then) {
			t.Errorf("%s: modified %v, want %v", name, info.ModTime(), then)
		}
	}
	for name, want := range map[string]string{"security.capability": capability,
		"user.note": "n", "security.selinux": ""} {
		b := make([]byte, 100)
		n, err := syscall.Getxattr(filepath.Join(dir, "bin/ping"), name, b)
		if err != nil {
			n = 0
		}
		if got := string(b[:n]); got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}
