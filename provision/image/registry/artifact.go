package registry

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// PushArtifact sends the blobs of an artifact that the registry lacks, and at last its
// manifest, which gets a tag; "" gives it none. A push that was broken off continues with
// the first part of a blob that is not there. If the manifest has a subject, the registry
// lists it as a referrer.
func (c *Client) PushArtifact(ctx context.Context, host, repository, tag string, from *layout.Layout,
	blobs []v1.Descriptor, manifest []byte) error {
	s := &session{Client: c, place: place{host: host, repository: repository}, scope: transport.PushScope}
	for _, d := range blobs {
		if err := s.pushBlob(ctx, d, from); err != nil {
			return fault.Op("push to "+host+"/"+repository, err)
		}
	}
	err := s.retry(ctx, func() (bool, error) {
		l, err := s.logIn(ctx)
		if err != nil {
			return false, err
		}
		var at name.Reference = l.repository.Digest(layout.Digest(manifest).String())
		if tag != "" {
			at = l.repository.Tag(tag)
		}
		return false, remote.Put(at, document(manifest), l.remoteOptions(ctx)...)
	})
	return fault.Op("push to "+host+"/"+repository, err)
}

// PullArtifact gets the manifest that a reference names, and the blobs that parse finds in
// it and that the layout lacks. It does not store the manifest.
func (c *Client) PullArtifact(ctx context.Context, r reference.Reference, into *layout.Layout,
	parse func(manifest []byte) ([]v1.Descriptor, error)) (manifest []byte, err error) {
	which := r.Digest
	if which == "" {
		which = r.Tag
	}
	err = c.anywhere(ctx, r, func(s *session) error {
		_, b, err := s.getDocument(ctx, which)
		if err != nil {
			return err
		}
		blobs, err := parse(b)
		if err != nil {
			return err
		}
		manifest = b
		return s.pullBlobs(ctx, blobs, into, newProgress(s.Progress, blobs))
	})
	return manifest, err
}

// mostReferrers bounds what Referrers returns: anybody who may push can add some.
const mostReferrers = 1000

// Referrers lists the artifacts of a type whose subject is the manifest with a digest. A
// registry without the API of referrers has them in an index of the tag sha256-DIGITS.
func (c *Client) Referrers(ctx context.Context, r reference.Reference, digest, artifactType string) ([]v1.Descriptor,
	error) {
	var out []v1.Descriptor
	err := c.anywhere(ctx, r, func(s *session) error {
		out = nil
		return s.retry(ctx, func() (bool, error) {
			l, err := s.logIn(ctx)
			if err != nil {
				return false, err
			}
			index, err := remote.Referrers(l.repository.Digest(digest), l.remoteOptions(ctx)...)
			if err != nil {
				return false, err
			}
			list, err := index.IndexManifest()
			if err != nil {
				return false, err
			}
			for _, d := range list.Manifests {
				if d.ArtifactType == artifactType && len(out) < mostReferrers {
					out = append(out, d)
				}
			}
			return true, nil
		})
	})
	return out, err
}

// file is a blob in a file.
type file struct {
	v1.Descriptor
	path string
}

// Digest is that of the blob.
func (f file) Digest() (v1.Hash, error) { return f.Descriptor.Digest, nil }

// DiffID is the digest: bakeoff does not unpack the blobs of artifacts as layers.
func (f file) DiffID() (v1.Hash, error) { return f.Descriptor.Digest, nil }

// Compressed reads the file.
func (f file) Compressed() (io.ReadCloser, error) { return os.Open(f.path) }

// Uncompressed reads the file as it is.
func (f file) Uncompressed() (io.ReadCloser, error) { return os.Open(f.path) }

// Size is that of the file.
func (f file) Size() (int64, error) { return f.Descriptor.Size, nil }

// MediaType is that of the blob.
func (f file) MediaType() (types.MediaType, error) { return f.Descriptor.MediaType, nil }

// document is a manifest.
type document []byte

// RawManifest returns its bytes.
func (d document) RawManifest() ([]byte, error) { return d, nil }

// MediaType is the one that the manifest has.
func (d document) MediaType() (types.MediaType, error) {
	var m struct {
		MediaType types.MediaType `json:"mediaType"`
	}
	err := json.Unmarshal(d, &m)
	return m.MediaType, err
}
