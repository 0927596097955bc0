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
	"bakeoff/base/lock"
)

// What a connection has on this machine: a private directory with the control
// socket, and a lock that says for how long it is somebody's.
const (
	dirPrefix  = "bakeoff-ssh-"
	lockFile   = "lock"
	socketFile = "s"
)

// baseDir is where these directories are. The path of a socket has at most 104
// bytes on some systems, of which ssh takes 17 for itself while it binds, and
// the user's TMPDIR may be long.
func baseDir() string {
	if base := os.TempDir(); len(base) <= 40 {
		return base
	}
	return "/tmp"
}

// young is how old a directory without a lock must be before it is nobody's:
// its owner may be about to take it.
const young = time.Minute

// Reap removes what killed controllers of this user left on this machine, the
// directories of their connections, and returns their paths. With dryRun it
// only looks. The connections end by themselves.
func Reap(dryRun bool) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(baseDir(), dirPrefix+"*"))
	if err != nil {
		return nil, fault.Op("ssh", err)
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !abandoned(dir) })
	if dryRun {
		return dirs, nil
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return dirs, fault.Op("ssh", errors.Join(errs...))
}

// abandoned tells whether a directory is this user's, and no living
// controller's.
func abandoned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
		return false
	}
	path := filepath.Join(dir, lockFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return time.Since(info.ModTime()) > young
	}
	return !lock.Held(path)
}
