// Package files packs files and folders of the controller's machine, which
// environments get at a path of their own.
//
// Packing is reproducible: the same names, permission bits and contents give the
// same digest on every machine and on every day. What is packed belongs to root and
// has a fixed time. Contents are streamed: no file is held in memory.
package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
)

// Source is what is packed.
type Source struct {
	Path string // on this machine, a file or a folder
	Name string // in messages; "" is Path
	// Mode replaces the permission bits of a file; 0 keeps its own. A folder has no
	// Mode.
	Mode fs.FileMode
}

// Facts is what is known of a source that was read.
type Facts struct {
	// Digest is sha256:… over every path, permission bits, link target and content.
	Digest string
	Size   int64 // of all contents, in bytes
	Folder bool
}

// Time is the modification time of everything that is packed. It is not 0: there are
// archive formats that know no time before 1980.
var Time = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Measure reads a source and returns its facts. Errors about the source itself are
// of kind fault.Invalid. say gets lines for a person if it takes longer than a second;
// nil discards them.
func Measure(ctx context.Context, src Source, say func(string)) (Facts, error) {
	return pack(ctx, src, "", say)
}

// Copy packs a source into dst, which does not exist yet: a file for a file, a folder
// for a folder. The facts are those of what was written. After an error, the caller
// removes dst.
func Copy(ctx context.Context, src Source, dst string, say func(string)) (Facts, error) {
	return pack(ctx, src, dst, say)
}

func pack(ctx context.Context, src Source, dst string, say func(string)) (Facts, error) {
	src.Name = cmp.Or(src.Name, src.Path)
	p := &packer{ctx: ctx, name: src.Name, mode: src.Mode.Perm(), sum: sha256.New(), dst: dst, say: say,
		next: time.Now().Add(sayAfter), buf: make([]byte, bufferSize)}
	at, err := os.Stat(src.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Facts{}, fault.WithFix(fault.New(fault.Invalid, "there is no file or folder %s", src.Name),
			"build it, or write another path; it is relative to the folder of the lab file")
	case err != nil:
		return Facts{}, fault.Wrap(fault.Invalid, src.Name, err)
	case at.IsDir() && src.Mode != 0:
		return Facts{}, fault.WithFix(fault.New(fault.Invalid, "%s is a folder; a mode can be set only for a file", src.Name),
			"remove mode: files of a folder keep their permissions")
	case at.IsDir():
		err = p.folder(src.Path)
	case at.Mode().IsRegular():
		err = p.single(src.Path)
	default:
		return Facts{}, p.refuse("", at.Mode())
	}
	if err != nil {
		return Facts{}, fault.Op("read "+src.Name, err)
	}
	return Facts{Digest: "sha256:" + hex.EncodeToString(p.sum.Sum(nil)), Size: p.size, Folder: at.IsDir()}, nil
}

// The size of the one buffer, and how often a person hears of progress.
const (
	bufferSize = 1 << 20
	sayAfter   = time.Second
	sayEvery   = 5 * time.Second
)

// packer packs one source.
type packer struct {
	ctx  context.Context
	name string
	mode fs.FileMode
	sum  hash.Hash
	size int64
	dst  string // "": only read
	say  func(string)
	next time.Time
	buf  []byte
}

// single packs a file.
func (p *packer) single(path string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	name, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if name != path { // a link that the person named: it leads where they want
		root.Close()
		if root, err = os.OpenRoot(filepath.Dir(name)); err != nil {
			return err
		}
		defer root.Close()
	}
	return p.file(root, filepath.Base(name), ".")
}

// folder packs a folder, in the order of its paths.
func (p *packer) folder(path string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	type made struct {
		path string
		mode fs.FileMode
	}
	var dirs []made // their times and bits are set when they have their content
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
		at, err := root.Lstat(name)
		if err != nil {
			return err
		}
		switch {
		case at.IsDir():
			fmt.Fprintf(p.sum, "folder %q %04o\n", name, at.Mode().Perm())
			if p.dst == "" {
				return nil
			}
			to := filepath.Join(p.dst, name)
			dirs = append(dirs, made{to, at.Mode().Perm()})
			return os.Mkdir(to, 0o700)
		case at.Mode()&fs.ModeSymlink != 0:
			return p.link(root, name)
		case at.Mode().IsRegular():
			return p.file(root, name, name)
		}
		return p.refuse(name, at.Mode())
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = settle(dirs[i].path, dirs[i].mode)
	}
	return err
}

