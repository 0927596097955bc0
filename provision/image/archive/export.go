package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
)

// Export writes an image of a layout as a tar file with an OCI image layout, which
// oci-archive: names. Equal images give equal bytes. It verifies every blob.
func Export(ctx context.Context, from *layout.Layout, i layout.Image, w io.Writer) error {
	blobs, err := from.Blobs(i)
	if err != nil {
		return err
	}
	slices.SortFunc(blobs, func(a, b v1.Descriptor) int { return strings.Compare(a.Digest.Hex, b.Digest.Hex) })
	blobs = slices.CompactFunc(blobs, func(a, b v1.Descriptor) bool { return a.Digest == b.Digest })
	d := i.Manifest
	d.MediaType = cmp.Or(d.MediaType, types.OCIManifestSchema1)
	d.Annotations = map[string]string{refName: i.Name}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{d}})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, file := range []struct{ name, text string }{{"oci-layout", `{"imageLayoutVersion":"1.0.0"}`},
		{"index.json", string(index)}} {
		if err := writeFile(t, file.name, int64(len(file.text)), strings.NewReader(file.text)); err != nil {
			return err
		}
	}
	for _, b := range blobs {
		if err := exportBlob(ctx, t, from, b); err != nil {
			return fault.Op("blob "+b.Digest.String(), err)
		}
	}
	return t.Close()
}

func exportBlob(ctx context.Context, t *tar.Writer, from *layout.Layout, d v1.Descriptor) error {
	f, err := os.Open(from.Blob(d.Digest))
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := measured(ctx, f)
	if err != nil {
		return err
	}
	if got.Digest != d.Digest || got.Size != d.Size {
		return fault.WithFix(fault.New(fault.Lab, "%s is damaged: its digest is %s", f.Name(), got.Digest),
			"run bakeoff image delete, and import the image again")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return writeFile(t, blobName(d), d.Size, f)
}

// measured is the descriptor of what r has.
func measured(ctx context.Context, r io.Reader) (v1.Descriptor, error) {
	m := layout.NewMeter()
	buffer := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := r.Read(buffer)
		if _, werr := m.Write(buffer[:n]); werr != nil {
			return v1.Descriptor{}, werr
		}
		if err == io.EOF {
			return m.Descriptor(), nil
		}
		if err != nil {
			return v1.Descriptor{}, err
		}
	}
	return v1.Descriptor{}, ctx.Err()
}

// writeFile writes a file of mode 0644 without a time.
func writeFile(t *tar.Writer, name string, size int64, r io.Reader) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err := io.Copy(t, r)
	return err
}
