package bundle

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"bakeoff/base/fault"
	"bakeoff/lab/store"
)

// reportDir is left out of bundles: bakeoff report makes it again.
const reportDir = "report"

// entry is a file of a run folder.
type entry struct {
	name  string
	bytes int64
}

// list returns the files of a run folder in the order of their names. A link or another
// special file is an error of kind fault.Invalid.
func list(root fs.FS) (out []entry, bytes int64, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == reportDir:
			return fs.SkipDir
		case d.IsDir() || strings.HasPrefix(d.Name(), ".part-"): // what a killed program left
			return nil
		case !d.Type().IsRegular():
			return fault.New(fault.Invalid, "%s is not a plain file", name)
		case !validPath(name):
			return fault.New(fault.Invalid, "%q is not the name of a file of a run", name)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out = append(out, entry{name, info.Size()})
		bytes += info.Size()
		return nil
	})
	if err == nil && (len(out) > maxFiles || bytes > maxUnpacked) {
		err = fault.New(fault.Invalid, "the run has %d files with %d bytes; a bundle can have at most %d files "+
			"with %d bytes", len(out), bytes, maxFiles,
			int64(maxUnpacked))
	}
	return out, bytes, err
}

// maxDepth is how many folders deep a file of a run lies at most.
const maxDepth = 4

// validPath reports whether a file of a run may have this path.
func validPath(name string) bool {
	if !fs.ValidPath(name) || name == "." || path.Clean(name) != name || strings.Count(name, "/") >= maxDepth {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if !validRun(part) {
			return false
		}
	}
	top, _, _ := strings.Cut(name, "/")
	return top != reportDir
}

// header is the one that a file has in a bundle: nothing but name and size.
func header(e entry) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: e.bytes, Mode: 0o644, Format: tar.FormatPAX}
}

// writeFolder packs files. sums are the hashes of files that the journal names.
func writeFolder(w io.Writer, root fs.FS, files []entry, sums map[string]string) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return fault.Wrap(fault.Lab, "bundle", err)
	}
	t := tar.NewWriter(z)
	for _, e := range files {
		if err := writeFile(t, root, e, sums[e.name]); err != nil {
			return errors.Join(fault.Op(e.name, err), z.Close())
		}
	}
	err = t.Close()
	return fault.Wrap(fault.Lab, "bundle", errors.Join(err, z.Close()))
}

func writeFile(t *tar.Writer, root fs.FS, e entry, want string) error {
	f, err := root.Open(e.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(header(e)); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(t, sum), io.LimitReader(f, e.bytes))
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return err
	case n != e.bytes:
		return fault.New(fault.Invalid, "the file changed while it was read")
	case want != "" && want != got:
		return fault.WithFix(fault.New(fault.Invalid, "the file was changed: its SHA-256 is %s, but the journal "+
			"records %s", got,
			want), "run bakeoff verify")
	}
	return nil
}

// Unpack unpacks a run folder into dir, which exists and is empty. It refuses what Record
// does not announce, and everything that bakeoff does not write: other kinds of files,
// other names, another order. It writes nothing outside of dir. Errors about the bundle
// are of kind fault.Invalid.
func Unpack(r io.Reader, rec Record, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Wrap(fault.Lab, "unpack", err)
	}
	defer root.Close()
	files, bytes, last := 0, int64(0), ""
	return Walk(r, func(h *tar.Header, content io.Reader) error {
		files++
		bytes += h.Size
		switch {
		case files > rec.Files || bytes > rec.Bytes:
			return fault.New(fault.Invalid, "the folder has more than the %d files with %d bytes in total that the "+
				"record names", rec.Files,
				rec.Bytes)
		case h.Name <= last:
			return fault.New(fault.Invalid, "%.80q follows %.80q: the files are not sorted by name", h.Name, last)
		}
		last = h.Name
		return writeNew(root, h, content)
	}, func() error {
		if files != rec.Files || bytes != rec.Bytes {
			return fault.New(fault.Invalid, "the folder has %d files with %d bytes in total; the record names %d "+
				"files with %d bytes", files, bytes,
				rec.Files, rec.Bytes)
		}
		return nil
	})
}

func writeNew(root *os.Root, h *tar.Header, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(h.Name), 0o777); err != nil {
		return err
	}
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, content)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Close())
}

// maxWindow bounds the memory of the decoder, in bytes.
const maxWindow = 64 << 20

// Walk calls each with every file of a packed folder, and end after the last one.
func Walk(r io.Reader, each func(*tar.Header, io.Reader) error, end func() error) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return fault.Wrap(fault.Invalid, "the folder of the bundle", err)
	}
	defer z.Close()
	t := tar.NewReader(z)
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = checkHeader(h)
		}
		if err == nil && n >= maxFiles {
			err = fault.New(fault.Invalid, "more than %d files", maxFiles)
		}
		if err == nil {
			err = each(h, t)
		}
		if err != nil {
			return foreign(err)
		}
	}
	// What follows the end of the tar file would be bytes that nobody looked at.
	rest, err := io.Copy(io.Discard, io.LimitReader(z, 1))
	if err == nil && rest > 0 {
		err = fault.New(fault.Invalid, "bytes follow the end of the tar file")
	}
	if err == nil {
		err = end()
	}
	return foreign(err)
}

// foreign gives an error about the bundle its kind. An error of the disk stays ours.
func foreign(err error) error {
	var disk *fs.PathError
	if err == nil || errors.As(err, &disk) && !errors.Is(err, fs.ErrExist) {
		return fault.Wrap(fault.Lab, "unpack", err)
	}
	return fault.Wrap(fault.Invalid, "the folder of the bundle", err)
}

// checkHeader refuses a file whose header is not the one that bakeoff writes.
func checkHeader(h *tar.Header) error {
	switch {
	case !validPath(h.Name):
		return fault.New(fault.Invalid, "%.80q is not the path of a file of a run", h.Name)
	case h.Typeflag != tar.TypeReg:
		return fault.New(fault.Invalid, "%s is not a plain file", h.Name)
	case h.Size < 0 || h.Size > maxUnpacked:
		return fault.New(fault.Invalid, "%s has an impossible size: %d bytes", h.Name, h.Size)
	case h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Linkname != "" ||
		!h.ModTime.IsZero() && h.ModTime.Unix() != 0 || !plainRecords(h):
		return fault.New(fault.Invalid, "%s has a tar header that bakeoff would not write", h.Name)
	}
	return nil
}

// plainRecords reports whether the extended header says nothing but what a long name or a
// large size needs.
func plainRecords(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if key != "path" && key != "size" {
			return false
		}
	}
	return true
}

// journalSums are the hashes of files by their paths, as the journal names them.
func journalSums(lines []store.Line) map[string]string {
	out := map[string]string{}
	for _, l := range lines {
		if l.Trial != nil {
			for _, f := range l.Raw {
				out[store.RawDir+"/"+f.Name] = f.SHA256
			}
		}
	}
	return out
}

// lacking counts the files that the journal names and that are not there.
func lacking(files []entry, sums map[string]string) int {
	n := len(sums)
	for _, f := range files {
		if sums[f.name] != "" {
			n--
		}
	}
	return n
}
