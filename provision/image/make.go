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
	"bakeoff/base/lock"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/unpack"
)

// Made describes an image that the store makes of archives. Fields that are "" are left
// out.
type Made struct {
	Name, Version string // of the reference store:NAME:VERSION
	UUID, Type    string
	Description   string
	OS, Arch      string // as Go names them; "" is that of the origin, or linux and this machine's
	Created       string // RFC 3339
	Source        string // the address that it comes from
	OriginName    string // what a person calls the origin
	// Origin is the digest of the manifest of the image to which the layers are added.
	Origin string
	Config map[string]any // replaces keys of the origin's: Cmd, Env, …
	Layers []unpack.Layer // the lowest first
}

// locked calls do with the store's lock, in a layout that exists.
func (s *Store) locked(ctx context.Context, do func(l *layout.Layout) error) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fault.WithFix(fault.Op("create the image cache", err),
			"set BAKEOFF_CACHE to a folder that you can write to")
	}
	held, err := lock.Wait(ctx, filepath.Join(s.Dir, lockFile))
	if err != nil {
		return fault.Op("image store", err)
	}
	defer held.Release()
	if err := s.sweep(ctx); err != nil {
		return fault.Op("image store", err)
	}
	l, err := layout.Open(filepath.Join(s.Dir, layoutDir))
	if err != nil {
		return err
	}
	return do(l)
}

// Make makes an image and stores it. It unpacks all layers once, so that an archive that
// a run would refuse is refused now. Equal layers and descriptions give equal digests.
// After an error nothing of the image is left. Errors are of kind fault.Invalid if an
// archive is refused.
func (s *Store) Make(ctx context.Context, m Made) (Held, error) {
	var h Held
	err := s.locked(ctx, func(l *layout.Layout) (err error) {
		h, err = s.make(ctx, l, m)
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

func (s *Store) make(ctx context.Context, l *layout.Layout, m Made) (Held, error) {
	ref, err := reference.Store(m.Name, m.Version)
	if err != nil {
		return Held{}, fault.WithFix(fault.New(fault.Invalid, "%s cannot be the name and the version of a stored image",
			yamltree.Show(m.Name+":"+m.Version)), "write NAME:VERSION, such as app:1, of letters, digits and . _ + -")
	}
	c := configuration{OS: "linux", Architecture: runtime.GOARCH}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{}
	var below []v1.Descriptor
	if m.Origin != "" {
		if c, below, err = baseOf(l, m.Origin); err != nil {
			return Held{}, fault.Op("the origin", err)
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
		return Held{}, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s.say("checking the archives of %s:%s", m.Name, m.Version)
	layers := append(blobLayers(l, below, c.RootFS.DiffIDs), m.Layers...)
	if err := try(ctx, tmp, layers); err != nil {
		return Held{}, err
	}
	added := below
	for _, from := range m.Layers {
		p, err := pack(ctx, from, l, tmp)
		if err != nil {
			return Held{}, errors.Join(err, forgetUnused(l, added[len(below):]))
		}
		added, c.RootFS.DiffIDs = append(added, p.blob), append(c.RootFS.DiffIDs, p.diffID)
	}
	d, err := describeMade(l, m, c, added)
	if err == nil {
		err = l.NameWith(ref.Text, d, notes(noteSource, m.Source))
	}
	if err != nil {
		return Held{}, errors.Join(err, forgetUnused(l, added[len(below):]))
	}
	return s.held(l, layout.Image{Name: ref.Text, Manifest: d, Notes: notes(noteSource, m.Source)}), nil
}

// describeMade stores the configuration and the manifest of an image.
func describeMade(l *layout.Layout, m Made, c configuration, layers []v1.Descriptor) (v1.Descriptor, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: layers,
		Annotations: notes(noteName, m.Name, noteVersion, m.Version, noteUUID, m.UUID, noteType, m.Type,
			noteCreated, m.Created, noteAbout, m.Description, noteOrigin, m.Origin, noteOriginName, m.OriginName)}
	if manifest.Config, err = l.PutBytes(b, types.OCIConfigJSON); err != nil {
		return v1.Descriptor{}, err
	}
	if b, err = json.Marshal(manifest); err != nil {
		return v1.Descriptor{}, err
	}
	return l.PutBytes(b, types.OCIManifestSchema1)
}

// notes are annotations of pairs of names and values, without those that are "".
func notes(pairs ...string) map[string]string {
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
	b, err := l.Read(d)
	if err != nil {
		return c, nil, err
	}
	m, err := layout.ParseManifest(b)
	if err != nil {
		return c, nil, err
	}
	if b, err = l.Read(m.Config); err != nil {
		return c, nil, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
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

// try unpacks layers into a folder in tmp, and removes it.
func try(ctx context.Context, tmp string, layers []unpack.Layer) error {
	dir := filepath.Join(tmp, rootDir)
	if err := unpack.Unpack(ctx, dir, layers, unpack.Options{Anybody: os.Getuid() != 0}); err != nil {
		return err
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
