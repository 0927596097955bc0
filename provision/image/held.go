package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/provision/image/archive"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// The annotations of the images that bakeoff makes. Those of the first group are in the
// manifest, so they are part of the digest; the source is in the index of the layout,
// because equal images of two mirrors are the same image.
const (
	noteName       = "org.opencontainers.image.title"
	noteVersion    = "org.opencontainers.image.version"
	noteCreated    = "org.opencontainers.image.created"
	noteAbout      = "org.opencontainers.image.description"
	noteOrigin     = "org.opencontainers.image.base.digest"
	noteOriginName = "org.opencontainers.image.base.name"
	noteUUID       = "bakeoff.image.uuid"
	noteType       = "bakeoff.image.type"

	noteSource = "bakeoff.image.source"
)

// The states of a stored image.
const (
	stateComplete = "complete"
	stateDamaged  = "damaged" // a blob is missing or cannot be read
)

// Stored is an image of the layout: its manifest, configuration and layers, as the commands
// of bakeoff image show it. Fields that are not known are "".
type Stored struct {
	ID          string `json:"id"`     // the first 12 digits of Digest
	Digest      string `json:"digest"` // of the manifest
	Ref         string `json:"ref"`    // what a lab file writes
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	UUID        string `json:"uuid,omitempty"`
	OS          string `json:"os,omitempty"`
	Arch        string `json:"arch,omitempty"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
	Created     string `json:"created,omitempty"` // RFC 3339
	Source      string `json:"source,omitempty"`  // the address that it came from
	// Origin is the digest of the manifest of the image that this one adds layers to,
	// OriginName its reference or UUID.
	Origin     string         `json:"origin,omitempty"`
	OriginName string         `json:"origin_name,omitempty"`
	Layers     []string       `json:"layers"`         // digests, the lowest first
	Size       int64          `json:"size_bytes"`     // of all blobs, as they are stored
	Used       string         `json:"used,omitempty"` // RFC 3339: when it was stored or a run last asked for it
	State      string         `json:"state"`          // complete or damaged
	Config     map[string]any `json:"config,omitempty"`

	// Missing is how many bytes the layout lacks. Note says that the registry did not answer,
	// and the cache did; "" otherwise. Only Resolve sets them.
	Missing int64  `json:"-"`
	Note    string `json:"-"`
}

// Stored lists the images of the layout, in the order of references.
func (s *Store) Stored() ([]Stored, error) {
	l := s.Layout()
	all, err := l.Images()
	if err != nil {
		return nil, err
	}
	out := lists.Map(all, func(i layout.Image) Stored { return s.describeStored(l, i) })
	return out, nil
}

// held describes one image.
func (s *Store) describeStored(l *layout.Layout, i layout.Image) Stored {
	hex := i.Manifest.Digest.Hex
	h := Stored{ID: hex[:12], Digest: i.Manifest.Digest.String(), Ref: i.Name, Name: i.Name, State: stateDamaged,
		Source: i.Notes[noteSource], Layers: []string{}}
	if r, err := reference.Parse(i.Name); err == nil {
		switch r.Kind {
		case reference.Registry:
			h.Name, h.Version, h.Source = r.Name(), cmp.Or(r.Tag, r.Digest), r.Host
		case reference.Stored:
			h.Name, h.Version = r.StoredName, r.Version
		default:
			h.Source = i.Name
		}
	}
	h.Used = lastUse(l.Blob(i.Manifest.Digest), filepath.Join(s.Dir, rootOf(kindImage, h.Digest), description))
	m, err := l.Manifest(i.Manifest)
	if err != nil {
		return h
	}
	h.Size = i.Manifest.Size + m.Config.Size
	for _, d := range m.Layers {
		h.Size += d.Size
		h.Layers = append(h.Layers, d.Digest.String())
	}
	h.UUID, h.Type, h.Description = m.Annotations[noteUUID], m.Annotations[noteType], m.Annotations[noteAbout]
	h.Origin, h.OriginName = m.Annotations[noteOrigin], m.Annotations[noteOriginName]
	h.Created = m.Annotations[noteCreated]
	b, err := l.Read(m.Config)
	if err != nil {
		return h
	}
	var c struct {
		OS, Architecture, Created string
		Config                    map[string]any
	}
	if json.Unmarshal(b, &c) != nil {
		return h
	}
	h.OS, h.Arch, h.Created = c.OS, c.Architecture, cmp.Or(h.Created, c.Created)
	if len(c.Config) > 0 {
		h.Config = c.Config
	}
	if hasAllBlobs(l, i.Manifest) {
		h.State = stateComplete
	}
	return h
}

// lastUse is the newest modification time of files.
func lastUse(files ...string) string {
	var last time.Time
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	if last.IsZero() {
		return ""
	}
	return last.UTC().Format(time.RFC3339)
}

// leastDigits is how many digits of a digest name an image.
const leastDigits = 6

// Choose returns the image that a person named: by reference, by UUID, by digest or the
// beginning of one, by name and version, or by name if only one has it. Errors are of
// kind fault.NotFound, or fault.Invalid if several images have the name.
func Choose(all []Stored, text string) (Stored, error) {
	full := text
	if r, err := reference.Parse(text); err == nil && r.Kind == reference.Registry {
		full = r.String()
	}
	hex := strings.TrimPrefix(text, "sha256:")
	for _, is := range []func(Stored) bool{
		func(h Stored) bool { return h.Ref == text },
		func(h Stored) bool { return h.UUID != "" && strings.EqualFold(h.UUID, text) },
		func(h Stored) bool { return h.Digest == text },
		func(h Stored) bool { return h.Ref == full || h.Ref == string(reference.Stored)+":"+text },
		func(h Stored) bool { return h.Name == text },
		func(h Stored) bool {
			return len(hex) >= leastDigits && strings.HasPrefix(strings.TrimPrefix(h.Digest, "sha256:"), hex)
		},
	} {
		found := lists.Filter(all, is)
		switch {
		case len(found) == 0:
			continue
		case len(found) == 1 || sameImage(found):
			return found[0], nil
		}
		refs := lists.Map(found[:min(len(found), 10)], func(h Stored) string { return h.Ref })
		return Stored{}, fault.WithFix(fault.New(fault.Invalid, "%d images have the name %q", len(found), text),
			"write one of "+strings.Join(refs, ", "))
	}
	return Stored{}, fault.WithFix(fault.New(fault.NotFound, "the store has no image %q", text),
		"bakeoff image list shows what it has; bakeoff image import adds one")
}

// sameImage tells whether all have the same digest: one image with several names.
func sameImage(found []Stored) bool {
	return !slices.ContainsFunc(found, func(h Stored) bool { return h.Digest != found[0].Digest })
}

// maxChain bounds a chain of origins.
const maxChain = 100

// Ancestry returns an image, its origin, the origin of that, and so on. If an origin is
// not in the store, the last element has only Digest, Ref and State "absent".
func Ancestry(all []Stored, of Stored) ([]Stored, error) {
	out := []Stored{of}
	for at := of; at.Origin != ""; {
		i := slices.IndexFunc(all, func(h Stored) bool { return h.Digest == at.Origin })
		if i < 0 {
			return append(out, Stored{ID: shortDigest(at.Origin), Digest: at.Origin, Ref: at.OriginName,
				Name: at.OriginName, State: StateAbsent, Layers: []string{}}), nil
		}
		at = all[i]
		if out = append(out, at); len(out) > maxChain {
			return nil, fault.New(fault.Invalid, "the chain of origins of %s has more than %d images", of.Ref, maxChain)
		}
	}
	return out, nil
}

// shortDigest is the beginning of a digest, which a stranger may have written.
func shortDigest(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(12, len(hex))]
}

// StateAbsent is that of an origin that is not in the store.
const StateAbsent = "absent"

// stored is the manifest of a stored image; with a digest, of the one that has it.
func (s *Store) findStored(ref reference.Reference, digest string) (v1.Descriptor, error) {
	absent := fault.WithFix(fault.New(fault.Invalid, "image %s: it is not in the store", ref.Text),
		"run bakeoff image import or bakeoff image create; bakeoff image list shows what is there")
	ref.Digest = digest
	name := ref.Text
	if digest != "" { // whatever has the name now
		name = ""
	}
	d, complete, err := findComplete(s.Layout(), ref, name)
	if err == nil && !complete {
		err = absent
	}
	return d, err
}

// runnable tells whether environments of this machine can be created from an image.
func (h Stored) runnable() bool { return h.OS == "linux" && h.Arch == runtime.GOARCH }

// EntriesOf are the entries of the cache that only h needs: its name in the layout, and
// the root that was unpacked from it.
func (s *Store) EntriesOf(h Stored) ([]Entry, error) {
	all, err := s.Entries()
	if err != nil {
		return nil, err
	}
	held, err := s.Stored()
	if err != nil {
		return nil, err
	}
	shared := slices.ContainsFunc(held, func(o Stored) bool { return o.Digest == h.Digest && o.Ref != h.Ref })
	root := rootOf(kindImage, h.Digest)
	return slices.DeleteFunc(all, func(e Entry) bool {
		return !(e.Kind == kindLayers && e.Ref == h.Ref) && (shared || e.Name != root)
	}), nil
}

// Export writes an image as a tar file with an OCI image layout.
func (s *Store) Export(ctx context.Context, h Stored, w io.Writer) error {
	l := s.Layout()
	d, ok, err := l.Find(h.Ref)
	if err != nil || !ok {
		return errors.Join(err, fault.New(fault.NotFound, "the store has no image %q", h.Ref))
	}
	return fault.Op("export "+h.Ref, archive.Export(ctx, l, layout.Image{Name: h.Ref, Manifest: d}, w))
}
