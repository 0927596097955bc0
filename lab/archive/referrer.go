package archive

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/atomicfile"
	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/lab/archive/bundle"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/registry"
)

// referral is a type of artifacts whose subject is a bundle. The store has a file for each,
// FOLDER/DIGITS OF THE BUNDLE/DIGITS, which says where it is from.
type referral struct {
	artifactType string
	dir          string
	layers       []layerOf // in order
	least        int       // number of layers that each has
	// most bounds those of a bundle: so many that this store made or somebody trusted
	// signed, and so many others. Anybody who may push can add some.
	most      int
	namespace string // of the signatures
	// signed returns what a signature is of, and the signature; nil if there is none.
	signed func(bundle []byte, layers [][]byte) (message, signature []byte)
}

// looks is how many times most a pull looks at: others may hide those that are signed.
const looks = 5

// Where a referrer is from. Those that were made here or signed by somebody trusted are
// never left out because of others.
const (
	fromStranger = ""
	fromTrusted  = "trusted\n"
	fromHere     = "here\n"
)

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
		return r, fault.New(fault.Invalid, "the manifest has %d bytes; the limit is %d", len(b), bundle.MaxManifest)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fault.Wrap(fault.Invalid, "the manifest", err)
	}
	ok := r.SchemaVersion == 2 && r.ArtifactType == k.artifactType && r.Subject.Digest == of &&
		name.ValidDigest(r.Config.Digest) && r.Config.Size >= 0 && r.Config.Size <= maxEmpty &&
		len(r.Layers) >= k.least && len(r.Layers) <= len(k.layers)
	for i := 0; ok && i < len(r.Layers); i++ {
		l := r.Layers[i]
		ok = l.MediaType == k.layers[i].mediaType && name.ValidDigest(l.Digest) && l.Size > 0 && l.Size <= k.layers[i].most
	}
	if !ok {
		return r, fault.New(fault.Invalid, "the manifest is not that of an artifact with the type %s for the "+
			"bundle %s", k.artifactType, of)
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
	return s.commitReferrer(k, of, b, fromHere)
}

// commitReferrer makes a referrer whose parts are there a part of the store.
func (s *Store) commitReferrer(k referral, of string, manifest []byte, from string) error {
	d, err := s.blobs.PutBytes(manifest, types.OCIManifestSchema1)
	if err != nil {
		return err
	}
	dir := s.referrerFolder(k, of)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	return fault.Wrap(fault.Lab, "store", atomicfile.Write(filepath.Join(dir, d.Digest.Hex), []byte(from), 0o666))
}

func (s *Store) referrerFolder(k referral, of string) string {
	return filepath.Join(s.Dir, k.dir, strings.TrimPrefix(of, "sha256:"))
}

// referrers lists the digests of the referrers of a bundle: first those that were made here
// or signed by somebody trusted. ours is the number of these.
func (s *Store) referrers(k referral, of string) (out []string, ours int, err error) {
	files, err := os.ReadDir(s.referrerFolder(k, of))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fault.Wrap(fault.Lab, "store", err)
	}
	var others []string
	for _, f := range files {
		digest := "sha256:" + f.Name()
		if !name.ValidDigest(digest) {
			continue
		}
		if info, err := f.Info(); err == nil && info.Size() > 0 {
			out = append(out, digest)
		} else {
			others = append(others, digest)
		}
	}
	return append(out, others[:min(len(others), k.most)]...), len(out), nil
}

// madeHere reports whether this store made a referrer of a bundle.
func (s *Store) madeHere(k referral, of string) (bool, error) {
	all, ours, err := s.referrers(k, of)
	for _, d := range all[:ours] {
		from, rerr := bounded.ReadFile(filepath.Join(s.referrerFolder(k, of), strings.TrimPrefix(d, "sha256:")), maxEmpty)
		if rerr == nil && string(from) == fromHere {
			return true, err
		}
	}
	return false, err
}

// readReferrer returns a referrer of a bundle: its manifest, as bytes and decoded, and its
// layers.
func (s *Store) readReferrer(k referral, digest, of string) (manifest []byte, r referrer, layers [][]byte, err error) {
	return referrerIn(s.blobs, k, digest, of)
}

// referrerIn reads a referrer from the blobs in a folder.
func referrerIn(in *layout.Layout, k referral, digest, of string) (manifest []byte, r referrer, layers [][]byte,
	err error) {
	manifest, err = blobIn(in, v1.Descriptor{Digest: bundle.Part{Digest: digest}.Descriptor().Digest}, bundle.MaxManifest)
	if err == nil {
		r, err = k.parse(manifest, of)
	}
	for i := 0; err == nil && i < len(r.Layers); i++ {
		var b []byte
		b, err = blobIn(in, r.Layers[i].Descriptor(), k.layers[i].most)
		layers = append(layers, b)
	}
	return manifest, r, layers, err
}

