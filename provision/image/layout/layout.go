// Package layout keeps the images of registries and archives in a folder, as an OCI
// image layout (image-spec, image-layout.md): every blob is a file whose name is its
// digest, and index.json names the images.
//
// A blob appears under its name only after its digest was verified and its bytes are on
// the disk. What a killed download left is in another folder, from which the next one
// continues. A Layout does not lock its folder: the caller does.
package layout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
)

// Layout is an OCI image layout in the folder Dir.
type Layout struct{ Dir string }

// The files of a layout. The specification names all but the last.
const (
	versionFile = "oci-layout"
	indexFile   = "index.json"
	blobDir     = "blobs/sha256"
	partialDir  = "partial"
)

const version = `{"imageLayoutVersion":"1.0.0"}`

// refName is the annotation in index.json that names an image.
const refName = "org.opencontainers.image.ref.name"

// Open returns the layout in dir, and creates it if it does not exist. Only its owner
// can enter the folder.
func Open(dir string) (*Layout, error) {
	l := &Layout{Dir: dir}
	for _, d := range []string{dir, filepath.Join(dir, blobDir), filepath.Join(dir, partialDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fault.Op("create the image cache", err)
		}
	}
	for name, text := range map[string]string{versionFile: version, indexFile: emptyIndex} {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			err = atomicfile.Write(file, []byte(text), 0o600)
			if err != nil {
				return nil, fault.Op("create the image cache", err)
			}
		} else if err != nil {
			return nil, fault.Op("image cache", err)
		}
	}
	return l, nil
}

const emptyIndex = `{"schemaVersion":2,"manifests":[]}`

// Blob is the path of a blob.
func (l *Layout) Blob(h v1.Hash) string { return filepath.Join(l.Dir, blobDir, h.Hex) }

// Has reports whether the layout has a blob.
func (l *Layout) Has(d v1.Descriptor) bool {
	info, err := os.Stat(l.Blob(d.Digest))
	return err == nil && info.Size() == d.Size
}

// Read returns a blob whose digest it has verified. It reads at most MaxDocument bytes.
func (l *Layout) Read(d v1.Descriptor) ([]byte, error) {
	if d.Size > MaxDocument {
		return nil, tooLarge(d)
	}
	b, err := os.ReadFile(l.Blob(d.Digest))
	if err != nil {
		return nil, fault.Op("image cache", err)
	}
	if got := Digest(b); got != d.Digest {
		return nil, fault.WithFix(fault.New(fault.Lab, "%s is damaged: its digest is %s", l.Blob(d.Digest), got),
			"run bakeoff cache clear")
	}
	return b, nil
}

// Manifest returns the manifest of an image.
func (l *Layout) Manifest(d v1.Descriptor) (v1.Manifest, error) {
	b, err := l.Read(d)
	if err != nil {
		return v1.Manifest{}, err
	}
	return ParseManifest(b)
}

// Config returns the manifest of an image, and the text of its configuration.
func (l *Layout) Config(d v1.Descriptor) (m v1.Manifest, config []byte, err error) {
	if m, err = l.Manifest(d); err == nil {
		config, err = l.Read(m.Config)
	}
	return m, config, err
}

// Digest is the sha256 of b.
func Digest(b []byte) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hexsum.Of(b)}
}

// Put stores a blob. Errors are of kind fault.Invalid if r does not have the bytes that
// d describes.
func (l *Layout) Put(ctx context.Context, d v1.Descriptor, r io.Reader) error {
	if l.Has(d) {
		return nil
	}
	p, err := l.Begin(d)
	if err != nil {
		return err
	}
	if err := p.Restart(); err == nil {
		_, err = io.Copy(p, &watched{ctx, r})
		if err == nil {
			err = p.Commit()
		}
		return errors.Join(err, p.Discard())
	}
	return errors.Join(err, p.Discard())
}

// PutBytes stores b and returns its descriptor.
func (l *Layout) PutBytes(b []byte, t types.MediaType) (v1.Descriptor, error) {
	d := v1.Descriptor{MediaType: t, Size: int64(len(b)), Digest: Digest(b)}
	return d, l.Put(context.Background(), d, bytes.NewReader(b))
}

