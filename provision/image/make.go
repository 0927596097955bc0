package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/unpack"
)

// withLayout calls do with the store's lock, in a layout that exists.
func (s *Store) withLayout(ctx context.Context, do func(l *layout.Layout) error) error {
	held, err := s.lockStore(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	l, err := layout.Open(filepath.Join(s.Dir, layoutDir))
	if err != nil {
		return err
	}
	return do(l)
}

// Make makes an image and stores it: m says its name, version and what else is known, and
// which image of the store is its origin, to which the layers are added, the lowest first.
// Its system and architecture are those of the origin, or linux and this machine's, if they
// are "". Its Config replaces keys of the origin's. Make unpacks all layers once, so that an
// archive that a run would refuse is refused now. Equal layers and descriptions give equal
// digests. After an error nothing of the image is left. Errors are of kind fault.Invalid if
// an archive is refused.
func (s *Store) Make(ctx context.Context, m Stored, layers []unpack.Layer) (Stored, error) {
	var h Stored
	err := s.withLayout(ctx, func(l *layout.Layout) (err error) {
		h, err = s.makeImage(ctx, l, m, layers)
		return err
	})
	return h, fault.Op("image "+m.Name+":"+m.Version, err)
}

// configuration is what a configuration of an image holds.
type configuration struct {
	Architecture string         `json:"architecture"`
	OS           string         `json:"os"`
	Created      string         `json:"created,omitempty"`
	Config       map[string]any `json:"config,omitempty"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

func (s *Store) makeImage(ctx context.Context, l *layout.Layout, m Stored, more []unpack.Layer) (Stored, error) {
	ref, err := reference.Store(m.Name, m.Version)
	if err != nil {
		return Stored{}, fault.WithFix(fault.New(fault.Invalid, "%s cannot be the name and the version of a stored image",
			yamltree.Show(m.Name+":"+m.Version)), "write NAME:VERSION, such as app:1, of letters, digits and . _ + -")
	}
	c := configuration{OS: "linux", Architecture: runtime.GOARCH}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{}
	var below []v1.Descriptor
	if m.Origin != "" {
		if c, below, err = baseOf(l, m.Origin); err != nil {
			return Stored{}, fault.Op("the origin", err)
		}
	}
	for key, value := range m.Config {
		if c.Config == nil {
			c.Config = map[string]any{}
		}
		c.Config[key] = value
	}
	if m.OS != "" {
		c.OS = m.OS
	}
	if m.Arch != "" {
		c.Architecture = m.Arch
	}
	c.Created = m.Created
	tmp, err := s.partial(filepath.Join(s.Dir, "make"))
	if err != nil {
		return Stored{}, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s.reportProgress("checking the archives of %s:%s", m.Name, m.Version)
	layers := append(blobLayers(l, below, c.RootFS.DiffIDs), more...)
	name := ""
	if len(more) > 0 {
		name = more[0].Name
	}
	if err := tryUnpack(ctx, tmp, layers, name); err != nil {
		return Stored{}, err
	}
	added := below
	for _, from := range more {
		blob, diffID, err := packLayer(ctx, from, l, tmp)
		if err != nil {
			return Stored{}, errors.Join(err, forgetUnused(l, added[len(below):]))
		}
		added, c.RootFS.DiffIDs = append(added, blob), append(c.RootFS.DiffIDs, diffID)
	}
	d, err := describeMade(l, m, c, added)
	if err == nil {
		err = l.NameWith(ref.Text, d, annotations(noteSource, m.Source))
	}
	if err != nil {
		return Stored{}, errors.Join(err, forgetUnused(l, added[len(below):]))
	}
	return s.describeStored(l, layout.Image{Name: ref.Text, Manifest: d, Notes: annotations(noteSource, m.Source)}), nil
}

// describeMade stores the configuration and the manifest of an image.
func describeMade(l *layout.Layout, m Stored, c configuration, layers []v1.Descriptor) (v1.Descriptor, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: layers,
		Annotations: annotations(noteName, m.Name, noteVersion, m.Version, noteUUID, m.UUID, noteType, m.Type,
			noteCreated, m.Created, noteAbout, m.Description, noteOrigin, m.Origin, noteOriginName, m.OriginName)}
	if manifest.Config, err = l.PutBytes(b, types.OCIConfigJSON); err != nil {
		return v1.Descriptor{}, err
	}
	if b, err = json.Marshal(manifest); err != nil {
		return v1.Descriptor{}, err
	}
	return l.PutBytes(b, types.OCIManifestSchema1)
}

// annotations are annotations of pairs of names and values, without those that are "".
func annotations(pairs ...string) map[string]string {
	out := map[string]string{}
	for p := range slices.Chunk(pairs, 2) {
		if p[1] != "" {
			out[p[0]] = p[1]
		}
	}
	return out
}

// baseOf reads the configuration and the layers of an origin.
func baseOf(l *layout.Layout, digest string) (configuration, []v1.Descriptor, error) {
	var c configuration
	all, err := l.Images()
	if err != nil {
		return c, nil, err
	}
	i := slices.IndexFunc(all, func(i layout.Image) bool { return i.Manifest.Digest.String() == digest })
	if i < 0 {
		return c, nil, fault.New(fault.NotFound, "the store has no image with the digest %s", digest)
	}
	return configOf(l, all[i].Manifest)
}

// configOf reads the configuration of an image, and lists its layers.
func configOf(l *layout.Layout, d v1.Descriptor) (configuration, []v1.Descriptor, error) {
	var c configuration
	m, text, err := l.Config(d)
	if err != nil {
		return c, nil, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, nil, fault.Wrap(fault.Invalid, "the configuration", err)
	}
	if len(c.RootFS.DiffIDs) != len(m.Layers) {
		return c, nil, fault.New(fault.Invalid, "the image has %d layers, and its configuration lists %d", len(m.Layers),
			len(c.RootFS.DiffIDs))
	}
	return c, m.Layers, nil
}

// blobLayers are layers of the layout.
func blobLayers(l *layout.Layout, blobs []v1.Descriptor, diffIDs []string) (out []unpack.Layer) {
	for i, b := range blobs {
		out = append(out, unpack.Layer{Name: fmt.Sprintf("layer %d of %d (%s)", i+1, len(blobs), b.Digest), Size: b.Size,
			Digest: b.Digest.String(), DiffID: diffIDs[i],
			Open: func() (io.ReadCloser, error) { return os.Open(l.Blob(b.Digest)) }})
	}
	return out
}

// tryUnpack unpacks layers into a folder in tmp, and removes it. If they come from a file or folder,
// it refuses an image in another form.
func tryUnpack(ctx context.Context, tmp string, layers []unpack.Layer, from string) error {
	dir := filepath.Join(tmp, rootDir)
	if err := unpack.Unpack(ctx, dir, layers, unpack.Options{Anybody: os.Getuid() != 0}); err != nil {
		return err
	}
	if from != "" {
		if err := misnamed(dir, from); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// forgetUnused removes those blobs that no image has.
func forgetUnused(l *layout.Layout, blobs []v1.Descriptor) error {
	unused, err := l.Unused()
	for _, b := range blobs {
		if slices.Contains(unused, l.Blob(b.Digest)) {
			err = errors.Join(err, remove(l.Blob(b.Digest)))
		}
	}
	return err
}
