package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

const (
	maxText  = 1 << 20 // of a configuration file, in bytes
	maxLinks = 40      // that lead to a file, as in Linux
)

// tree is the files of a system. It follows links below its root, and remembers what it cannot read.
// Without files, all of it is unknown.
type tree struct {
	fs.FS
	problems []problem
	missed   bool // the running check needed a file whose content is unknown
}

// problem is a file or folder that cannot be read, and why.
type problem struct{ name, why string }

// miss notes that a check needed a file that cannot be read.
func (t *tree) miss(name string, err error) {
	t.missed = true
	if !slices.ContainsFunc(t.problems, func(p problem) bool { return p.name == name }) {
		why := err.Error()
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			why = e.Err.Error()
		}
		t.problems = append(t.problems, problem{name, why})
	}
}

// resolve returns the path of a file without links. The targets of links, too, are below the root.
func (t *tree) resolve(name string) (string, error) {
	done, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		done, rest = inside(path.Join(done, rest[0])), rest[1:]
		target, err := fs.ReadLink(t.FS, done)
		if err != nil {
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("too many levels of symbolic links")
		}
		done = path.Dir(done)
		if path.IsAbs(target) {
			done = "."
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return done, nil
}

// inside returns the path below the root that a name means.
func inside(name string) string {
	if name = strings.TrimPrefix(path.Join("/", name), "/"); name == "" {
		return "."
	}
	return name
}

// find returns the path of a file without links, and describes the file. There is no file if info is nil.
func (t *tree) find(name string) (at string, info fs.FileInfo, err error) {
	if t == nil {
		return "", nil, nil
	}
	name = inside(name)
	if at, err = t.resolve(name); err != nil {
		return "", nil, err
	}
	info, err = fs.Stat(t.FS, at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		// A link to a file that is not below the root: the system may have it.
		t.missed = t.missed || at != name
		return at, nil, nil
	}
	return at, info, err
}

// read returns the content of a file.
func (t *tree) read(name string) (string, error) {
	at, info, err := t.find(name)
	switch {
	case err != nil:
		return "", err
	case info == nil:
		return "", fs.ErrNotExist
	case info.IsDir():
		return "", errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a regular file")
	case info.Size() > maxText:
		return "", fmt.Errorf("it has more than %d MiB", maxText>>20)
	}
	data, err := fs.ReadFile(t.FS, at)
	return string(data), err
}

// text returns the content of a file, "" if there is none. If the file cannot be read, the
// check that needs it finds nothing.
func (t *tree) text(name string) string {
	text, err := t.read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.miss(name, err)
	}
	return text
}

// folder returns the entries of a folder.
func (t *tree) folder(name string) []fs.DirEntry {
	at, info, err := t.find(name)
	if err == nil && info != nil {
		var entries []fs.DirEntry
		if entries, err = fs.ReadDir(t.FS, at); err == nil {
			return entries
		}
	}
	if err != nil {
		t.miss(name, err)
	}
	return nil
}

// exists reports whether there is a file; a link need not lead anywhere.
func (t *tree) exists(name string) bool {
	name = inside(name)
	return slices.ContainsFunc(t.folder(path.Dir(name)), func(e fs.DirEntry) bool { return e.Name() == path.Base(name) })
}

// files returns the files of a folder whose names end in suffix, in order.
func files(root *tree, folder, suffix string) (out []string) {
	for _, e := range root.folder(folder) {
		if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
			out = append(out, path.Join(folder, e.Name()))
		}
	}
	return out
}
