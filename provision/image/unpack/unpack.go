// Package unpack writes the layers of an image into a folder: the root file system
// of environments. The layers come from strangers.
//
// Every path is resolved inside the folder, as a process sees it whose root is the
// folder, and every operation goes through an os.Root, which the kernel keeps inside
// the folder. An archive that tries to leave the folder, that has devices, or that is
// larger than the limits is refused, and nothing of it remains.
package unpack

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
)

// Layer is one archive of an image: a tar file, compressed or not.
type Layer struct {
	// Name is what errors call it.
	Name string
	Open func() (io.ReadCloser, error)
	// Size is the number of bytes that Open's reader has; -1 if it is not known.
	Size int64
	// Digest and DiffID are the sha256:… of the file and of the tar file in it. They
	// are compared with what was read; "" is not compared.
	Digest, DiffID string
	// Found receives the digest of the file after all of it was unpacked; nil discards.
	Found func(digest string)
	// Plain tells that the archive is a root file system and no layer: names that
	// begin with .wh. remove nothing.
	Plain bool
}

// Limits bound what an image may hold.
type Limits struct {
	Bytes   int64 // of all files
	Entries int   // of all layers
	Names   int64 // bytes of the paths of a layer
	// Ratio bounds what a layer takes on the disk: Slack bytes, and Ratio times its size
	// more. Runs of zeros in files become holes and take nothing.
	Ratio, Slack int64
}

// Default are the limits for images of strangers: 64 GiB, four million files, and 200
// bytes on the disk from each compressed byte.
var Default = Limits{Bytes: 64 << 30, Entries: 4 << 20, Names: 512 << 20, Ratio: 200, Slack: 256 << 20}

// Options change how an image is unpacked.
type Options struct {
	Limits Limits // the zero value is Default
	// Progress receives the number of bytes read of all layers, often; nil discards.
	Progress func(int64)
	// Anybody leaves every file to the user of this process, who need not be root.
	Anybody bool
}

// Unpack writes the layers, the lowest first, into the folder dir, which must not
// exist. The folder has mode 0755, or what the layers say. On an error it removes
// dir. Without Options.Anybody it needs root. Errors are of kind fault.Invalid if the
// image is refused.
func Unpack(ctx context.Context, dir string, layers []Layer, o Options) error {
	if o.Limits == (Limits{}) {
		o.Limits = Default
	}
	if !o.Anybody && os.Getuid() != 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "the files of an image belong to several "+
			"users, and only root can create such files"),
			"run bakeoff as root")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	err := unpack(ctx, dir, layers, o)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

func unpack(ctx context.Context, dir string, layers []Layer, o Options) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	u := &unpacker{root: root, o: o, times: map[string]time.Time{},
		buffer: make([]byte, 256<<10)}
	defer func() {
		u.closeFolders()
		err = errors.Join(err, root.Close())
	}()
	if err := u.root.Chmod(".", 0o755); err != nil { // whatever the umask says
		return err
	}
	for i, l := range layers {
		if err := u.layer(ctx, l, i > 0); err != nil {
			return fault.Op(l.Name, err)
		}
	}
	if u.entries == 0 {
		return refusal("the archive holds no file")
	}
	return u.setTimes()
}

