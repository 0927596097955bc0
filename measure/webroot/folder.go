package webroot

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"bakeoff/base/fault"
)

// bounds limit the size of a site.
type bounds struct {
	files int
	bytes int64 // of all files together
}

var usual = bounds{files: 4096, bytes: 64 << 20}

// Folder reads the site in dir. It follows links to files inside dir. A site
// that cannot be served, for example with more than 4096 files or 64 MiB, is an
// error of kind fault.Invalid that names the file.
func Folder(dir string) (Site, error) { return readFolder(dir, usual) }

func readFolder(dir string, most bounds) (Site, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Site{}, fault.WithFix(fault.Wrap(fault.Invalid, "site", err), "name a folder on this machine with an "+Home+
			" in it")
	}
	defer root.Close()
	var files []File
	left := most.bytes
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if len(files) == most.files {
			return fmt.Errorf("the folder has more than %d files (the next is %s)", most.files, name)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("the name %q contains control characters", name)
		}
		body, err := readFile(root, name, left)
		if left -= int64(len(body)); err == nil && left < 0 {
			err = fmt.Errorf("the files have more than %d bytes in total (%s exceeds the limit)", most.bytes, name)
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

// readFile reads a regular file, at most one byte more than limit. It checks
// the type before it opens the file, because opening a pipe may block without
// end.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file or a link to one", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}
