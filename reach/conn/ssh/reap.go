package ssh

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/lock"
)

// A connection has a private directory on this machine with the control socket
// and a lock. The lock is held while a controller uses the directory.
const (
	dirPrefix  = "bakeoff-ssh-"
	lockFile   = "lock"
	socketFile = "s"
)

// baseDir is the parent of these directories. The path of a socket has at most
// 104 bytes on some systems. ssh appends 17 while it binds, and the user's
// TMPDIR may be long.
func baseDir() string {
	if base := os.TempDir(); len(base) <= 40 {
		return base
	}
	return "/tmp"
}

// young is the minimum age of an abandoned directory without a lock: its owner
// may be about to take the lock.
const young = time.Minute

// Reap removes the connection directories that killed controllers of this user
// left on this machine, and returns their paths. With dryRun it removes
// nothing. The connections end without help.
func Reap(dryRun bool) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(baseDir(), dirPrefix+"*"))
	if err != nil {
		return nil, fault.Op("ssh", err)
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !abandoned(dir) })
	if dryRun {
		return dirs, nil
	}
	errs := lists.Map(dirs, func(dir string) error { return os.RemoveAll(dir) })
	return dirs, fault.Op("ssh", errors.Join(errs...))
}

// abandoned reports whether a directory belongs to this user and no running
// controller uses it.
func abandoned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
		return false
	}
	path := filepath.Join(dir, lockFile)
	// The owner writes into the file once it has the lock.
	if file, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || err == nil && file.Size() == 0 {
		return time.Since(info.ModTime()) > young
	}
	return !lock.Held(path)
}