// watched is a reader that ends with its context.
type watched struct {
	ctx context.Context
	in  io.Reader
}

func (w *watched) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.in.Read(p)
}

// Partial is a blob of which some bytes are there. Its bytes are kept until Commit or
// Discard, also if the process is killed.
type Partial struct {
	l    *Layout
	want v1.Descriptor
	file *os.File
	sum  hash.Hash
	n    int64
	end  bool
}

// Begin continues a blob, or begins it if none of its bytes are there.
func (l *Layout) Begin(d v1.Descriptor) (*Partial, error) {
	if d.Digest.Algorithm != "sha256" || len(d.Digest.Hex) != sha256.Size*2 || d.Size < 0 {
		return nil, fault.New(fault.Invalid, "the blob %s with %d bytes has an invalid digest or size: bakeoff reads "+
			"sha256 only", d.Digest, d.Size)
	}
	f, err := os.OpenFile(filepath.Join(l.Dir, partialDir, d.Digest.Hex), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Op("image cache", err)
	}
	p := &Partial{l: l, want: d, file: f, sum: sha256.New()}
	if p.n, err = io.Copy(p.sum, io.LimitReader(f, d.Size)); err == nil {
		_, err = f.Seek(p.n, io.SeekStart)
	}
	if err == nil {
		err = f.Truncate(p.n)
	}
	if err != nil {
		return nil, errors.Join(fault.Op("image cache", err), f.Close())
	}
	return p, nil
}

// Begun is the number of bytes of a blob that an earlier download left.
func (l *Layout) Begun(d v1.Descriptor) int64 {
	info, err := os.Stat(filepath.Join(l.Dir, partialDir, d.Digest.Hex))
	if err != nil {
		return 0
	}
	return min(info.Size(), d.Size)
}

// Size is the number of bytes that are there.
func (p *Partial) Size() int64 { return p.n }

// Write appends bytes.
func (p *Partial) Write(b []byte) (int, error) {
	if int64(len(b)) > p.want.Size-p.n {
		return 0, fault.New(fault.Invalid, "blob %s has more than the expected %d bytes", p.want.Digest, p.want.Size)
	}
	n, err := p.file.Write(b)
	p.sum.Write(b[:n])
	p.n += int64(n)
	return n, fault.Op("image cache", err)
}

// Restart removes the bytes that are there.
func (p *Partial) Restart() error {
	p.sum.Reset()
	p.n = 0
	_, err := p.file.Seek(0, io.SeekStart)
	return fault.Op("image cache", errors.Join(err, p.file.Truncate(0)))
}

// Commit verifies the digest and makes the blob part of the layout. If the digest is
// another one, the error is of kind fault.Invalid, and no byte is kept.
func (p *Partial) Commit() error {
	if got := hex.EncodeToString(p.sum.Sum(nil)); p.n != p.want.Size || got != p.want.Digest.Hex {
		err := fault.New(fault.Invalid, "blob %s was changed or is damaged: it has %d bytes with the digest sha256:%s, "+
			"and %d are expected", p.want.Digest, p.n, got, p.want.Size)
		return errors.Join(err, p.Discard())
	}
	p.end = true
	err := p.file.Sync()
	err = errors.Join(err, p.file.Close())
	if err == nil {
		err = atomicfile.Rename(p.file.Name(), p.l.Blob(p.want.Digest))
	}
	return fault.Op("image cache", err)
}

// Keep ends the download and keeps its bytes for the next Begin. After Commit it does
// nothing.
func (p *Partial) Keep() error {
	if p.end {
		return nil
	}
	p.end = true
	return fault.Op("image cache", p.file.Close())
}

// Discard removes the bytes that are there. After Commit it does nothing.
func (p *Partial) Discard() error {
	if p.end {
		return nil
	}
	p.end = true
	return fault.Op("image cache", errors.Join(p.file.Close(), os.Remove(p.file.Name())))
}

// Image is one image of the layout.
type Image struct {
	Name     string // docker.io/library/alpine:3.20
	Manifest v1.Descriptor
	// Notes are what the index says about the image in addition to its name, by the
	// names of annotations.
	Notes map[string]string
}

