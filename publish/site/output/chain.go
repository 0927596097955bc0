package output

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// chain is a folder that is open, with the folders above it. Files are written in the
// order of their folders, so that most folders above the next file are open already: a
// root that is asked for a long name opens every part of it again.
type chain struct {
	names []string   // of the folders below the root
	roots []*os.Root // of the root and of each of them
}

// openFolder opens a folder below the root, which it makes if necessary; "." is the root. A file
// where a folder must be is from an earlier build: reach removes it.
func (c *chain) openFolder(dir string) (*os.Root, error) {
	var names []string
	if dir != "." {
		names = strings.Split(dir, "/")
	}
	same := 0
	for same < len(names) && same < len(c.names) && names[same] == c.names[same] {
		same++
	}
	c.leaveFolders(same)
	for _, name := range names[same:] {
		at := c.roots[len(c.roots)-1]
		err := at.Mkdir(name, 0o755)
		if errors.Is(err, fs.ErrExist) {
			err = unblock(at, name)
		}
		if err != nil {
			return nil, err
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		c.names, c.roots = append(c.names, name), append(c.roots, next)
	}
	return c.roots[len(c.roots)-1], nil
}

// unblock makes a folder where something is already, unless that is a folder.
func unblock(at *os.Root, name string) error {
	info, err := at.Lstat(name)
	if err != nil || info.IsDir() {
		return err
	}
	if err := at.Remove(name); err != nil {
		return err
	}
	if err := at.Mkdir(name, 0o755); !errors.Is(err, fs.ErrExist) { // another one made it
		return err
	}
	return nil
}

// leaveFolders closes all folders but the first few below the root.
func (c *chain) leaveFolders(few int) {
	for len(c.names) > few {
		last := len(c.names)
		c.roots[last].Close()
		c.names, c.roots = c.names[:last-1], c.roots[:last]
	}
}