// refusal is the error for what an archive must not have.
func refusal(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

// unpacker is the state of one Unpack.
type unpacker struct {
	root *os.Root
	o    Options

	// open are the folders above the last entry, each in the one before it, by their
	// names in the archive. If stale, the names may lead elsewhere now.
	open  []place
	stale bool

	bytes   int64
	size    int64 // of the current layer, as it is stored
	left    int64 // bytes that it may still take on the disk
	read    int64 // of all layers, for Progress
	entries int
	names   int64

	// upper has the paths that the current layer wrote, and the folders above them;
	// nil in the lowest layer, where all paths are its own.
	upper map[string]bool
	plain bool
	// times are the modification times of folders, which later entries change.
	times  map[string]time.Time
	buffer []byte
}

// place is a folder below the root.
type place struct {
	name string   // as archives write it
	path string   // without links; "" is the root
	root *os.Root // of the folder
}

// layer unpacks one layer. If upon, it lies upon others.
func (u *unpacker) layer(ctx context.Context, l Layer, upon bool) error {
	u.upper, u.names, u.plain = nil, 0, l.Plain
	u.size, u.left = l.Size, u.o.Limits.mostOnDisk(l.Size)
	if upon {
		u.upper = map[string]bool{}
	}
	s, err := open(ctx, l, u.o.Limits, func(n int64) {
		u.read += n
		if u.o.Progress != nil {
			u.o.Progress(u.read)
		}
	})
	if err != nil {
		return err
	}
	defer s.Close()
	archive := tar.NewReader(s)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s.endError(err)
		}
		if err := u.entry(h, archive); err != nil {
			if err := s.endError(nil); err != nil { // what ended the stream
				return err
			}
			if !fault.Is(err, fault.Invalid) && errors.Is(err, io.ErrUnexpectedEOF) {
				err = refusal("the archive ends in the middle of the file: %v", err)
			}
			return fault.Op("entry "+forMessage(h.Name), err)
		}
	}
	return s.finish()
}

// forMessage is a path in a message.
func forMessage(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	return yamltree.Show(name)
}

// The bounds of Linux for paths.
const (
	maxPath = 4096
	maxName = 255
)

// relativePath returns the path of an entry relative to the root: "usr/bin/env"; "" is the
// root. It ignores a leading slash, like other programs that read images.
func relativePath(name string) (string, error) {
	switch {
	case name == "":
		return "", refusal("the path is empty")
	case len(name) > maxPath:
		return "", refusal("the path has %d bytes; the limit is %d", len(name), maxPath)
	case strings.ContainsRune(name, 0):
		return "", refusal("the path has a zero byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", refusal("the path has .. and may leave the image")
		case len(part) > maxName:
			return "", refusal("a name in the path has %d bytes; the limit is %d", len(part), maxName)
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	u.entries++
	u.names += int64(len(h.Name))
	if err := u.countBytes(entrySize); err != nil {
		return err
	}
	switch l := u.o.Limits; {
	case u.entries > l.Entries:
		return refusal("the image holds more than %d files", l.Entries)
	case u.names > l.Names:
		return refusal("the paths of the layer have more than %d bytes", l.Names)
	}
	name, err := relativePath(h.Name)
	if err != nil {
		return err
	}
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return refusal("the root of the image is not a folder")
		}
		return u.folder(u.root, ".", "", h)
	}
	parent, base := path.Split(name)
	if !u.plain && strings.HasPrefix(base, whiteout) {
		return u.whiteout(path.Clean("/" + parent)[1:], base, h)
	}
	if isDevice(h.Typeflag) && strings.HasPrefix(name, "dev/") {
		return nil // environments get a /dev of their own
	}
	at, err := u.openFolder(path.Clean("/" + parent)[1:])
	if err != nil {
		return err
	}
	real := path.Join(at.path, base)
	if len(real) > maxPath {
		return refusal("with its links resolved, the path has %d bytes; the limit is %d", len(real), maxPath)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.folder(at.root, base, real, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(at.root, base, real, h, content)
	case tar.TypeSymlink:
		err = u.symlink(at.root, base, real, h)
	case tar.TypeLink:
		err = u.link(at.root, base, real, h)
	case tar.TypeFifo:
		err = u.fifo(at.root, base, real, h)
	case tar.TypeChar, tar.TypeBlock:
		err = refusal("the file is a device outside /dev; bakeoff skips devices below /dev and refuses others")
	default:
		err = refusal("the file has the unknown type %q", h.Typeflag)
	}
	if err == nil {
		u.noteWritten(real)
	}
	return err
}

func isDevice(flag byte) bool { return flag == tar.TypeChar || flag == tar.TypeBlock }

// noteWritten notes that the current layer wrote the path.
func (u *unpacker) noteWritten(real string) {
	for ; u.upper != nil && real != "." && real != "" && !u.upper[real]; real = path.Dir(real) {
		u.upper[real] = true
	}
}

// wroteBelow tells whether the current layer wrote the path or something below it.
func (u *unpacker) wroteBelow(real string) bool { return u.upper == nil || u.upper[real] }

// maxOpen bounds how many folders are open at the same time.
const maxOpen = 32

// openFolder returns the folder that archives call name, and creates it if it is missing. Most
// entries are in the folder of the last one, or near it.
func (u *unpacker) openFolder(name string) (at place, err error) {
	if u.stale {
		u.closeFolders()
	}
	for at = (place{root: u.root}); len(u.open) > 0; u.open = u.open[:len(u.open)-1] {
		last := u.open[len(u.open)-1]
		if name == last.name || strings.HasPrefix(name, last.name+"/") {
			at = last
			break
		}
		u.closeFolder(last)
	}
	for _, part := range parts(strings.TrimPrefix(name, at.name)) {
		plain := len(u.open) < maxOpen
		if plain {
			if at, plain, err = u.openBelow(at, part); err != nil {
				return place{}, err
			}
		}
		if !plain {
			u.closeFolders()
			if at, err = u.resolve(name, true); err == nil {
				u.open = append(u.open, at)
			}
			return at, err
		}
		u.open = append(u.open, at)
	}
	return at, nil
}

// openBelow opens a folder in a folder, and creates it if it is missing. If it is a link or a
// file, plain is false.
func (u *unpacker) openBelow(at place, part string) (below place, plain bool, err error) {
	next := place{name: path.Join(at.name, part), path: path.Join(at.path, part)}
	if len(next.path) > maxPath {
		return place{}, false, nil
	}
	info, err := at.root.Lstat(part)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = u.missing(at.root, part, next.path)
	case err == nil && !info.IsDir():
		return place{}, false, nil
	}
	if err != nil {
		return place{}, false, err
	}
	next.root, err = at.root.OpenRoot(part)
	return next, true, err
}