// Images lists the images, in the order of names. A layout that does not exist has none.
func (l *Layout) Images() ([]Image, error) {
	b, err := os.ReadFile(filepath.Join(l.Dir, indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("image cache", err)
	}
	index, err := ParseIndex(b)
	if err != nil {
		return nil, fault.WithFix(fault.Op(filepath.Join(l.Dir, indexFile), err), "run bakeoff cache clear")
	}
	var out []Image
	for _, m := range index.Manifests {
		i := Image{Name: m.Annotations[refName], Manifest: m, Notes: maps.Clone(m.Annotations)}
		delete(i.Notes, refName)
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Find returns the manifest of an image; false if there is none.
func (l *Layout) Find(name string) (v1.Descriptor, bool, error) {
	all, err := l.Images()
	if err != nil {
		return v1.Descriptor{}, false, err
	}
	i := slices.IndexFunc(all, func(i Image) bool { return i.Name == name })
	if i < 0 || !l.Has(all[i].Manifest) {
		return v1.Descriptor{}, false, nil
	}
	return all[i].Manifest, true, nil
}

// Name gives a manifest a name, which another image had before.
func (l *Layout) Name(name string, d v1.Descriptor) error { return l.NameWith(name, d, nil) }

// NameWith is Name with notes about the image.
func (l *Layout) NameWith(name string, d v1.Descriptor, notes map[string]string) error {
	all, err := l.Images()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(i Image) bool { return i.Name == name })
	return l.write(append(all, Image{Name: name, Manifest: d, Notes: notes}))
}

// Forget removes the names of images for which drop holds. Their blobs stay until
// Unused lists them.
func (l *Layout) Forget(drop func(Image) bool) error {
	all, err := l.Images()
	if err != nil {
		return err
	}
	return l.write(slices.DeleteFunc(all, drop))
}

func (l *Layout) write(all []Image) error {
	slices.SortFunc(all, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for _, i := range all {
		m := i.Manifest
		m.Annotations = map[string]string{}
		maps.Copy(m.Annotations, i.Notes)
		m.Annotations[refName] = i.Name
		index.Manifests = append(index.Manifests, m)
	}
	b, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	file, b := filepath.Join(l.Dir, indexFile), append(b, '\n')
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, b) {
		return nil // every start of a guest names its image again
	}
	return fault.Op("image cache", atomicfile.Write(file, b, 0o600))
}

// Blobs are the blobs of an image: manifest, configuration and layers.
func (l *Layout) Blobs(i Image) ([]v1.Descriptor, error) {
	m, err := l.Manifest(i.Manifest)
	if err != nil {
		return nil, err
	}
	return append([]v1.Descriptor{i.Manifest, m.Config}, m.Layers...), nil
}

// Unused lists the files of blobs that no image has. An image whose manifest cannot be
// read is not complete, and has none.
func (l *Layout) Unused() ([]string, error) {
	images, err := l.Images()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, i := range images {
		blobs, err := l.Blobs(i)
		if err != nil {
			continue
		}
		for _, b := range blobs {
			used[b.Digest.Hex] = true
		}
	}
	return l.listFiles(blobDir, func(name string) bool { return !used[name] })
}

// PartialPath is the file of an unfinished download, among those that Partials lists.
// Equal keys give equal files. The caller removes it.
func (l *Layout) PartialPath(key string) string {
	return filepath.Join(l.Dir, partialDir, Digest([]byte(key)).Hex)
}

// Partials lists the files of downloads that have not ended.
func (l *Layout) Partials() ([]string, error) {
	return l.listFiles(partialDir, func(string) bool { return true })
}

func (l *Layout) listFiles(dir string, take func(name string) bool) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(l.Dir, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Op("image cache", err)
	}
	var out []string
	for _, e := range entries {
		if take(e.Name()) {
			out = append(out, filepath.Join(l.Dir, dir, e.Name()))
		}
	}
	return out, nil
}

func tooLarge(d v1.Descriptor) error {
	return fault.New(fault.Invalid, "%s %s has %d bytes; the limit is %d", describeDocument(d),
		d.Digest, d.Size, MaxDocument)
}

func describeDocument(d v1.Descriptor) string {
	return fmt.Sprintf("the document of type %q", d.MediaType)
}
