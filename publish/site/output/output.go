// Package output writes a site's files, and only those whose inputs changed.
//
// Each file has a key: a digest of everything that it is made of. The state of the last
// build holds the key, size and time of every file. A file whose key is the same, and
// which is still as the last build left it, is not made again. Files of the last build
// that this one does not have are removed. Nothing else in the folder is touched.
package output

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"bakeoff/base/fault"
)

// Entry is a file of the last build.
type Entry struct {
	Key   string `json:"k"`
	Size  int64  `json:"s"`
	Nanos int64  `json:"t"` // modification time
	Packs int    `json:"p,omitempty"`
}

// Count says what a build did with its files.
type Count struct {
	Written int `json:"written"`
	Kept    int `json:"kept"`
	Removed int `json:"removed"`
}

// Folder is the output of a site. It is safe for concurrent use.
type Folder struct {
	root *os.Root
	pack bool
	last map[string]Entry

	mu    sync.Mutex
	now   map[string]Entry
	count Count

	free []*chain // nobody uses them
}

// Open opens the folder, which must exist. last is the state of the last build; nil
// makes every file again. pack adds compressed versions of files.
func Open(root *os.Root, last map[string]Entry, pack bool) *Folder {
	return &Folder{root: root, pack: pack, last: last, now: make(map[string]Entry, len(last))}
}

// Fresh reports whether the file is as the last build left it and has this key; it then
// belongs to this build too.
func (f *Folder) Fresh(name, key string) bool {
	e, ok := f.last[name]
	if !ok || e.Key != f.keyWithPacks(key) {
		return false
	}
	// By its path and not through the root, which would open every folder of the name. What
	// a link could show here is only that a file is as it should be.
	file := filepath.Join(f.root.Name(), filepath.FromSlash(name))
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size || info.ModTime().UnixNano() != e.Nanos {
		return false
	}
	for _, suffix := range e.packSuffixes() {
		if _, err := os.Lstat(file + suffix); err != nil {
			return false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[name] = e
	f.count.Kept++
	return true
}

// keyWithPacks tells files with compressed versions from those without.
func (f *Folder) keyWithPacks(key string) string {
	if f.pack {
		return key + "+"
	}
	return key
}

// Write writes a file, with its compressed versions. The name is below the folder, with
// slashes; one that leads out of it is an error.
func (f *Folder) Write(name, key string, content []byte) error {
	if !fs.ValidPath(name) || name == "." {
		return fault.New(fault.Invalid, "%q is not a name of a file in the output folder", name)
	}
	c := f.takeChain()
	defer f.giveChain(c)
	dir, err := c.openFolder(path.Dir(name))
	if err != nil {
		return fault.Wrap(fault.Lab, "output", err)
	}
	base := path.Base(name)
	info, err := putFile(dir, base, content)
	if err != nil {
		return fault.Wrap(fault.Lab, "write "+name, err)
	}
	e := Entry{Key: f.keyWithPacks(key), Size: info.Size(), Nanos: info.ModTime().UnixNano()}
	if f.pack && packable(name, content) {
		for i, suffix := range suffixes {
			if _, err := putFile(dir, base+suffix, compress(suffix, content)); err != nil {
				return fault.Wrap(fault.Lab, "write "+name+suffix, err)
			}
			e.Packs |= 1 << i
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[name] = e
	f.count.Written++
	return nil
}

// putFile writes one file in its folder. A link in its place is replaced and not followed.
func putFile(dir *os.Root, name string, content []byte) (fs.FileInfo, error) {
	// O_EXCL first: most files are new, or were removed as those of another build.
	w, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if err := dir.RemoveAll(name); err != nil {
			return nil, err
		}
		w, err = dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	}
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(content); err != nil {
		w.Close()
		return nil, err
	}
	info, err := w.Stat()
	return info, errors.Join(err, w.Close())
}

// takeChain returns a chain that nobody else uses.
func (f *Folder) takeChain() *chain {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := len(f.free) - 1; last >= 0 {
		c := f.free[last]
		f.free = f.free[:last]
		return c
	}
	return &chain{roots: []*os.Root{f.root}}
}

func (f *Folder) giveChain(c *chain) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, c)
}

// Finish removes what the last build made and this one did not, and returns the state.
func (f *Folder) Finish() (map[string]Entry, Count, error) {
	for _, c := range f.free {
		c.leaveFolders(0)
	}
	var problems []error
	for name, e := range f.last {
		now, kept := f.now[name]
		if !kept {
			problems = append(problems, f.removeFile(name))
			f.count.Removed++
		}
		for i, suffix := range suffixes {
			if e.Packs&(1<<i) != 0 && (!kept || now.Packs&(1<<i) == 0) {
				problems = append(problems, f.removeFile(name+suffix))
			}
		}
	}
	return f.now, f.count, errors.Join(problems...)
}

// removeFile removes a file, and the folders that it leaves empty.
func (f *Folder) removeFile(name string) error {
	if !fs.ValidPath(name) || name == "." {
		return nil // the state is damaged
	}
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Lab, "remove "+name, err)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if f.root.Remove(dir) != nil {
			break // it is not empty
		}
	}
	return nil
}

func (e Entry) packSuffixes() (out []string) {
	for i, suffix := range suffixes {
		if e.Packs&(1<<i) != 0 {
			out = append(out, suffix)
		}
	}
	return out
}

// suffixes are those of compressed versions, as web servers look for them.
var suffixes = []string{".gz", ".br"}

// leastPacked is the size below which compression saves nothing, in bytes.
const leastPacked = 512

func packable(name string, content []byte) bool {
	switch path.Ext(name) {
	case ".html", ".css", ".js", ".json", ".xml", ".svg", ".txt":
		return len(content) >= leastPacked
	}
	return false
}
