package layout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
)

// MaxDocument bounds manifests, indexes and configurations, as registries do.
const MaxDocument = 4 << 20

// The bounds of what an image may have.
const (
	maxLayers = 1000
	maxImages = 10000
	maxBytes  = 1 << 40 // of all layers, as they are stored
)

// ErrNoLayer is in the error about a manifest that names a file in place of a layer: that of an
// artifact, as ORAS pushes them.
var ErrNoLayer = errors.New("is not a tar file")

// ParseManifest reads the manifest of an image. Errors are of kind fault.Invalid.
func ParseManifest(b []byte) (v1.Manifest, error) {
	m, err := parseManifest(b)
	if err != nil {
		return m, err
	}
	for _, d := range m.Layers {
		if t := string(d.MediaType); !strings.Contains(t, "tar") {
			return m, fault.New(fault.Invalid, "layer %s has the type %q and %w", d.Digest, t, ErrNoLayer)
		}
	}
	return m, nil
}

// ParseArtifact reads the manifest of an artifact that is one file, and returns that file. Errors
// are of kind fault.Invalid.
func ParseArtifact(b []byte) (v1.Descriptor, error) {
	m, err := parseManifest(b)
	if err == nil && len(m.Layers) != 1 {
		err = fault.New(fault.Invalid, "the artifact has %d files instead of one", len(m.Layers))
	}
	if err != nil {
		return v1.Descriptor{}, err
	}
	return m.Layers[0], nil
}

func parseManifest(b []byte) (v1.Manifest, error) {
	var m v1.Manifest
	if err := document(b, &m); err != nil {
		return m, fault.New(fault.Invalid, "the manifest is damaged: %w", err)
	}
	switch {
	case m.MediaType == types.DockerManifestSchema1 || m.MediaType == types.DockerManifestSchema1Signed ||
		m.SchemaVersion == 1:
		return m, fault.WithFix(fault.New(fault.Invalid, "the image has a manifest of version 1, which "+
			"registries no longer use"),
			"push the image again with a current program")
	case m.SchemaVersion != 2:
		return m, fault.New(fault.Invalid, "the manifest has the version %d instead of 2", m.SchemaVersion)
	case m.MediaType != "" && !m.MediaType.IsImage():
		return m, fault.New(fault.Invalid, "%q is not the manifest of an image", m.MediaType)
	case len(m.Layers) > maxLayers:
		return m, fault.New(fault.Invalid, "the image has %d layers; the limit is %d", len(m.Layers), maxLayers)
	case m.Config.Size > MaxDocument:
		return m, tooLarge(m.Config)
	}
	var sum int64
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if err := descriptor(d); err != nil {
			return m, err
		}
		if sum += d.Size; d.Size > maxBytes || sum > maxBytes {
			return m, fault.New(fault.Invalid, "the layers of the image have more than %d bytes", int64(maxBytes))
		}
	}
	return m, nil
}

// ParseIndex reads an index: the images of a layout, or one image for several
// platforms. It leaves out entries that it cannot read, such as one with a digest other
// than sha256, as long as others are left: each entry stands for itself. Errors are of
// kind fault.Invalid.
func ParseIndex(b []byte) (v1.IndexManifest, error) {
	var read struct {
		v1.IndexManifest
		Manifests []json.RawMessage `json:"manifests"`
	}
	if err := document(b, &read); err != nil {
		return v1.IndexManifest{}, fault.New(fault.Invalid, "the index is damaged: %w", err)
	}
	x := read.IndexManifest
	switch {
	case x.SchemaVersion != 2:
		return x, fault.New(fault.Invalid, "the index has the version %d instead of 2", x.SchemaVersion)
	case x.MediaType != "" && !x.MediaType.IsIndex():
		return x, fault.New(fault.Invalid, "%q is not an index", x.MediaType)
	case len(read.Manifests) > maxImages:
		return x, fault.New(fault.Invalid, "the index has %d images; the limit is %d",
			len(read.Manifests), maxImages)
	}
	var damaged error
	for _, text := range read.Manifests {
		var d v1.Descriptor
		err := json.Unmarshal(text, &d)
		if err == nil {
			err = descriptor(d)
		}
		if err != nil {
			damaged = fault.New(fault.Invalid, "the index is damaged: %w", err)
			continue
		}
		x.Manifests = append(x.Manifests, d)
	}
	if len(x.Manifests) == 0 {
		return x, damaged
	}
	return x, nil
}

// document decodes one JSON value.
func document(b []byte, v any) error {
	if len(b) > MaxDocument {
		return fmt.Errorf("the document has %d bytes; the limit is %d", len(b), MaxDocument)
	}
	return json.NewDecoder(bytes.NewReader(b)).Decode(v)
}

func descriptor(d v1.Descriptor) error {
	if d.Digest.Algorithm != "sha256" || len(d.Digest.Hex) != 64 || strings.Trim(d.Digest.Hex, "0123456789abcdef") != "" {
		return fault.New(fault.Invalid, "%q is not a digest of the form sha256:…", d.Digest.String())
	}
	if d.Size < 0 {
		return fault.New(fault.Invalid, "blob %s has an impossible size: %d bytes", d.Digest, d.Size)
	}
	return nil
}

