package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/name"
	"bakeoff/provision/files"
)

// Placed is a packed file or folder in a root.
type Placed struct {
	To     string // absolute path in the root
	Digest string // of what was packed
}

// Kinds of entries that hold what users bring. Both can be made again from their
// sources.
const (
	KindDerived = "derived"
	KindFiles   = "files"
)

const (
	derivedPrefix = "derived-"
	filesPrefix   = "files-"
	// content is the file or folder in the directory of packed files.
	content = "content"
)

// Packed is the path of what was packed with a digest; "" if the store does not have
// it.
func (s *Store) Packed(digest string) string {
	if !name.ValidDigest(digest) {
		return ""
	}
	dir := s.filesDir(digest)
	if !exists(filepath.Join(dir, description)) {
		return ""
	}
	return filepath.Join(dir, content)
}

func (s *Store) filesDir(digest string) string {
	return filepath.Join(s.Dir, filesPrefix+strings.TrimPrefix(digest, "sha256:"))
}

// noFiles is the remedy for files in a disk.
const noFiles = "write the files to the disk yourself, or name its root file system as the image, with rootfs:"

// Pack keeps a copy of a source in the store, unless it has one. If the source does
// not have this digest any more, the error is of kind fault.Invalid.
func (s *Store) Pack(ctx context.Context, src files.Source, digest string) error {
	if !name.ValidDigest(digest) {
		return fault.New(fault.Lab, "%s has an invalid digest: %q", src.Name, digest)
	}
	held, err := s.lockStore(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	dir := s.filesDir(digest)
	if exists(filepath.Join(dir, description)) {
		_, err := noteUse(dir)
		return fault.Op("image store", err)
	}
	tmp, err := s.partial(dir)
	if err != nil {
		return fault.Op("image store", err)
	}
	got, err := files.Copy(ctx, src, filepath.Join(tmp, content), s.Progress)
	if err == nil && got.Digest != digest {
		err = fault.WithFix(fault.New(fault.Invalid, "%s changed since the plan was made", src.Name),
			"wait until nothing writes to it, and start again")
	}
	if err == nil {
		err = finishFolder(tmp, dir, Root{Schema: Schema, Ref: src.Name, Digest: digest,
			Built: time.Now().UTC().Truncate(time.Second)})
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(tmp))
	}
	return err
}

// lockStore locks the store, which it creates, and removes what killed builds left.
func (s *Store) lockStore(ctx context.Context) (*lock.Lock, error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, fault.WithFix(fault.Op("create the image cache", err),
			"set BAKEOFF_CACHE to a folder that you can write to")
	}
	held, err := lock.Wait(ctx, filepath.Join(s.Dir, lockFile))
	if err != nil {
		return nil, fault.Op("image store", err)
	}
	if err := s.sweepPartial(ctx); err != nil {
		held.Release()
		return nil, fault.Op("image store", err)
	}
	return held, nil
}

// derivedRoot returns base with the files of req in its root, and its directory. The root
// consists of hard links to the files of base and to the packed ones, so it takes
// hardly any space. The digest is that of base and of the files.
func (s *Store) derivedRoot(req Request, base Root) (Root, string, error) {
	placed := slices.SortedFunc(slices.Values(req.Files), func(a, b Placed) int { return strings.Compare(a.To, b.To) })
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", base.Digest)
	for _, p := range placed {
		fmt.Fprintf(sum, "%q %s\n", p.To, p.Digest)
	}
	key := hex.EncodeToString(sum.Sum(nil))
	dir := filepath.Join(s.Dir, derivedPrefix+strings.NewReplacer(":", "-", "/", "-").Replace(req.Ref)+"-"+key[:12])
	if !exists(filepath.Join(dir, description)) {
		if err := s.placeFiles(base, placed, "sha256:"+key, dir); err != nil {
			return Root{}, "", err
		}
	}
	out := base
	img, err := noteUse(dir)
	out.Digest, out.Dir, out.Disk = img.Digest, filepath.Join(dir, rootDir), ""
	return out, dir, err
}

func (s *Store) placeFiles(base Root, placed []Placed, digest, dir string) error {
	tmp, err := s.partial(dir)
	if err != nil {
		return err
	}
	root := filepath.Join(tmp, rootDir)
	if err = closeToUsers(tmp); err == nil {
		err = linkTree(base.Dir, root)
	}
	for _, p := range placed {
		if err == nil {
			err = s.placeFile(root, p)
		}
	}
	if err == nil {
		img := base
		img.Digest, img.Built = digest, time.Now().UTC().Truncate(time.Second)
		err = finishFolder(tmp, dir, img)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(tmp))
	}
	return err
}

// placeFile puts a packed file or folder at its path in root. It takes the place of what
// the image has there, as a bind mount does.
func (s *Store) placeFile(root string, p Placed) error {
	from := s.Packed(p.Digest)
	if from == "" {
		return fault.WithFix(fault.New(fault.Unsupported, "the files for %s are no longer in the cache", p.To),
			"start a new run")
	}
	parent, err := Inside(root, path.Dir(p.To))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fault.WithFix(fault.Wrap(fault.Invalid, p.To, err), "write another to: in the image, a file is in its place")
	}
	to := filepath.Join(parent, path.Base(p.To))
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	at, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if at.IsDir() {
		return linkTree(from, to)
	}
	return os.Link(from, to)
}

// linkTree makes a copy of a folder whose files are hard links.
func linkTree(from, to string) error {
	type folder struct {
		path string
		info fs.FileInfo
	}
	var folders []folder
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		if !d.IsDir() {
			return os.Link(name, dst)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		folders = append(folders, folder{dst, info})
		return os.Mkdir(dst, 0o700)
	})
	for i := len(folders) - 1; i >= 0 && err == nil; i-- {
		err = copyAttributes(folders[i].path, folders[i].info)
	}
	return err
}

// copyAttributes gives a folder the owner, bits and time of another one.
func copyAttributes(to string, info fs.FileInfo) error {
	var err error
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		err = os.Lchown(to, int(st.Uid), int(st.Gid))
	}
	return errors.Join(err, os.Chmod(to, info.Mode()), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// maxLinks bounds how many symbolic links a path leads over, as in the kernel.
const maxLinks = 40

// Inside returns the path on this machine of a path in a root. It resolves symbolic
// links as a process in that root would, so the result is never outside. What does not
// exist is left as it is written.
func Inside(root, name string) (string, error) {
	left := strings.Split(path.Clean("/"+name), "/")[1:]
	at, links := "/", 0
	for len(left) > 0 {
		next := path.Join(at, left[0]) // ".." at the root stays there
		left = left[1:]
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fault.New(fault.Invalid, "%s contains too many symbolic links", name)
		}
		if path.IsAbs(target) {
			at = "/"
		}
		left = append(slices.DeleteFunc(strings.Split(target, "/"), func(s string) bool { return s == "" }), left...)
	}
	return filepath.Join(root, at), nil
}
