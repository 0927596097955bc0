package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/files"
	"bakeoff/provision/image"
	"bakeoff/provision/service"
)

// step executes one step.
func (b *builder) step(ctx context.Context, i int, s service.Step) error {
	switch {
	case s.Run != nil:
		return b.run(ctx, s)
	case s.Folder != "":
		_, err := b.folder(s.Folder)
		return err
	}
	return b.copy(ctx, i, s.Copy)
}

// folder returns the path on this machine of a folder of the root, which it creates.
func (b *builder) folder(name string) (string, error) {
	at, err := image.Inside(b.root, name)
	if err == nil {
		err = os.MkdirAll(at, 0o755)
	}
	if err != nil {
		return "", fault.WithFix(fault.Wrap(fault.Invalid, name, err), "write another path: a file is in its place")
	}
	return at, nil
}

// copy places a file, a folder, a material or a text.
func (b *builder) copy(ctx context.Context, i int, c *service.Copy) error {
	staged := filepath.Join(b.work.Scratch(), fmt.Sprintf("step-%d", i))
	defer os.RemoveAll(staged)
	var err error
	switch {
	case c.From == "":
		err = os.WriteFile(staged, []byte(c.Text), 0o600)
		if err == nil {
			err = os.Chmod(staged, 0o644)
		}
	case strings.HasPrefix(c.From, service.Material):
		err = b.write(staged, c.From)
	default:
		var facts files.Facts
		if facts, err = files.Copy(ctx, b.source(c), staged, b.Say); err == nil && facts.Digest != b.sources[i] {
			err = fault.WithFix(fault.New(fault.Invalid, "%s changed while bakeoff read it", c.From),
				"wait until nothing writes to it")
		}
	}
	if err != nil {
		return err
	}
	info, err := os.Lstat(staged)
	if err != nil {
		return err
	}
	if info.IsDir() && c.Mode != 0 {
		return fault.WithFix(fault.New(fault.Invalid, "%s is a folder; a mode can be set only for a file",
			c.From), "remove the mode")
	}
	if c.Mode != 0 {
		if err := os.Chmod(staged, c.Mode); err != nil {
			return err
		}
	}
	if err := b.own(staged, c.Owner); err != nil {
		return err
	}
	to := c.To
	if at, err := image.Inside(b.root, to); err == nil && !info.IsDir() {
		if there, err := os.Lstat(at); c.Into || err == nil && there.IsDir() {
			to = path.Join(to, path.Base(c.From))
		}
	}
	return b.merge(staged, to)
}

// write writes a material into a new folder.
func (b *builder) write(dir, from string) error {
	material, err := b.material(from)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(material)) {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, material[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// merge moves a file or folder to its path in the root. A folder becomes part of the one
// that is there.
func (b *builder) merge(from, to string) error {
	parent, err := b.folder(path.Dir(to))
	if err != nil {
		return err
	}
	at := filepath.Join(parent, path.Base(to))
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	there, err := os.Stat(at)
	switch {
	case err == nil && info.IsDir() && there.IsDir():
		names, err := os.ReadDir(from)
		for _, n := range names {
			if err == nil {
				err = b.merge(filepath.Join(from, n.Name()), path.Join(to, n.Name()))
			}
		}
		return err
	case err == nil && (info.IsDir() || there.IsDir()):
		return fault.WithFix(fault.New(fault.Invalid, "%s is a folder in one place and a file in the other", to),
			"write another path")
	}
	return os.Rename(from, at)
}

// own gives a file or folder with all that is in it to a user of the root; "" is root.
func (b *builder) own(name, owner string) error {
	uid, gid, err := b.account(owner)
	if err != nil {
		return err
	}
	return filepath.WalkDir(name, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := os.Lchown(at, uid, gid); err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(at, info.Mode()) // changing the owner removed some bits
	})
}

// account finds USER[:GROUP] in the root.
func (b *builder) account(text string) (uid, gid int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	user, group, given := strings.Cut(text, ":")
	uid, gid, err = b.lookup("etc/passwd", user)
	if given && err == nil {
		gid, _, err = b.lookup("etc/group", group)
	}
	return uid, gid, err
}

// lookup finds a name in a database: the numbers in its third and fourth fields. A number
// needs no entry.
func (b *builder) lookup(file, name string) (first, second int, err error) {
	text, err := b.read(file)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[0] != name && f[2] != name {
			continue
		}
		if first, err = strconv.Atoi(f[2]); err == nil {
			second, _ = strconv.Atoi(f[3]) // the members of a group are not a number
			return first, second, nil
		}
	}
	if first, err = strconv.Atoi(name); err != nil || first < 0 {
		return 0, 0, fault.WithFix(fault.New(fault.Invalid, "/%s has no %q", file, name),
			"write a number, or add the user with users:")
	}
	return first, 0, nil
}

// maxDatabase bounds the databases of users, in bytes.
const maxDatabase = 4 << 20

// read reads a file of the root; nil if there is none.
func (b *builder) read(name string) ([]byte, error) {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxDatabase {
		return nil, fault.New(fault.Invalid, "/%s of the base is not a file of at most %d bytes", name, maxDatabase)
	}
	return root.ReadFile(name)
}

// users adds users and groups.
func (b *builder) users() error {
	if len(b.def.Users) == 0 {
		return nil
	}
	if _, err := b.folder("/etc"); err != nil {
		return err
	}
	for _, u := range b.def.Users {
		for _, e := range []struct {
			file, line string
			mode       fs.FileMode
			must       bool
		}{
			{"etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:%s\n", u.Name, u.ID, u.ID, u.Home, u.Shell), 0o644, true},
			{"etc/group", fmt.Sprintf("%s:x:%d:\n", u.Name, u.ID), 0o644, true},
			{"etc/shadow", fmt.Sprintf("%s:!:%d:0:99999:7:::\n", u.Name, epoch.Unix()/86400), 0o640, false},
			{"etc/gshadow", u.Name + ":!::\n", 0o640, false},
		} {
			text, err := b.read(e.file)
			if err != nil {
				return err
			}
			if text == nil && !e.must {
				continue
			}
			for line := range bytes.Lines(text) {
				f := strings.Split(string(line), ":")
				if f[0] == u.Name || e.must && len(f) > 2 && strings.TrimSpace(f[2]) == strconv.Itoa(u.ID) {
					return fault.WithFix(fault.New(fault.Invalid, "/%s of the base has the user %s or its number already", e.file,
						u.Name), "write another name and id")
				}
			}
			if err := b.replace(e.file, append(text, e.line...), e.mode); err != nil {
				return err
			}
		}
		if u.Home != "/" {
			at, err := b.folder(u.Home)
			if err == nil {
				err = os.Lchown(at, u.ID, u.ID)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// replace writes a file of the root. One that is there keeps its owner and permissions.
func (b *builder) replace(name string, text []byte, mode fs.FileMode) error {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Lstat(name)
	existed := err == nil
	if err := root.WriteFile(name, text, mode); err != nil {
		return err
	}
	if existed {
		return nil
	}
	return root.Chmod(name, mode)
}
