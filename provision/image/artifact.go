package image

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// Artifact brings an artifact of a registry that is one file into the store, and returns the path
// of the file, whose digest was verified. "image vacuum" removes it, so its caller copies it.
func (s *Store) Artifact(ctx context.Context, name string) (path string, err error) {
	ref, err := reference.Parse(name)
	if err != nil {
		return "", err
	}
	if ref.Kind != reference.Registry {
		return "", fault.New(fault.Invalid, "%s is not an artifact of a registry", name)
	}
	err = s.withLayout(ctx, func(l *layout.Layout) error {
		c, err := s.client()
		if err != nil {
			return err
		}
		c.Progress = s.pullProgress(ref)
		var file v1.Descriptor
		_, err = c.PullArtifact(ctx, ref, l, func(manifest []byte) ([]v1.Descriptor, error) {
			file, err = layout.ParseArtifact(manifest)
			return []v1.Descriptor{file}, err
		})
		path = l.Blob(file.Digest)
		return err
	})
	return path, fault.Op("image "+name, err)
}