// OfImages returns the manifests of an index without those of attestations and of artifacts of other kinds.
func OfImages(all []v1.Descriptor) []v1.Descriptor {
	return lists.Filter(all, func(m v1.Descriptor) bool {
		isImage := m.MediaType == "" || m.MediaType.IsImage() || m.MediaType.IsIndex()
		return isImage && (m.Platform == nil || m.Platform.OS != "unknown")
	})
}

// For returns the image of an index that is for an architecture of Linux: one for all its processors
// before one for a variant, whose programs may not run here. Errors are of kind fault.Unsupported
// and list what there is.
func For(x v1.IndexManifest, arch string) (v1.Descriptor, error) {
	var have []string
	var newer *v1.Descriptor
	all := OfImages(x.Manifests)
	for _, m := range all {
		switch p := m.Platform; {
		case p == nil && len(all) == 1:
			return m, nil
		case p == nil:
		case p.OS == "linux" && p.Architecture == arch && (arch != "arm" || p.Variant == "" || p.Variant == "v7"):
			if p.Variant == "" || p.Variant == baseVariants[arch] {
				return m, nil
			}
			newer = cmp.Or(newer, &m)
		default:
			have = append(have, p.String())
		}
	}
	if newer != nil {
		return *newer, nil
	}
	slices.Sort(have)
	return v1.Descriptor{}, fault.WithFix(fault.New(fault.Unsupported, "the image is not for linux/%s, but for %s", arch,
		list(slices.Compact(have))), "name an image for linux/"+arch)
}

// baseVariants are the variants that all processors of an architecture have; of arm the one that
// bakeoff expects.
var baseVariants = map[string]string{"amd64": "v1", "arm64": "v8", "arm": "v7"}

func list(names []string) string {
	const most = 12
	switch {
	case len(names) == 0:
		return "no platform"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Config is what an image says about the programs that start in it.
type Config struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty"` // NAME=VALUE
	User       string   `json:"user,omitempty"`
	WorkingDir string   `json:"working_dir,omitempty"`
}

// CheckPlatform refuses the configuration of an image for another system or architecture, with an error of kind
// fault.Unsupported.
func CheckPlatform(config []byte, arch string) error {
	var c struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	}
	if err := document(config, &c); err != nil {
		return fault.New(fault.Invalid, "the configuration of the image is damaged: %w", err)
	}
	if c.OS != "linux" || c.Architecture != arch {
		return fault.WithFix(fault.New(fault.Unsupported, "the image is for %q, and not for linux/%s",
			c.OS+"/"+c.Architecture, arch), "name an image for linux/"+arch)
	}
	return nil
}

// ParseConfig reads the configuration of an image and the digests of its unpacked
// layers. Errors are of kind fault.Invalid, or of kind fault.Unsupported if the image
// is for another system or architecture.
func ParseConfig(b []byte, arch string, layers int) (Config, []string, error) {
	var c struct {
		Config struct {
			Entrypoint, Cmd, Env []string
			User, WorkingDir     string
		} `json:"config"`
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := document(b, &c); err != nil {
		return Config{}, nil, fault.New(fault.Invalid, "the configuration of the image is damaged: %w", err)
	}
	if err := CheckPlatform(b, arch); err != nil {
		return Config{}, nil, err
	}
	if n := len(c.RootFS.DiffIDs); n != layers {
		return Config{}, nil, fault.New(fault.Invalid, "the image has %d layers, and its configuration lists %d", layers, n)
	}
	for _, d := range c.RootFS.DiffIDs {
		if h, err := v1.NewHash(d); err != nil || h.Algorithm != "sha256" {
			return Config{}, nil, fault.New(fault.Invalid, "%q is not a digest of the form sha256:…", d)
		}
	}
	out := Config{Entrypoint: c.Config.Entrypoint, Cmd: c.Config.Cmd, Env: c.Config.Env, User: c.Config.User,
		WorkingDir: c.Config.WorkingDir}
	if err := out.check(); err != nil {
		return Config{}, nil, err
	}
	return out, c.RootFS.DiffIDs, nil
}

// check refuses what no program could start with.
func (c Config) check() error {
	for _, e := range c.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return fault.New(fault.Invalid, "the configuration of the image has the variable %q, which is not NAME=VALUE", e)
		}
	}
	if c.WorkingDir != "" && (!path.IsAbs(c.WorkingDir) || strings.ContainsRune(c.WorkingDir, 0)) {
		return fault.New(fault.Invalid, "the configuration of the image has the folder %q, which is not absolute",
			c.WorkingDir)
	}
	for _, s := range append(append([]string{c.User}, c.Entrypoint...), c.Cmd...) {
		if strings.ContainsRune(s, 0) {
			return fault.New(fault.Invalid, "the configuration of the image has a zero byte in %q", s)
		}
	}
	return nil
}
