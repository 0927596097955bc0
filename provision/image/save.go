package image

import (
	"context"
	"encoding/json"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
)

// Saver returns a function that writes an image of a registry or an archive in the form of
// docker save, with its layers unchanged and with a name. It is nil if the cache does not
// have the layers of the image. It is also nil if the image has volumes, because an engine
// creates these in every container.
func (s *Store) Saver(img Root) func(ctx context.Context, tag string, w io.Writer) error {
	if img.Config == nil {
		return nil
	}
	l := s.Layout()
	all, err := l.Images()
	if err != nil {
		return nil
	}
	for _, i := range all {
		if i.Manifest.Digest.String() == img.Digest && hasAllBlobs(l, i.Manifest) && !hasVolumes(l, i.Manifest) {
			return func(ctx context.Context, tag string, w io.Writer) error {
				return fault.Op("image "+img.Ref, l.Save(ctx, i.Manifest, tag, w))
			}
		}
	}
	return nil
}

// hasVolumes tells whether an image names volumes, or cannot be read.
func hasVolumes(l *layout.Layout, d v1.Descriptor) bool {
	_, config, err := l.Config(d)
	var c struct {
		Config struct{ Volumes map[string]any } `json:"config"`
	}
	return err != nil || json.Unmarshal(config, &c) != nil || len(c.Config.Volumes) > 0
}
