package webroot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"bakeoff/fault"
)

// The bounds of a folder that is served.
const (
	maxFiles = 4096
	maxBytes = 64 << 20 // of all files together
)

// Folder reads the site in dir. Links are followed as long as they lead to a
// file inside. What cannot be served is an error of kind fault.Invalid that
// names the file.
func Folder(dir string) (Site, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Site{}, fault.WithFix(fault.Wrap(fault.Invalid, "site", err), "name a folder on this machine with an "+Home+" in it")
	}
	defer root.Close()
	var files []File
	left := int64(maxBytes)
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if len(files) == maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%q has control characters in its name", name)
		}
		body, err := readFile(root, name, left)
		left -= int64(len(body))
		files = append(files, File{Name: name, Body: body})
		return err
	})
	var s Site
	if err == nil {
		s, err = New(files...)
	}
	if err != nil {
		return Site{}, fault.Wrap(fault.Invalid, "site "+dir, err)
	}
	return s, nil
}

// readFile reads a regular file of at most limit bytes. Whether it is one is
// asked before it is opened: opening a pipe may wait for ever.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, nor a link to one", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, errors.New("more than 64 MiB in all")
	}
	return b, err
}
