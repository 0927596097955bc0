package env

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
)

// placed returns the files of a contender whose environments have no image. Its
// driver places them. On another host, they are sent first.
func (m *Manager) placed(ctx context.Context, d driver.Doc, files []manifest.File) (out driver.Image, err error) {
	for _, f := range files {
		if !d.Files {
			return out, fault.New(fault.Invalid, "driver %s cannot place files", d.Name)
		}
		at := m.images.Packed(f.Digest)
		if at == "" {
			return out, fault.WithFix(fault.New(fault.Unsupported, "the file %s is no longer in the cache", f.From),
				"start a new run")
		}
		if m.cfg.Ship != nil {
			shelf := filepath.Join(image.DirIn(m.cfg.CacheDir), "shipped-"+strings.TrimPrefix(f.Digest, "sha256:"))
			if err := m.shipOne(ctx, at, shelf); err != nil {
				return out, fault.Op("send "+f.From+" to "+m.cfg.Name, err)
			}
			at = path.Join(shelf, filepath.Base(at))
		}
		out.Files = append(out.Files, driver.File{From: at, To: f.To})
	}
	return out, nil
}
