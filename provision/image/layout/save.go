package layout

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
)

// Save writes the image d in the form of docker save, with the name tag. The configuration
// has the bytes that it has in the registry, so an engine that loads the image gives it the
// ID that it would have after a pull.
func (l *Layout) Save(ctx context.Context, d v1.Descriptor, tag string, w io.Writer) error {
	m, config, err := l.Config(d)
	if err != nil {
		return err
	}
	type saved struct {
		Config           string
		RepoTags, Layers []string
	}
	list := saved{Config: m.Config.Digest.Hex + ".json", RepoTags: []string{tag}}
	out := tar.NewWriter(w)
	put := func(name string, b []byte) error {
		err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(b))})
		if err == nil {
			_, err = out.Write(b)
		}
		return err
	}
	if err := put(list.Config, config); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, layer := range m.Layers {
		name := layer.Digest.Hex + ".tar"
		list.Layers = append(list.Layers, name)
		if !written[name] {
			if err := l.saveBlob(ctx, out, name, layer); err != nil {
				return fault.Op("layer "+layer.Digest.String(), err)
			}
			written[name] = true
		}
	}
	b, err := json.Marshal([]saved{list})
	if err != nil {
		return err
	}
	if err := put("manifest.json", b); err != nil {
		return err
	}
	return out.Close()
}

func (l *Layout) saveBlob(ctx context.Context, out *tar.Writer, name string, d v1.Descriptor) error {
	f, err := os.Open(l.Blob(d.Digest))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: d.Size}); err != nil {
		return err
	}
	for left := d.Size; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(out, f, min(left, 1<<20))
		if left -= n; err != nil {
			return err
		}
	}
	return nil
}