// link packs a symbolic link that stays inside of the folder.
func (p *packer) link(root *os.Root, name string) error {
	target, err := root.Readlink(name)
	if err != nil {
		return err
	}
	_, err = root.Stat(name) // which follows links, and never leaves the folder
	inside := filepath.IsLocal(filepath.Join(filepath.Dir(name), target))
	if filepath.IsAbs(target) || !inside || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.WithFix(fault.New(fault.Invalid, "the link %s leads out of the folder, to %s", name, target),
			"copy what it leads to into the folder, or remove the link")
	}
	fmt.Fprintf(p.sum, "link %q %q\n", name, target)
	if p.dst == "" {
		return nil
	}
	to := filepath.Join(p.dst, name)
	if err := os.Symlink(target, to); err != nil {
		return err
	}
	return owned(to)
}

// file packs the content of a regular file; as is its name in the digest.
func (p *packer) file(root *os.Root, name, as string) error {
	// Without waiting: a pipe may have taken the place of the file.
	f, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	at, err := f.Stat()
	if err != nil {
		return err
	}
	if !at.Mode().IsRegular() {
		return p.refuse(name, at.Mode())
	}
	mode := at.Mode().Perm()
	if p.mode != 0 {
		mode = p.mode
	}
	fmt.Fprintf(p.sum, "file %q %04o %d ", as, mode, at.Size())
	if p.dst == "" {
		return p.stream(io.Discard, f, at.Size(), name)
	}
	to := filepath.Join(p.dst, as)
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = p.stream(&sparse{f: out}, f, at.Size(), name)
	if err == nil {
		err = out.Truncate(at.Size()) // a hole at the end
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return settle(to, mode)
}

// stream hashes and writes exactly size bytes.
func (p *packer) stream(w io.Writer, r io.Reader, size int64, name string) error {
	var n int64
	for {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		k, err := r.Read(p.buf)
		n += int64(k)
		p.size += int64(k)
		p.sum.Write(p.buf[:k])
		if _, werr := w.Write(p.buf[:k]); werr != nil {
			return werr
		}
		if n > size {
			break
		}
		p.progress()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if n != size {
		return fault.WithFix(fault.New(fault.Invalid, "%s changed while bakeoff read it", name),
			"wait until nothing writes to it")
	}
	_, err := p.sum.Write([]byte{'\n'})
	return err
}

func (p *packer) progress() {
	if now := time.Now(); p.say != nil && now.After(p.next) {
		verb := "reading"
		if p.dst != "" {
			verb = "packing"
		}
		p.say(fmt.Sprintf("%s %s: %s so far", verb, p.name, unit.Bytes(p.size)-unit.Bytes(p.size)%unit.MiB))
		p.next = now.Add(sayEvery)
	}
}

// refuse is the error for what is neither a file, nor a folder, nor a link.
func (p *packer) refuse(name string, mode fs.FileMode) error {
	what := "not a regular file"
	switch {
	case mode&fs.ModeNamedPipe != 0:
		what = "a FIFO"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	name = cmp.Or(name, p.name)
	return fault.WithFix(fault.New(fault.Invalid, "%s is %s", name, what),
		"only files, folders and links inside of a folder can be placed: remove it, or name another folder")
}

// settle gives what was packed its bits, owner and time.
func settle(path string, mode fs.FileMode) error {
	return errors.Join(owned(path), os.Chmod(path, mode), os.Chtimes(path, Time, Time))
}

// owned gives path to root. Only root can do so; another user has no images.
func owned(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, 0, 0)
}

// sparse writes blocks of zeros as holes.
type sparse struct{ f *os.File }

// Write implements io.Writer.
func (s *sparse) Write(b []byte) (int, error) {
	const block = 64 << 10
	for at := 0; at < len(b); at += block {
		part := b[at:min(at+block, len(b))]
		var err error
		if allZero(part) {
			_, err = s.f.Seek(int64(len(part)), io.SeekCurrent)
		} else {
			_, err = s.f.Write(part)
		}
		if err != nil {
			return at, err
		}
	}
	return len(b), nil
}

func allZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if !bytes.Equal(b[:n], zeros[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

var zeros [4096]byte

// Short is a digest as people read it.
func Short(digest string) string {
	if kind, hash, ok := strings.Cut(digest, ":"); ok && len(hash) > 12 {
		return kind + ":" + hash[:12]
	}
	return digest
}