// closeFolders closes the folders of the last entry.
func (u *unpacker) closeFolders() {
	for _, p := range u.open {
		u.closeFolder(p)
	}
	u.open, u.stale = u.open[:0], false
}

// closeFolder closes a folder. The root stays open.
func (u *unpacker) closeFolder(p place) {
	if p.root != u.root {
		p.root.Close()
	}
}

// maxLinks is how many links a path may have, as in Linux.
const maxLinks = 40

// resolve opens a folder. It follows the links in its path as a process would whose root
// is the image, and refuses a link that leads above the root. If create, missing folders
// are created; otherwise they are an error.
func (u *unpacker) resolve(name string, create bool) (at place, err error) {
	at = place{name: name, root: u.root}
	defer func() {
		if err != nil {
			u.closeFolder(at)
		}
	}()
	rest, links := parts(name), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			if at.path == "" {
				return at, refusal("a link in the path leaves the image")
			}
			if err := u.switchFolder(&at, above(at.path)); err != nil {
				return at, err
			}
			continue
		}
		next := path.Join(at.path, part)
		if len(next) > maxPath {
			return at, refusal("after resolving links, the path has more than %d bytes", maxPath)
		}
		info, err := at.root.Lstat(part)
		switch {
		case errors.Is(err, fs.ErrNotExist) && create:
			if err := u.missing(at.root, part, next); err != nil {
				return at, err
			}
		case errors.Is(err, fs.ErrNotExist):
			return at, refusal("%w: %s", errNoFolder, forMessage(next))
		case err != nil:
			return at, err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return at, refusal("the path has more than %d links", maxLinks)
			}
			target, err := at.root.Readlink(part)
			if err != nil {
				return at, err
			}
			if strings.HasPrefix(target, "/") {
				if err := u.switchFolder(&at, ""); err != nil {
					return at, err
				}
			}
			rest = append(parts(target), rest...)
			if len(rest) > maxPath {
				return at, refusal("after resolving links, the path has more than %d bytes", maxPath)
			}
			continue
		case !info.IsDir():
			return at, refusal("%s is not a folder", forMessage(next))
		}
		below, err := at.root.OpenRoot(part)
		if err != nil {
			return at, err
		}
		u.closeFolder(at)
		at.path, at.root = next, below
	}
	return at, nil
}

