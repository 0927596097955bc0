package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// Import brings the image of a registry, a layout or an archive into the store. It
// unpacks the image once, so that one that a run would refuse is refused now. After an
// error the reference names what it named before.
func (s *Store) Import(ctx context.Context, name string) (Stored, error) {
	ref, err := reference.Parse(name)
	if err != nil {
		return Stored{}, err
	}
	switch ref.Kind {
	case reference.Registry, reference.OCIArchive, reference.DockerArchive, reference.Layout:
	case reference.Rootfs:
		return Stored{}, fault.WithFix(fault.New(fault.Invalid, "%s is a root file system, not an image", name),
			"run bakeoff image create "+ref.Path+" NAME:VERSION")
	default:
		return Stored{}, fault.WithFix(fault.New(fault.Invalid, "%s cannot be imported", name),
			"name an image of a registry, oci:, oci-archive: or docker-archive:")
	}
	var h Stored
	err = s.withLayout(ctx, func(l *layout.Layout) error {
		d, err := s.importImage(ctx, l, ref)
		if err == nil {
			h = s.describeStored(l, layout.Image{Name: ref.String(), Manifest: d})
		}
		return err
	})
	if err == nil && !h.runnable() {
		s.reportProgress("%s is for %q, and this machine for linux/%s: runs and guests here refuse the image", ref,
			h.OS+"/"+h.Arch, runtime.GOARCH)
	}
	return h, fault.Op("image "+name, err)
}

// importImage imports an image and checks it.
func (s *Store) importImage(ctx context.Context, l *layout.Layout, ref reference.Reference) (v1.Descriptor, error) {
	all, err := l.Images()
	if err != nil {
		return v1.Descriptor{}, err
	}
	name := ref.String()
	d, err := s.fetchLayers(ctx, l, ref, name, false, func(done, all int64) { s.reportBytes("pulling "+name, done, all) })
	if err != nil {
		return d, err
	}
	if err := s.proveUnpackable(ctx, l, ref, d); err != nil {
		return d, errors.Join(err, restoreName(l, name, all, d))
	}
	return d, nil
}

// proveUnpackable unpacks an image: into the root from which environments are created if that is
// possible here, else for the test only.
func (s *Store) proveUnpackable(ctx context.Context, l *layout.Layout, ref reference.Reference, d v1.Descriptor) error {
	h := s.describeStored(l, layout.Image{Name: ref.String(), Manifest: d})
	dir := filepath.Join(s.Dir, rootOf(kindImage, h.Digest))
	switch {
	case exists(filepath.Join(dir, description)):
		return nil
	case h.runnable() && os.Getuid() == 0:
		_, err := s.unpackImage(ctx, ref, l, d)
		return err
	}
	c, blobs, err := configOf(l, d)
	if err != nil {
		return err
	}
	tmp, err := s.partial(dir)
	if err != nil {
		return err
	}
	s.reportProgress("checking the layers of %s", ref)
	return errors.Join(tryUnpack(ctx, tmp, blobLayers(l, blobs, c.RootFS.DiffIDs), ""), os.RemoveAll(tmp))
}

// restoreName gives a name back to the image that had it, and removes what only the image d
// has.
func restoreName(l *layout.Layout, name string, before []layout.Image, d v1.Descriptor) error {
	blobs, err := l.Blobs(layout.Image{Manifest: d})
	err = errors.Join(err, l.Forget(func(i layout.Image) bool { return i.Name == name }))
	for _, i := range before {
		if i.Name == name {
			err = errors.Join(err, l.NameWith(name, i.Manifest, i.Notes))
		}
	}
	return errors.Join(err, forgetUnused(l, blobs))
}

// reportBytes reports how many bytes of something are there.
func (s *Store) reportBytes(what string, done, all int64) {
	if s.Count != nil {
		s.Count(what, done, all)
	}
}

// Push sends an image of the store to a registry, under a reference with a tag.
func (s *Store) Push(ctx context.Context, h Stored, to string) error {
	ref, err := reference.Parse(to)
	if err != nil {
		return err
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	c.Progress = func(done, all int64) { s.reportBytes("pushing "+ref.String(), done, all) }
	l := s.Layout()
	d, ok, err := l.Find(h.Ref)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "the store has no image %q", h.Ref)
	}
	if err != nil {
		return err
	}
	return c.Push(ctx, ref, l, d)
}
