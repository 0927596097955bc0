package webroot

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"bakeoff/base/fault"
)

// bounds limit a folder that is served.
type bounds struct {
	files int
	bytes int64 // of all files together
}

var usual = bounds{files: 4096, bytes: 64 << 20}

// Folder reads the site in dir. Links are followed as long as they lead to a
// file inside. What cannot be served is an error of kind fault.Invalid that
// names the file: more than 4096 files, or 64 MiB, among others.
func Folder(dir string) (Site, error) { return folder(dir, usual) }

func folder(dir string, most bounds) (Site, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Site{}, fault.WithFix(fault.Wrap(fault.Invalid, "site", err), "name a folder on this machine with an "+Home+" in it")
	}
	defer root.Close()
	var files []File
	left := most.bytes
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if len(files) == most.files {
			return fmt.Errorf("%s is one more than %d files", name, most.files)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%q has control characters in its name", name)
		}
		body, err := readFile(root, name, left)
		if left -= int64(len(body)); err == nil && left < 0 {
			err = fmt.Errorf("with %s it is more than %d bytes", name, most.bytes)
		}
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

// readFile reads a regular file, at most one byte more than limit. Whether it
// is one is asked before it is opened: opening a pipe may wait for ever.
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
	return io.ReadAll(io.LimitReader(f, limit+1))
}
