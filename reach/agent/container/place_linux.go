package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

// placeAll shows files of the host at other paths, in the mount namespace of this
// thread, which ends with its processes. Nothing on the host's disks changes.
//
// If a path does not exist, the nearest folder above it is covered by a file system in
// memory, in which every entry of the folder is bound, so that it stays as it is. In
// the covering folder itself, nothing can be created: it would be gone with the program.
func placeAll(placed [][2]string) error {
	var covers []string
	for _, p := range placed {
		to := filepath.Clean(p[1])
		if err := place(p[0], to, &covers); err != nil {
			return fmt.Errorf("place %s: %w", to, err)
		}
	}
	for _, dir := range covers {
		if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	return nil
}

func place(from, to string, covers *[]string) error {
	file, err := os.Stat(from)
	if err != nil {
		return err
	}
	at, err := os.Stat(to)
	switch {
	case err == nil && at.IsDir() != file.IsDir():
		return fault.New(fault.Invalid, "one of the two paths is a folder, and the other is a file")
	case errors.Is(err, fs.ErrNotExist):
		if err := vacate(to, file.IsDir(), covers); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// vacate makes an empty file or folder at a path that does not exist, in a cover over
// the nearest folder above it.
func vacate(to string, folder bool, covers *[]string) error {
	dir := filepath.Dir(to)
	for {
		at, err := os.Stat(dir)
		if err == nil && !at.IsDir() {
			return fault.New(fault.Invalid, "%s is not a folder", dir)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		dir = filepath.Dir(dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if real == "/" {
		return fault.New(fault.Invalid, "none of the folders above the path exists except /")
	}
	if !slices.ContainsFunc(*covers, func(c string) bool { return real == c || ours(real, c) }) {
		if err := cover(real); err != nil {
			return err
		}
		*covers = append(*covers, real)
	}
	path := filepath.Join(real, strings.TrimPrefix(to, dir))
	if folder {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// ours reports whether dir was made in the cover of c: it is on the same file system.
func ours(dir, c string) bool {
	if !strings.HasPrefix(dir, c+"/") {
		return false
	}
	var a, b unix.Stat_t
	return unix.Stat(dir, &a) == nil && unix.Stat(c, &b) == nil && a.Dev == b.Dev
}

// cover covers a folder by a file system in memory with the same entries.
func cover(dir string) error {
	// A descriptor from before the mount still leads to what is covered.
	under, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(under)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > wire.MaxPlaced {
		return fault.New(fault.Invalid, "%s has %d entries, more than %d", dir, len(entries), wire.MaxPlaced)
	}
	var st unix.Stat_t
	if err := unix.Fstat(under, &st); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=%o,uid=%d,gid=%d", st.Mode&0o7777, st.Uid, st.Gid)
	if err := unix.Mount("bakeoff", dir, "tmpfs", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("cover %s: %w", dir, err)
	}
	for _, e := range entries {
		if err := show(fmt.Sprintf("/proc/self/fd/%d/%s", under, e.Name()), filepath.Join(dir, e.Name()), e); err != nil {
			return fmt.Errorf("show %s: %w", filepath.Join(dir, e.Name()), err)
		}
	}
	return nil
}

// show binds an entry of a covered folder in its cover.
func show(from, to string, e fs.DirEntry) error {
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case e.IsDir():
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
	default:
		if err := os.WriteFile(to, nil, 0o600); err != nil {
			return err
		}
	}
	return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}
