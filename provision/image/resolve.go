package image

import (
	"context"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// askTries is how often Resolve asks a registry that does not answer: somebody waits for
// the plan, and nothing is lost by asking again later.
const askTries = 3

// Resolve says which image a name means now: Ref is the full name in a registry, or the word
// and the absolute path of a file or folder; "" for an image that bakeoff builds. Digest is
// that of the manifest for this machine; "" for a file or folder. Size is how many bytes the
// image has in the registry. Resolve asks the registry once, and changes nothing. If the
// registry does not answer, it is the image that the tag named last. A file or folder is
// relative to dir; it must exist.
func (s *Store) Resolve(ctx context.Context, name, dir string) (Stored, error) {
	ref, err := reference.Parse(name)
	switch {
	case err != nil:
		return Stored{}, err
	case ref.Kind == reference.Packages:
		return Stored{}, nil
	case ref.Kind == reference.Stored:
		d, err := s.findStored(ref, "")
		return Stored{Ref: ref.Text, Digest: d.Digest.String()}, err
	case ref.Kind != reference.Registry:
		return resolvePath(ref, dir)
	}
	out := Stored{Ref: ref.String(), Digest: ref.Digest}
	if ref.Digest != "" && exists(filepath.Join(s.Dir, rootDirOf(ref), description)) {
		return out, nil
	}
	l := s.Layout()
	had, complete, err := findComplete(l, ref, ref.String())
	if err != nil {
		return out, err
	}
	if complete && ref.Digest != "" {
		out.Digest = had.Digest.String()
		return out, nil
	}
	c, err := s.client()
	if err != nil {
		return out, err
	}
	c.Tries = askTries
	d, b, err := c.Resolve(ctx, ref)
	if complete && ctx.Err() == nil && fault.Is(err, fault.Lab) {
		out.Digest = had.Digest.String()
		out.Note = err.Error()
		s.reportProgress("%v", err)
		s.reportProgress(fromCache, ref, had.Digest)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Digest = d.Digest.String()
	out.Size, out.Missing, err = s.missingBytes(l, b)
	return out, err
}

// missingBytes returns how many bytes an image has, and how many of them are not in the store.
func (s *Store) missingBytes(l *layout.Layout, manifest []byte) (all, missing int64, err error) {
	m, err := layout.ParseManifest(manifest)
	if err != nil {
		return 0, 0, err
	}
	there := exists(filepath.Join(s.Dir, rootOf(kindImage, layout.Digest(manifest).String()), description))
	seen := map[v1.Hash]bool{}
	for _, b := range append(m.Layers, m.Config) {
		if seen[b.Digest] {
			continue
		}
		seen[b.Digest] = true
		all += b.Size
		if !there && !l.Has(b) {
			missing += b.Size - l.Begun(b)
		}
	}
	return all, missing, nil
}

// resolvePath is the file or folder of a reference.
func resolvePath(ref reference.Reference, dir string) (Stored, error) {
	if !filepath.IsAbs(ref.Path) {
		full, err := filepath.Abs(filepath.Join(dir, ref.Path))
		if err != nil {
			return Stored{}, fault.Wrap(fault.Invalid, "image "+ref.Text, err)
		}
		ref.Path = full
	}
	if _, err := os.Stat(ref.Path); err != nil {
		return Stored{}, fault.WithFix(fault.Wrap(fault.Invalid, "image "+ref.Text, err),
			"check the path; it is relative to the folder of the lab file, or with try to the working folder")
	}
	name := string(ref.Kind) + ":" + ref.Path
	if ref.Tag != "" {
		name += ":" + ref.Tag
	}
	return Stored{Ref: name}, nil
}