// damaged reports whether an error says that a referrer cannot be used. Others can be.
func damaged(err error) bool { return fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) }

// pushReferrers sends the referrers of a bundle to a registry, except damaged ones.
func (s *Store) pushReferrers(ctx context.Context, c *registry.Client, host, repository, of string) error {
	for _, k := range referrals {
		all, _, err := s.referrers(k, of)
		if err != nil {
			return err
		}
		for _, d := range all {
			b, r, _, err := s.readReferrer(k, d, of)
			if damaged(err) {
				continue // Verify says so
			}
			if err == nil {
				err = c.PushArtifact(ctx, host, repository, "", s.blobs, r.parts(), b)
			}
			if err != nil {
				return fault.Op(k.dir, err)
			}
		}
	}
	return nil
}

// pullReferrers gets the referrers of a bundle that the store lacks. Anybody who may push
// can add some: a damaged one is left out, and so are those of strangers beyond k.most. It
// looks at a bounded number, in random order, so that nobody can hide another's for long.
func (s *Store) pullReferrers(ctx context.Context, c *registry.Client, at reference.Reference, of string) error {
	_, about, err := s.Manifest(of)
	if err != nil {
		return err
	}
	work, done, err := s.workFolder()
	if err != nil {
		return err
	}
	defer done()
	for _, k := range referrals {
		list, err := c.Referrers(ctx, at, of, k.artifactType)
		if err != nil {
			return err
		}
		all, ours, err := s.referrers(k, of)
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for _, d := range all {
			have[d] = true
		}
		others := len(all) - ours
		list = slices.DeleteFunc(list, func(d v1.Descriptor) bool { return have[d.Digest.String()] })
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, d := range list[:min(len(list), looks*k.most)] {
			if others >= k.most && (s.Config.Signers == "" || ours >= k.most) {
				break
			}
			from, err := s.pullReferrer(ctx, c, at.Pinned(d.Digest.String()), k, of, about, work,
				func(from string) bool {
					return from == fromTrusted && ours < k.most || from == fromStranger && others < k.most
				})
			switch {
			case damaged(err):
			case err != nil:
				return err
			case from == fromTrusted:
				ours++
			default:
				others++
			}
		}
	}
	return nil
}

// pullReferrer gets a referrer, and adds it if keep says so. It returns where it is from.
func (s *Store) pullReferrer(ctx context.Context, c *registry.Client, at reference.Reference, k referral, of string,
	about []byte, work string, keep func(from string) bool) (from string, err error) {
	dir := filepath.Join(work, "referrer")
	defer os.RemoveAll(dir)
	in, err := layout.Open(dir)
	if err != nil {
		return "", err
	}
	manifest, err := c.PullArtifact(ctx, at, in, func(b []byte) ([]v1.Descriptor, error) {
		r, err := k.parse(b, of)
		return r.parts(), err
	})
	if err != nil {
		return "", err
	}
	d, err := in.PutBytes(manifest, types.OCIManifestSchema1)
	if err != nil {
		return "", err
	}
	_, r, layers, err := referrerIn(in, k, d.Digest.String(), of)
	if err != nil {
		return "", err
	}
	who, err := s.signerOf(ctx, work, k, about, layers)
	if err != nil {
		return "", err
	}
	if who != "" {
		from = fromTrusted
	}
	if !keep(from) {
		return "", fault.New(fault.Invalid, "the bundle has too many referrers")
	}
	for _, p := range r.parts() {
		b, err := blobIn(in, p, maxReplication)
		if err == nil {
			_, err = s.blobs.PutBytes(b, p.MediaType)
		}
		if err != nil {
			return "", err
		}
	}
	return from, s.commitReferrer(k, of, manifest, from)
}

// useReferrers adds the blobs of the referrers of a bundle to used, and returns the files of
// damaged referrers.
func (s *Store) useReferrers(of string, used map[string]bool) (broken []string, err error) {
	for _, k := range referrals {
		all, _, err := s.referrers(k, of)
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			digits := strings.TrimPrefix(d, "sha256:")
			_, r, _, err := s.readReferrer(k, d, of)
			if damaged(err) {
				broken = append(broken, filepath.Join(s.referrerFolder(k, of), digits))
				continue
			}
			if err != nil {
				return nil, err
			}
			used[digits] = true
			for _, p := range r.parts() {
				used[p.Digest.Hex] = true
			}
		}
	}
	return broken, nil
}

// damagedReferrers says which referrers of a bundle are damaged.
func (s *Store) damagedReferrers(of string) (out []string, err error) {
	for _, k := range referrals {
		all, _, err := s.referrers(k, of)
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			if _, _, _, err := s.readReferrer(k, d, of); damaged(err) {
				out = append(out, k.dir+": "+bundle.Short(d)+" is damaged and does not count; to get it again, run "+
					"bakeoff store prune, and then bakeoff store pull")
			} else if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
