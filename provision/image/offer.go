package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/unpack"
	"bakeoff/provision/zfs/stream"
)

// Asking is a client for image sources with the settings of the environment.
func (s *Store) Asking() (*source.Client, error) {
	c, err := s.client()
	return &source.Client{Registry: c, Count: s.Count, Wait: s.wait}, err
}

// ImportFrom brings an image of a source into the store, with its origins: each is an
// image of its own. A download that ended early is continued. Nothing is used before its
// checksum was verified. After an error nothing of the image is left but what was
// downloaded without an error.
func (s *Store) ImportFrom(ctx context.Context, kind source.Source, address, id string) (Stored, error) {
	c, err := s.Asking()
	if err != nil {
		return Stored{}, err
	}
	chain, err := source.Chain(ctx, kind, c, address, id)
	if err != nil {
		return Stored{}, err
	}
	if ref := chain[len(chain)-1].Reference; ref != "" {
		return s.Import(ctx, ref)
	}
	for _, i := range chain {
		if err := importable(ctx, c, i); err != nil {
			return Stored{}, fault.Op("image "+i.ID, err)
		}
	}
	var h Stored
	err = s.withLayout(ctx, func(l *layout.Layout) error {
		for n, i := range chain {
			if h, err = s.importOne(ctx, c, l, i, h, address); err != nil {
				return fault.Op("image "+chain[n].ID, err)
			}
		}
		return nil
	})
	return h, err
}

// headBytes is enough of a file for the first block of every compression.
const headBytes = 1 << 20

// importable refuses an image that cannot be imported, before much is downloaded.
func importable(ctx context.Context, c *source.Client, i source.Image) error {
	if i.Refused != "" {
		return fault.New(fault.Unsupported, "%s", i.Refused)
	}
	if _, err := reference.Store(i.Name, i.Version); err != nil {
		return err
	}
	if i.UUID == "" {
		return nil
	}
	for _, f := range i.Files { // the type of the image does not say what its file is
		b, err := c.Head(ctx, f, headBytes)
		if err != nil {
			return err
		}
		if !startsTar(b) {
			err := fault.New(fault.Unsupported, "%s", notTar(b))
			if i.Volume && stream.IsStream(startOf(b)) {
				err = fault.WithFix(fault.New(fault.Unsupported, "the image is the disk of a machine"),
					"add --disk FILE, and name the disk with image: disk:FILE")
			}
			return err
		}
	}
	return nil
}

// startOf is the beginning of the file that a compressed file holds.
func startOf(b []byte) []byte {
	r, release, err := unpack.Decompress(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	defer release()
	start := make([]byte, 4096)
	n, _ := io.ReadFull(r, start) // the compressed file was cut off
	return start[:n]
}

// startsTar tells whether a file that begins with b is a tar file.
func startsTar(b []byte) bool {
	_, err := tar.NewReader(bytes.NewReader(startOf(b))).Next()
	return err == nil
}

// notTar says what a file is instead of a tar file.
func notTar(b []byte) string {
	if stream.IsStream(startOf(b)) {
		return source.ZFS
	}
	return "its file is not a tar file"
}

// importOne brings one image of a chain into the store, upon its origin.
func (s *Store) importOne(ctx context.Context, c *source.Client, l *layout.Layout, i source.Image, origin Stored,
	address string) (Stored, error) {
	if had, ok := s.findUUID(l, i); ok {
		return had, nil
	}
	m := Stored{Name: i.Name, Version: i.Version, UUID: i.UUID, Type: i.Type, Description: i.Description, OS: i.OS,
		Arch: i.Arch, Created: i.Published, Source: address, Origin: origin.Digest, OriginName: i.Origin}
	var files []string
	var layers []unpack.Layer
	for _, f := range i.Files {
		path := l.PartialPath(f.Sum + " " + f.Name)
		if err := c.Download(ctx, f, path); err != nil {
			return Stored{}, err
		}
		files = append(files, path)
		info, err := os.Stat(path)
		if err != nil {
			return Stored{}, err
		}
		layers = append(layers, unpack.Layer{Name: f.Name, Size: info.Size(), Plain: !i.Layered,
			Open: func() (io.ReadCloser, error) { return os.Open(path) }})
	}
	h, err := s.makeImage(ctx, l, m, layers)
	if err == nil || fault.Is(err, fault.Invalid) {
		for _, f := range files {
			err = errors.Join(err, remove(f))
		}
	}
	return h, err
}

// findUUID returns an image of a source that the store has: with the same UUID.
func (s *Store) findUUID(l *layout.Layout, i source.Image) (Stored, bool) {
	all, err := l.Images()
	if err != nil || i.UUID == "" {
		return Stored{}, false
	}
	for _, one := range all {
		if h := s.describeStored(l, one); h.UUID == i.UUID && h.State == stateComplete {
			return h, true
		}
	}
	return Stored{}, false
}
