// Package atomicfile writes files that are whole or not there: while a file is written, when
// the process is killed, and after Commit also when the machine loses its power, its name
// stands for the old content or for the new one.
//
// Where Linux has files without names (O_TMPFILE), a process that is killed leaves nothing.
// Elsewhere it may leave a file ".part-*" in the folder.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// File is a file in the making. Its user calls Commit or one of its variants once, and
// defers Discard.
type File struct {
	*os.File
	folder *os.Root // that the file will be in
	base   string   // its name there
	part   string   // its name until then; "" if it has none
}

// Create begins a file. mode is changed by the umask.
func Create(name string, mode fs.FileMode) (*File, error) {
	folder, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	return createIn(folder, filepath.Base(name), mode)
}

// CreateIn begins a file below root. It does not follow links that lead out of root.
func CreateIn(root *os.Root, name string, mode fs.FileMode) (*File, error) {
	folder, err := root.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	return createIn(folder, filepath.Base(name), mode)
}

// createIn begins a file in a folder, which it closes with the file.
func createIn(folder *os.Root, base string, mode fs.FileMode) (*File, error) {
	out := &File{folder: folder, base: base}
	var err error
	if out.File, err = openUnnamed(folder, mode); err != nil {
		out.part = partName()
		out.File, err = folder.OpenFile(out.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return out, nil
}

// partName is a name that no other writer uses.
func partName() string { return ".part-" + rand.Text() }

// Commit replaces the file that has the name, if there is one. When it returns nil, the
// file and its name are on the disk.
func (f *File) Commit() error { return f.commit(true, true) }

// CommitUnsynced is Commit without waiting for the disk: for files that can be made again.
// After a power failure the file may be empty.
func (f *File) CommitUnsynced() error { return f.commit(true, false) }

// CommitNew is Commit, but replaces no file: if the name is taken, the error wraps
// fs.ErrExist.
func (f *File) CommitNew() error { return f.commit(false, true) }

func (f *File) commit(replace, sync bool) error {
	defer f.Discard()
	folder, err := f.folder.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	if sync {
		err = f.Sync()
	}
	if err == nil {
		err = f.giveName(folder, replace)
	}
	if err == nil && sync {
		err = SyncFolderIn(f.folder, ".")
	}
	return err
}

// giveName closes the file and gives it its name.
func (f *File) giveName(folder *os.File, replace bool) error {
	if f.part == "" && !replace {
		return errors.Join(linkUnnamed(f.File, folder, f.base), f.Close())
	}
	if f.part == "" { // rename(2) replaces, and link(2) does not
		part := partName()
		if err := linkUnnamed(f.File, folder, part); err != nil {
			return err
		}
		f.part = part
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !replace { // some file systems have no links, either
		if _, err := f.folder.Lstat(f.base); err == nil {
			return &fs.PathError{Op: "create", Path: f.base, Err: fs.ErrExist}
		}
	}
	err := f.folder.Rename(f.part, f.base)
	if err == nil {
		f.part = ""
	}
	return err
}

// Discard removes the file, unless it was committed.
func (f *File) Discard() {
	f.Close()
	if f.part != "" {
		_ = f.folder.Remove(f.part)
		f.part = ""
	}
	f.folder.Close()
}

// Write replaces a file; see File.Commit.
func Write(name string, data []byte, mode fs.FileMode) error {
	f, err := Create(name, mode)
	return writeAndCommit(f, err, data, (*File).Commit)
}

// WriteIn replaces a file below root; see CreateIn and File.Commit.
func WriteIn(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := CreateIn(root, name, mode)
	return writeAndCommit(f, err, data, (*File).Commit)
}

// WriteUnsyncedIn replaces a file below root; see CreateIn and File.CommitUnsynced.
func WriteUnsyncedIn(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := CreateIn(root, name, mode)
	return writeAndCommit(f, err, data, (*File).CommitUnsynced)
}

func writeAndCommit(f *File, err error, data []byte, commit func(*File) error) error {
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return commit(f)
}

// Rename gives a file or folder that is whole, and on the disk, its name. When it returns
// nil, the name is on the disk too.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(to))
}

// SyncFolder waits until the names in a folder are on the disk.
func SyncFolder(name string) error { return syncFolder(os.Open(name)) }

// SyncFolderIn is SyncFolder for a folder below root.
func SyncFolderIn(root *os.Root, name string) error { return syncFolder(root.Open(name)) }

// syncFolder syncs and closes a folder. Some file systems have nothing to sync there and say
// EINVAL (fsync(2)). Windows cannot sync a folder: FlushFileBuffers wants a handle with the
// right to write, which a folder does not give. NTFS logs the change of a name, so that after
// a power failure the folder has the old name or the new one, but Commit may return earlier.
//
// Source: FlushFileBuffers, learn.microsoft.com.
func syncFolder(folder *os.File, err error) error {
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return folder.Close()
	}
	if err = folder.Sync(); errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, folder.Close())
}
