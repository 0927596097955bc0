package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/unpack"
)

// packLayer stores a layer in the layout, and returns its blob and the digest of the tar
// file in it. A layer that gzip or zstd compresses is stored as it is; other tar files are
// compressed with gzip, because OCI has no type for xz and bzip2. scratch is a folder for a
// temporary file.
func packLayer(ctx context.Context, from unpack.Layer, l *layout.Layout,
	scratch string) (blob v1.Descriptor, diffID string, err error) {
	in, err := from.Open()
	if err != nil {
		return blob, "", err
	}
	defer in.Close()
	tmp, err := os.CreateTemp(scratch, "layer")
	if err != nil {
		return blob, "", err
	}
	blob, diffID, err = packInto(ctx, from, in, tmp)
	if err == nil {
		_, err = tmp.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = l.Put(ctx, blob, tmp)
	}
	return blob, diffID, errors.Join(err, tmp.Close(), remove(tmp.Name()))
}

func packInto(ctx context.Context, from unpack.Layer, in io.Reader, out io.Writer) (d v1.Descriptor, diffID string,
	err error) {
	blob, plain := layout.NewMeter(), layout.NewMeter()
	file := io.MultiWriter(out, blob)
	head := make([]byte, 4)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return d, "", err
	}
	in = &interrupted{ctx, io.MultiReader(bytes.NewReader(head[:n]), in)}
	kind, asIs := types.OCILayer, bytes.HasPrefix(head, []byte{0x1f, 0x8b})
	if bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		kind, asIs = types.OCILayerZStd, true
	}
	if asIs {
		in = io.TeeReader(in, file)
	}
	unpacked, release, err := unpack.Decompress(in)
	if err != nil {
		return d, "", fault.Wrap(fault.Invalid, from.Name, unpack.Damage(err))
	}
	defer release()
	to := []io.Writer{plain}
	var z *gzip.Writer
	if !asIs {
		z = gzip.NewWriter(file)
		to = append(to, z)
	}
	unpacked = io.TeeReader(unpacked, io.MultiWriter(to...))
	if err := readTar(unpacked, from); err != nil {
		return d, "", err
	}
	if z != nil {
		if err := z.Close(); err != nil {
			return d, "", err
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // what follows the compressed data
		return d, "", err
	}
	d = blob.Descriptor()
	d.MediaType = kind
	return d, plain.Descriptor().Digest.String(), nil
}

// readTar reads a tar file to its end. It refuses a name in a root file system that
// would remove a file if the archive were a layer.
func readTar(r io.Reader, from unpack.Layer) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return fault.New(fault.Invalid, "%s is not a tar file: %w", from.Name, err)
		}
		if from.Plain && strings.HasPrefix(path.Base(h.Name), ".wh.") {
			return fault.WithFix(fault.New(fault.Invalid, "%s contains %q: in a layer, this name removes a file", from.Name,
				h.Name), "rename or remove the file")
		}
	}
}

// interrupted is a reader that ends with its context.
type interrupted struct {
	ctx context.Context
	in  io.Reader
}

func (r *interrupted) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}
