// Package bundle packs a run that ended, and unpacks and checks such a bundle, which may
// come from a stranger.
//
// A bundle is an OCI artifact of the type ArtifactType. Its configuration is a Record:
// what a list or an index needs to know of the run. Its layers are results.json, the
// samples as a Parquet file, and the run folder as a tar file. Equal folders give equal
// bytes, so a bundle has one digest: that of its manifest.
package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/strictjson"
)

// The media types of a bundle.
const (
	ArtifactType = "application/vnd.bakeoff.run.v1"
	RecordType   = "application/vnd.bakeoff.run.record.v1+json"
	ResultsType  = "application/vnd.bakeoff.run.results.v1+json"
	SamplesType  = "application/vnd.apache.parquet"
	FolderType   = "application/vnd.bakeoff.run.folder.v1.tar+zstd"
)

// Bounds on the parts of a bundle, in bytes.
const (
	MaxManifest = 64 << 10
	MaxRecord   = 4 << 20
	maxResults  = 256 << 20
	maxSamples  = 4 << 30
	maxFolder   = 16 << 30 // packed
	maxUnpacked = 64 << 30
	maxFiles    = 1_000_000
)

// Manifest names the parts of a bundle.
type Manifest struct {
	SchemaVersion int64           `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	ArtifactType  string          `json:"artifactType"`
	Config        Part            `json:"config"`
	Layers        []Part          `json:"layers"`
}

// Part is a blob of a bundle.
type Part struct {
	MediaType types.MediaType `json:"mediaType"`
	Digest    string          `json:"digest"`
	Size      int64           `json:"size"`
}

// Descriptor is a part as registries and layouts describe it.
func (p Part) Descriptor() v1.Descriptor {
	return v1.Descriptor{MediaType: p.MediaType, Size: p.Size,
		Digest: v1.Hash{Algorithm: "sha256", Hex: strings.TrimPrefix(p.Digest, "sha256:")}}
}

func partOf(d v1.Descriptor, mediaType types.MediaType) Part {
	return Part{MediaType: mediaType, Digest: d.Digest.String(), Size: d.Size}
}

// Results, Samples and Folder are the layers.
func (m Manifest) Results() Part { return m.Layers[0] }

// Samples is the layer with the samples.
func (m Manifest) Samples() Part { return m.Layers[1] }

// Folder is the layer with the run folder.
func (m Manifest) Folder() Part { return m.Layers[2] }

// Parts are all blobs but the manifest.
func (m Manifest) Parts() []Part { return append([]Part{m.Config}, m.Layers...) }

// Bytes is the size of all parts.
func (m Manifest) Bytes() (n int64) {
	for _, p := range m.Parts() {
		n += p.Size
	}
	return n
}

// encode returns the bytes of a manifest, whose digest names the bundle.
func (m Manifest) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	return b, fault.Wrap(fault.Lab, "bundle", err)
}

// layers are the media types and bounds of the layers, in order.
var layers = []struct {
	mediaType types.MediaType
	most      int64
}{{ResultsType, maxResults}, {SamplesType, maxSamples}, {FolderType, maxFolder}}

// ParseManifest reads a manifest and checks everything that it says. Errors are of kind
// fault.Invalid.
func ParseManifest(b []byte) (Manifest, error) {
	var m Manifest
	refuse := func(format string, args ...any) (Manifest, error) {
		return Manifest{}, fault.New(fault.Invalid, "the manifest of the bundle: "+format, args...)
	}
	if len(b) > MaxManifest {
		return refuse("it has %d bytes; the limit is %d", len(b), MaxManifest)
	}
	if err := strictjson.Decode(b, &m); err != nil {
		return refuse("%w", err)
	}
	switch {
	case m.SchemaVersion != 2 || m.MediaType != types.OCIManifestSchema1:
		return refuse("version %d and type %.80q are not those of an OCI manifest", m.SchemaVersion, m.MediaType)
	case m.ArtifactType != ArtifactType:
		return refuse("the type of the artifact is %.80q; a run has %q", m.ArtifactType, ArtifactType)
	case m.Config.MediaType != RecordType:
		return refuse("the type of the record is %.80q, not %q", m.Config.MediaType, RecordType)
	case m.Config.Size > MaxRecord:
		return refuse("the record has %d bytes; the limit is %d", m.Config.Size, MaxRecord)
	case len(m.Layers) != len(layers):
		return refuse("it has %d layers instead of %d", len(m.Layers), len(layers))
	}
	for i, p := range m.Layers {
		if want := layers[i]; p.MediaType != want.mediaType {
			return refuse("layer %d has the type %.80q, not %q", i, p.MediaType, want.mediaType)
		} else if p.Size > want.most {
			return refuse("layer %d has %d bytes; the limit is %d", i, p.Size, want.most)
		}
	}
	for _, p := range m.Parts() {
		if !name.ValidDigest(p.Digest) {
			return refuse("%.80q is not a digest of the form sha256:…", p.Digest)
		}
		if p.Size <= 0 {
			return refuse("part %s has %d bytes", p.Digest, p.Size)
		}
	}
	// The same manifest has one encoding, so that no second digest names the same bundle.
	if again, err := m.encode(); err != nil || !bytes.Equal(again, b) {
		return refuse("it differs from what bakeoff would write")
	}
	return m, nil
}

// shortest is how many digits of a digest name a bundle.
const shortest = 6

// Matches reports whether text names the bundle: its digest, or at least six digits of it.
func Matches(digest, text string) bool {
	digits := strings.TrimPrefix(text, "sha256:")
	return len(digits) >= shortest && strings.HasPrefix(strings.TrimPrefix(digest, "sha256:"), digits)
}

// Short is the beginning of a digest, for a table.
func Short(digest string) string {
	digits := strings.TrimPrefix(digest, "sha256:")
	return digits[:min(12, len(digits))]
}

// names lists what does not fit into one sentence.
func names(all []string) string {
	const most = 5
	slices.Sort(all)
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
