package image

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
)

// kindLayers is the kind of the entries of the layout: what was downloaded to make
// images.
const kindLayers = "layers"

// layoutEntries lists the layout: its images, downloads that did not end, and blobs that no
// image has. A blob that several images have counts for the first one.
func (s *Store) layoutEntries(building bool) ([]Entry, error) {
	l := s.Layout()
	images, err := l.Images()
	if err != nil {
		return nil, err
	}
	var out []Entry
	counted := map[string]bool{}
	for _, i := range images {
		e := Entry{Name: i.Name, Path: l.Blob(i.Manifest.Digest), Kind: kindLayers, Ref: i.Name, State: Complete}
		if !hasAllBlobs(l, i.Manifest) {
			e.State = Superseded
		}
		blobs, err := l.Blobs(i)
		if err != nil {
			blobs = nil
		}
		for _, b := range blobs {
			if info, err := os.Stat(l.Blob(b.Digest)); err == nil && !counted[b.Digest.Hex] {
				counted[b.Digest.Hex] = true
				e.Size += info.Size()
				e.Used = cmp.Or(e.Used, info.ModTime().UTC().Format(time.RFC3339))
			}
		}
		out = append(out, e)
	}
	partial, err := l.Partials()
	if err != nil {
		return nil, err
	}
	unused, err := l.Unused()
	if err != nil {
		return nil, err
	}
	for state, files := range map[State][]string{Partial: partial, Superseded: unused} {
		if building { // the pull gives them a name at its end
			state = InUse
		}
		for _, f := range files {
			size, err := OnDisk(f)
			if err != nil {
				return nil, err
			}
			out = append(out, Entry{Name: layoutDir + "-" + filepath.Base(f)[:min(12, len(filepath.Base(f)))], Path: f,
				Kind: kindLayers, Size: size, State: state})
		}
	}
	return out, nil
}

// removeLayers removes entries of the layout, and the blobs that no image has after it.
// The store's lock is held.
func (s *Store) removeLayers(entries []Entry) error {
	l := s.Layout()
	gone, files := map[string]bool{}, []string{}
	for _, e := range entries {
		switch {
		case e.Kind == kindLayers && e.Ref != "":
			gone[e.Ref] = true
		case e.Kind == kindLayers && strings.HasPrefix(e.Path, l.Dir+"/"):
			files = append(files, e.Path)
		case e.Kind == kindLayers:
			return fault.New(fault.Invalid, "%s is not in the image store %s", e.Path, s.Dir)
		}
	}
	if len(gone) > 0 {
		if err := l.Forget(func(i layout.Image) bool { return gone[i.Name] }); err != nil {
			return err
		}
		unused, err := l.Unused()
		if err != nil {
			return err
		}
		files = append(files, unused...)
	}
	for _, f := range files {
		if err := remove(f); err != nil {
			return fault.Op("image store", err)
		}
	}
	return nil
}

// isOrphan tells whether the folder of a root is of an image that no name in the layout
// leads to: its tag has moved.
func (s *Store) isOrphan(name string) bool {
	rest, ok := strings.CutPrefix(name, "root-"+kindImage+"-")
	if !ok {
		return false
	}
	images, err := s.Layout().Images()
	return err == nil && !slices.ContainsFunc(images, func(i layout.Image) bool {
		return strings.HasPrefix(i.Manifest.Digest.Hex, rest)
	})
}
