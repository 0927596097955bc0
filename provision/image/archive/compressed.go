package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/unpack"
)

// maxUnpacked bounds the bytes of a compressed archive when it is unpacked.
const maxUnpacked = 64 << 30

// inFile is the place of index for a tar file on the disk: where the file is read next.
func inFile(f *os.File) func(string, int64) (int64, error) {
	return func(string, int64) (int64, error) { return f.Seek(0, io.SeekCurrent) }
}

// maxKept bounds the small files that headers keeps of a compressed archive, in bytes.
const maxKept = 1 << 20

// headers reads the headers of an archive, and of its files only the documents that list
// the images, and small ones, such as configurations. It reads a compressed archive as a stream and stores nothing.
func headers(ctx context.Context, f *os.File) (packed, error) {
	in, release, compressed, err := decompressed(ctx, f)
	if err != nil {
		return packed{}, err
	}
	defer release()
	if !compressed {
		files, err := indexFiles(ctx, tar.NewReader(f), inFile(f))
		files.file = f
		return files, err
	}
	t, documents, kept := tar.NewReader(in), bytes.Buffer{}, int64(0)
	files, err := indexFiles(ctx, t, func(name string, size int64) (int64, error) {
		at := int64(documents.Len())
		lists := name == "index.json" || name == "manifest.json"
		if lists && at+size > maxKept+2*layout.MaxDocument || !lists && kept+size > maxKept {
			return -1, nil // only its presence is asked for
		}
		if !lists {
			kept += size
		}
		_, err := io.CopyN(&documents, t, size)
		return at, decompressionError(err)
	})
	files.file = bytes.NewReader(documents.Bytes())
	return files, err
}

// seekableTar returns an archive as a tar file that can be read anywhere. It unpacks a
// compressed one into a file of the layout that has no name: nothing is left if bakeoff
// is killed. The caller closes the file.
func seekableTar(ctx context.Context, f *os.File, into *layout.Layout) (*os.File, error) {
	in, release, compressed, err := decompressed(ctx, f)
	if err != nil {
		return nil, err
	}
	defer release()
	if !compressed {
		return f, nil
	}
	name := into.PartialPath("archive " + f.Name())
	out, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fault.Op("image cache", err)
	}
	if err := os.Remove(name); err != nil {
		return nil, errors.Join(fault.Op("image cache", err), out.Close())
	}
	if n, err := io.Copy(out, io.LimitReader(in, maxUnpacked+1)); err != nil {
		return nil, errors.Join(decompressionError(err), out.Close())
	} else if n > maxUnpacked {
		return nil, errors.Join(fault.New(fault.Invalid, "the archive has more than %d bytes when it is unpacked",
			int64(maxUnpacked)), out.Close())
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// decompressed returns the tar file in an archive that gzip, xz, zstd or bzip2 may
// compress.
func decompressed(ctx context.Context, f *os.File) (in io.Reader, release func(), compressed bool, err error) {
	head := make([]byte, unpack.MagicBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, false, err
	}
	if unpack.Compression(head[:n]) == "" {
		return f, func() {}, false, unpack.CheckFormat(head[:n])
	}
	in, release, err = unpack.Decompress(interrupted{ctx, f})
	return in, release, true, decompressionError(err)
}

// decompressionError is the error of reading a compressed archive.
func decompressionError(err error) error {
	_, ofFile := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil, ofFile, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return truncated()
	}
	return unpack.Damage(err)
}

func truncated() error {
	return fault.WithFix(fault.New(fault.Invalid, "the archive is truncated: it ends in the middle of a file"),
		"write or copy it again")
}

// interrupted is a reader that ends with its context.
type interrupted struct {
	ctx context.Context
	in  io.Reader
}

func (r interrupted) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}