// switchFolder makes at another folder, whose path has no link.
func (u *unpacker) switchFolder(at *place, to string) error {
	root := u.root
	if to != "" {
		var err error
		if root, err = u.root.OpenRoot(to); err != nil {
			return err
		}
	}
	u.closeFolder(*at)
	at.path, at.root = to, root
	return nil
}

// parts are the names in a path, without those that mean nothing.
func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(p string) bool { return p == "" || p == "." })
}

func above(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// missing creates a folder that the archive does not name.
func (u *unpacker) missing(at *os.Root, base, real string) error {
	if u.entries++; u.entries > u.o.Limits.Entries {
		return refusal("the image holds more than %d files", u.o.Limits.Entries)
	}
	if err := at.Mkdir(base, 0o755); err != nil {
		return err
	}
	u.noteWritten(real)
	return at.Chmod(base, 0o755)
}

// clearPath removes what a new entry replaces, which must not be a folder of the same
// layer. It reports whether a folder is there that the entry can keep.
func (u *unpacker) clearPath(at *os.Root, base, real string, folder bool) (keep bool, err error) {
	old, err := at.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case old.IsDir() && folder:
		return true, nil
	case old.IsDir() && u.wroteBelow(real):
		return false, refusal("the file replaces a folder of the same layer")
	case old.IsDir():
		u.removed(real)
		return false, u.root.RemoveAll(real)
	case old.Mode()&fs.ModeSymlink != 0:
		u.removed(real) // the place may have been reached through it
	}
	return false, at.Remove(base)
}

// removed notes that a folder or a link goes: names may lead elsewhere now.
func (u *unpacker) removed(real string) {
	u.stale = true
	delete(u.times, real)
}

// folder creates a folder, or changes the one that is there.
func (u *unpacker) folder(at *os.Root, base, real string, h *tar.Header) error {
	if base != "." {
		keep, err := u.clearPath(at, base, real, true)
		if err != nil {
			return err
		}
		if !keep {
			if err := at.Mkdir(base, 0o700); err != nil {
				return err
			}
		}
	}
	f, err := at.Open(base)
	if err != nil {
		return err
	}
	defer f.Close()
	u.times[real] = h.ModTime
	return u.describe(f, h)
}

