package archive

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/lab/archive/bundle"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/registry"
)

// referral is a type of artifacts whose subject is a bundle. The store has an empty file
// for each: FOLDER/DIGITS OF THE BUNDLE/DIGITS.
type referral struct {
	artifactType string
	dir          string
	layers       []layerOf // in order
	least        int       // number of layers that each has
	most         int       // of a bundle: anybody who may push can add some
}

// layerOf is a layer of a referrer, and a bound on its bytes.
type layerOf struct {
	mediaType types.MediaType
	most      int64
}

var referrals = []referral{signatures, replications}

// emptyType is the type of the configuration of a referrer.
const emptyType = "application/vnd.oci.empty.v1+json"

// maxEmpty bounds that configuration, in bytes.
const maxEmpty = 64 << 10

// referrer is the manifest of an artifact whose subject is a bundle.
type referrer struct {
	SchemaVersion int64           `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	ArtifactType  string          `json:"artifactType"`
	Config        bundle.Part     `json:"config"`
	Layers        []bundle.Part   `json:"layers"`
	Subject       bundle.Part     `json:"subject"`
}

func (r referrer) parts() (out []v1.Descriptor) {
	for _, p := range append([]bundle.Part{r.Config}, r.Layers...) {
		out = append(out, p.Descriptor())
	}
	return out
}

// parse reads the manifest of a referrer of a bundle. Errors are of kind fault.Invalid.
func (k referral) parse(b []byte, of string) (r referrer, err error) {
	if len(b) > bundle.MaxManifest {
		return r, fault.New(fault.Invalid, "the manifest has %d bytes, at most %d are possible", len(b), bundle.MaxManifest)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fault.Wrap(fault.Invalid, "the manifest", err)
	}
	ok := r.SchemaVersion == 2 && r.ArtifactType == k.artifactType && r.Subject.Digest == of &&
		bundle.ValidDigest(r.Config.Digest) && r.Config.Size >= 0 && r.Config.Size <= maxEmpty &&
		len(r.Layers) >= k.least && len(r.Layers) <= len(k.layers)
	for i := 0; ok && i < len(r.Layers); i++ {
		l := r.Layers[i]
		ok = l.MediaType == k.layers[i].mediaType && bundle.ValidDigest(l.Digest) && l.Size > 0 && l.Size <= k.layers[i].most
	}
	if !ok {
		return r, fault.New(fault.Invalid, "it is not an artifact of type %s of the bundle %s", k.artifactType, of)
	}
	return r, nil
}

// keepReferrer stores the layers of a referrer, and its manifest.
func (s *Store) keepReferrer(k referral, of string, size int64, layers ...[]byte) error {
	part := func(b []byte, t types.MediaType) (bundle.Part, error) {
		d, err := s.blobs.PutBytes(b, t)
		return bundle.Part{MediaType: d.MediaType, Digest: d.Digest.String(), Size: d.Size}, err
	}
	config, err := part([]byte("{}"), emptyType)
	if err != nil {
		return err
	}
	r := referrer{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: k.artifactType, Config: config,
		Subject: bundle.Part{MediaType: types.OCIManifestSchema1, Digest: of, Size: size}}
	for i, b := range layers {
		p, err := part(b, k.layers[i].mediaType)
		if err != nil {
			return err
		}
		r.Layers = append(r.Layers, p)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	return s.commitReferrer(k, of, b)
}

// commitReferrer makes a referrer whose parts are there a part of the store.
func (s *Store) commitReferrer(k referral, of string, manifest []byte) error {
	d, err := s.blobs.PutBytes(manifest, types.OCIManifestSchema1)
	if err != nil {
		return err
	}
	dir := s.referrerFolder(k, of)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	return fault.Wrap(fault.Lab, "store", atomicfile.Write(filepath.Join(dir, d.Digest.Hex), nil, 0o666))
}

func (s *Store) referrerFolder(k referral, of string) string {
	return filepath.Join(s.Dir, k.dir, strings.TrimPrefix(of, "sha256:"))
}

// referrers lists the digests of the referrers of a bundle.
func (s *Store) referrers(k referral, of string) (out []string, err error) {
	files, err := os.ReadDir(s.referrerFolder(k, of))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "store", err)
	}
	for _, f := range files {
		if digest := "sha256:" + f.Name(); bundle.ValidDigest(digest) && len(out) < k.most {
			out = append(out, digest)
		}
	}
	return out, nil
}

// readReferrer returns the manifest of a referrer of a bundle, as bytes and decoded.
func (s *Store) readReferrer(k referral, digest, of string) (manifest []byte, r referrer, err error) {
	b, err := s.blob(v1.Descriptor{Digest: bundle.Part{Digest: digest}.Descriptor().Digest}, bundle.MaxManifest)
	if err == nil {
		r, err = k.parse(b, of)
	}
	return b, r, err
}

// layersOf reads the layers of a referrer.
func (s *Store) layersOf(k referral, r referrer) (out [][]byte, err error) {
	for i, p := range r.Layers {
		b, err := s.blob(p.Descriptor(), k.layers[i].most)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// pushReferrers sends the referrers of a bundle to a registry.
func (s *Store) pushReferrers(ctx context.Context, c *registry.Client, host, repository, of string) error {
	for _, k := range referrals {
		all, err := s.referrers(k, of)
		if err != nil {
			return err
		}
		for _, d := range all {
			b, r, err := s.readReferrer(k, d, of)
			if err != nil {
				return err
			}
			if err := c.PushArtifact(ctx, host, repository, "", s.blobs, r.parts(), b); err != nil {
				return fault.Op(k.dir, err)
			}
		}
	}
	return nil
}

// pullReferrers gets the referrers of a bundle that the store lacks. One that is damaged is
// left out: anybody who may push can add it.
func (s *Store) pullReferrers(ctx context.Context, c *registry.Client, at reference.Reference, of string) error {
	for _, k := range referrals {
		list, err := c.Referrers(ctx, at, of, k.artifactType)
		if err != nil {
			return err
		}
		all, err := s.referrers(k, of)
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for _, d := range all {
			have[d] = true
		}
		for _, d := range list {
			if len(have) >= k.most {
				break
			}
			if have[d.Digest.String()] {
				continue
			}
			b, err := c.PullArtifact(ctx, at.Pinned(d.Digest.String()), s.blobs, func(b []byte) ([]v1.Descriptor, error) {
				r, err := k.parse(b, of)
				return r.parts(), err
			})
			if fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := s.commitReferrer(k, of, b); err != nil {
				return err
			}
			have[d.Digest.String()] = true
		}
	}
	return nil
}

// useReferrers adds the blobs of the referrers of a bundle to used.
func (s *Store) useReferrers(of string, used map[string]bool) error {
	for _, k := range referrals {
		all, err := s.referrers(k, of)
		if err != nil {
			return err
		}
		for _, d := range all {
			_, r, err := s.readReferrer(k, d, of)
			if err != nil {
				continue
			}
			used[strings.TrimPrefix(d, "sha256:")] = true
			for _, p := range r.parts() {
				used[p.Digest.Hex] = true
			}
		}
	}
	return nil
}