// file creates a regular file.
func (u *unpacker) file(at *os.Root, base, real string, h *tar.Header, content io.Reader) error {
	if h.Size < 0 || h.Size > u.o.Limits.Bytes-u.bytes {
		return refusal("the files of the image have more than %d bytes", u.o.Limits.Bytes)
	}
	u.bytes += h.Size
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	f, err := at.OpenFile(base, flags, 0o600)
	if errors.Is(err, fs.ErrExist) { // most files replace nothing, and nothing is looked up for them
		if _, err = u.clearPath(at, base, real, false); err == nil {
			f, err = at.OpenFile(base, flags, 0o600)
		}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := u.writeContent(f, h.Size, content); err != nil {
		return err
	}
	if err := u.describe(f, h); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return at.Chtimes(base, storableTime(h.ModTime), storableTime(h.ModTime))
}

// storableTime is t, in the range that every file system can store.
func storableTime(t time.Time) time.Time {
	if t.Unix() < 0 || t.Unix() > math.MaxInt32*2 {
		return time.Unix(0, 0)
	}
	return t
}

// symlink creates a symbolic link. Nothing follows it while the image is unpacked,
// except resolve.
func (u *unpacker) symlink(at *os.Root, base, real string, h *tar.Header) error {
	switch {
	case h.Linkname == "" || strings.ContainsRune(h.Linkname, 0):
		return refusal("the link has no target")
	case len(h.Linkname) >= maxPath:
		return refusal("the target of the link has %d bytes; the limit is %d", len(h.Linkname), maxPath-1)
	}
	if _, err := u.clearPath(at, base, real, false); err != nil {
		return err
	}
	if err := at.Symlink(h.Linkname, base); err != nil {
		return err
	}
	uid, gid, err := owner(h)
	if err != nil || u.o.Anybody {
		return err
	}
	return at.Lchown(base, uid, gid)
}

// link creates a hard link to a file that was unpacked before.
func (u *unpacker) link(at *os.Root, base, real string, h *tar.Header) error {
	name, err := relativePath(h.Linkname)
	if err != nil {
		return fault.Op("its target "+forMessage(h.Linkname), err)
	}
	dir, file := path.Split(name)
	if file == "" {
		return refusal("the file is a hard link to the root")
	}
	of, err := u.resolve(dir, false)
	if err != nil {
		return fault.Op("its target "+forMessage(h.Linkname), err)
	}
	defer u.closeFolder(of)
	from := path.Join(of.path, file)
	target, err := of.root.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refusal("the file is a hard link to %s, but no earlier entry of the archive has this path",
			forMessage(h.Linkname))
	case err != nil:
		return err
	case target.IsDir():
		return refusal("the file is a hard link to the folder %s", forMessage(h.Linkname))
	case from == real:
		return refusal("it is a hard link to itself")
	}
	if old, err := at.Lstat(base); err == nil && os.SameFile(old, target) {
		return nil
	}
	if _, err := u.clearPath(at, base, real, false); err != nil {
		return err
	}
	err = u.root.Link(from, real)
	if errors.Is(err, fs.ErrNotExist) {
		return refusal("it is a hard link to %s, which it replaces", forMessage(h.Linkname))
	}
	return err
}

// owner is the user and the group of an entry.
func owner(h *tar.Header) (uid, gid int, err error) {
	for _, id := range []int{h.Uid, h.Gid} {
		if id < 0 || id >= math.MaxUint32 { // the last one means no change
			return 0, 0, refusal("its owner %d:%d is not a valid user and group", h.Uid, h.Gid)
		}
	}
	return h.Uid, h.Gid, nil
}

// describe sets owner, mode and extended attributes. The owner comes first: changing
// it resets bits of the mode and capabilities.
func (u *unpacker) describe(f *os.File, h *tar.Header) error {
	uid, gid, err := owner(h)
	if err != nil {
		return err
	}
	if !u.o.Anybody {
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	}
	for _, name := range attributes(h) {
		if err := allowed(name, h.PAXRecords[prefix+name]); err != nil {
			return err
		}
		if !isKept(name) || u.o.Anybody && !strings.HasPrefix(name, "user.") {
			continue
		}
		if err := u.countBytes(int64(len(name) + len(h.PAXRecords[prefix+name]))); err != nil {
			return err
		}
		if err := setAttribute(f, name, h.PAXRecords[prefix+name]); err != nil {
			return fmt.Errorf("extended attribute %s: %w", forMessage(name), err)
		}
	}
	return f.Chmod(mode(h.Mode))
}

func mode(bits int64) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	for bit, is := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			m |= is
		}
	}
	return m
}

// setTimes sets the times of the folders, after everything was written to them.
func (u *unpacker) setTimes() error {
	for name, t := range u.times {
		name = cmp.Or(name, ".")
		info, err := u.root.Lstat(name)
		if err != nil || !info.IsDir() {
			continue // a later layer removed it
		}
		if err := u.root.Chtimes(name, storableTime(t), storableTime(t)); err != nil {
			return err
		}
	}
	return nil
}
