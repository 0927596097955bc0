// Package archive reads images from files and folders into a layout: OCI image layouts,
// as folders and as tar files, and what docker save writes. The files come from
// strangers: links out of a folder are not followed, and every blob is verified.
package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/unpack"
)

// Import brings the image of a file or folder into a layout and gives it the name of the
// reference. Errors are of kind fault.Invalid if the file or folder holds no such image.
func Import(ctx context.Context, r reference.Reference, arch string, into *layout.Layout) (v1.Descriptor, error) {
	d, err := read(ctx, r, arch, into)
	if err == nil {
		err = into.Name(r.String(), d)
	}
	return d, fault.Op("image "+r.Text, err)
}

// Check reads the index of an archive, which needs all of its headers, and writes nothing.
// It finds an archive that is truncated or of another form, and an image for another system or architecture. Errors
// are of kind fault.Invalid, or fault.Unsupported for another platform.
func Check(ctx context.Context, r reference.Reference, arch string) error {
	if err := checkPath(r); err != nil {
		return err
	}
	f, err := os.Open(r.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	files, err := headers(ctx, f)
	if err != nil {
		return err
	}
	if r.Kind == reference.OCIArchive {
		all, err := indexOf(files)
		if err != nil {
			return err
		}
		return checkPlatform(files, all, r, arch)
	}
	image, err := listOf(files)
	for _, name := range append([]string{image.Config}, image.Layers...) {
		if err == nil {
			_, _, err = files.open(name)
		}
	}
	if err != nil {
		return err
	}
	return checkConfig(files, image.Config, arch)
}

// checkPlatform refuses the image of a layout that is for another platform. What cannot be read is for Import.
func checkPlatform(s packed, all v1.IndexManifest, r reference.Reference, arch string) error {
	d, err := chooseImage(all.Manifests, r, arch)
	if err != nil {
		return err
	}
	for range 3 { // as fromLayout
		b, err := verified(s, d)
		if err != nil {
			return nil
		}
		if !d.MediaType.IsIndex() {
			m, err := layout.ParseManifest(b)
			if err != nil {
				return nil
			}
			return checkConfig(s, blobName(m.Config), arch)
		}
		nested, err := layout.ParseIndex(b)
		if err != nil {
			return nil
		}
		if d, err = layout.For(nested, arch); err != nil {
			return err
		}
	}
	return nil
}

// checkConfig refuses a configuration for another platform. One that cannot be read is for Import.
func checkConfig(s packed, name, arch string) error {
	b, err := document(s, name)
	if err != nil {
		return nil
	}
	if err := layout.CheckPlatform(b, arch); fault.Is(err, fault.Unsupported) {
		return err
	}
	return nil
}

func read(ctx context.Context, r reference.Reference, arch string, into *layout.Layout) (v1.Descriptor, error) {
	if err := checkPath(r); err != nil {
		return v1.Descriptor{}, err
	}
	if r.Kind == reference.Layout {
		root, err := os.OpenRoot(r.Path)
		if err != nil {
			return v1.Descriptor{}, err
		}
		defer root.Close()
		return fromLayout(ctx, folder{root}, r, arch, into)
	}
	f, err := os.Open(r.Path)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer f.Close()
	unpacked, err := seekableTar(ctx, f, into)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer unpacked.Close()
	files, err := indexFiles(ctx, tar.NewReader(unpacked), inFile(unpacked))
	if err != nil {
		return v1.Descriptor{}, err
	}
	files.file = unpacked
	if r.Kind == reference.OCIArchive {
		return fromLayout(ctx, files, r, arch, into)
	}
	return fromDocker(ctx, files, into)
}

// checkPath refuses a path that is not of the kind that a reference names. An archive is read several
// times, so it must be a file.
func checkPath(r reference.Reference) error {
	info, err := os.Stat(r.Path)
	switch layout := r.Kind == reference.Layout; {
	case errors.Is(err, fs.ErrNotExist):
		return fault.WithFix(fault.Wrap(fault.Invalid, "", err), "check the path; it is relative to the working folder")
	case err != nil:
		return err
	case layout && !info.IsDir():
		return fault.WithFix(fault.New(fault.Invalid, "%s is a file, not the folder of an OCI image layout", r.Path),
			"write oci-archive: before an archive of a layout, and docker-archive: before a file that docker save wrote")
	case !layout && info.IsDir():
		return fault.WithFix(fault.New(fault.Invalid, "%s is a folder, not an archive", r.Path),
			"write oci: before the folder of an OCI image layout")
	case !layout && !info.Mode().IsRegular():
		return fault.WithFix(fault.New(fault.Invalid, "%s is not a regular file, and bakeoff reads an archive twice", r.Path),
			"write the archive to a file first")
	}
	return nil
}

// source has files by their paths.
type source interface {
	open(name string) (io.ReadCloser, int64, error)
}

// folder is a layout in a folder.
type folder struct{ root *os.Root }

func (d folder) open(name string) (io.ReadCloser, int64, error) {
	info, err := d.root.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fault.New(fault.Invalid, "%s is not a file", name)
	}
	f, err := d.root.Open(name)
	return f, info.Size(), err
}

// packed are the regular files of a tar file, and the links between them.
type packed struct {
	file  io.ReaderAt
	parts map[string]part
	links map[string]string
}

type part struct{ at, size int64 }

// maxFiles bounds the files of an archive.
const maxFiles = 100_000

// indexFiles notes where the files of an archive are. place tells where the bytes of the
// file are whose header t has read.
func indexFiles(
	ctx context.Context, t *tar.Reader, place func(name string, size int64) (int64, error),
) (packed, error) {
	p := packed{parts: map[string]part{}, links: map[string]string{}}
	for ctx.Err() == nil {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && len(p.parts)+len(p.links) > 0 {
				return p, truncated()
			}
			return p, fault.New(fault.Invalid, "the file is not a tar file: %w", err)
		}
		if len(p.parts)+len(p.links) >= maxFiles {
			return p, fault.New(fault.Invalid, "the archive holds more than %d files", maxFiles)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := place(name, h.Size)
			if err != nil {
				return p, err
			}
			p.parts[name] = part{at, h.Size}
		case tar.TypeSymlink:
			p.links[name] = strings.TrimPrefix(path.Clean("/"+path.Dir(name)+"/"+h.Linkname), "/")
		case tar.TypeLink:
			p.links[name] = strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
		}
	}
	return p, ctx.Err()
}

func (p packed) open(name string) (io.ReadCloser, int64, error) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	for range 8 { // links of docker save between equal layers
		if at, ok := p.parts[name]; ok {
			return io.NopCloser(io.NewSectionReader(p.file, at.at, at.size)), at.size, nil
		}
		next, ok := p.links[name]
		if !ok {
			break
		}
		name = next
	}
	return nil, 0, fault.New(fault.Invalid, "the archive has no file %s", yamltree.Show(name))
}

// document reads a whole file.
func document(s source, name string) ([]byte, error) {
	r, size, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > layout.MaxDocument {
		return nil, fault.New(fault.Invalid, "%s has %d bytes; the limit is %d", name, size, layout.MaxDocument)
	}
	b, err := io.ReadAll(io.LimitReader(r, layout.MaxDocument))
	if err == nil && int64(len(b)) < size {
		err = fault.New(fault.Invalid, "the archive ends in the middle of %s", yamltree.Show(name))
	}
	return b, err
}

// blobName is the path of a blob in a layout. The digest was checked.
func blobName(d v1.Descriptor) string { return "blobs/sha256/" + d.Digest.Hex }

// verified reads a document whose digest is known.
func verified(s source, d v1.Descriptor) ([]byte, error) {
	b, err := document(s, blobName(d))
	if err != nil {
		return nil, fault.Op("blob "+d.Digest.String(), err)
	}
	if got := layout.Digest(b); got != d.Digest {
		return nil, fault.New(fault.Invalid, "blob %s was changed or is damaged: its digest is %s", d.Digest, got)
	}
	return b, nil
}

// refName is the annotation that names an image of a layout.
const refName = "org.opencontainers.image.ref.name"

// indexOf reads the index of a layout.
func indexOf(s source) (v1.IndexManifest, error) {
	b, err := document(s, "index.json")
	if err != nil {
		return v1.IndexManifest{}, fault.WithFix(fault.Wrap(fault.Invalid, "index.json", err),
			"name an OCI image layout, or use docker-archive: for what docker save or podman save wrote")
	}
	return layout.ParseIndex(b)
}

// fromLayout imports an image of a layout: that with the tag, or the only one.
func fromLayout(
	ctx context.Context, s source, r reference.Reference, arch string, into *layout.Layout,
) (v1.Descriptor, error) {
	all, err := indexOf(s)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d, err := chooseImage(all.Manifests, r, arch)
	if err != nil {
		return d, err
	}
	for range 3 { // an index may name an index
		b, err := verified(s, d)
		if err != nil {
			return d, err
		}
		if !d.MediaType.IsIndex() {
			return d, copyImage(ctx, s, d, b, into)
		}
		nested, err := layout.ParseIndex(b)
		if err != nil {
			return d, err
		}
		if d, err = layout.For(nested, arch); err != nil {
			return d, err
		}
	}
	return d, fault.New(fault.Invalid, "the index names only other indexes")
}

// chooseImage returns the image of a layout with the tag of the reference; without a tag the only image, or the only
// one for the architecture.
func chooseImage(all []v1.Descriptor, r reference.Reference, arch string) (v1.Descriptor, error) {
	var found []v1.Descriptor
	var tags []string
	all = layout.OfImages(all)
	for _, d := range all {
		name := d.Annotations[refName]
		tag := name[strings.LastIndexAny(name, "/:")+1:] // of a full name, docker.io/library/alpine:3.20
		tags = lists.AddNew(tags, tag)
		known := slices.ContainsFunc(found, func(f v1.Descriptor) bool { return f.Digest == d.Digest })
		if !known && (r.Tag == "" || name == r.Tag || tag == r.Tag) {
			found = append(found, d)
		}
	}
	several := len(tags) > 1 // or an image without a tag
	tags = lists.Filter(tags, func(tag string) bool { return tag != "" })
	slices.Sort(tags)
	use := strings.Join(lists.Map(tags[:min(len(tags), 10)], yamltree.Show), ", ")
	switch {
	case len(all) == 0:
		return v1.Descriptor{}, fault.New(fault.Invalid, "the layout holds no image")
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && len(tags) == 0:
		return v1.Descriptor{}, fault.WithFix(fault.New(fault.Invalid, "the images of the layout have no tags"),
			"remove the tag "+yamltree.Show(r.Tag))
	case len(found) == 0:
		return v1.Descriptor{}, fault.WithFix(fault.New(fault.Invalid, "the layout has no image with the tag %s",
			yamltree.Show(r.Tag)), "use one of "+use)
	case r.Tag == "" && several:
		return v1.Descriptor{}, fault.WithFix(fault.New(fault.Invalid, "the layout holds %d images", len(found)),
			fmt.Sprintf("write %s:%s:TAG with one of %s", r.Kind, r.Path, use))
	}
	if !slices.ContainsFunc(found, func(d v1.Descriptor) bool { return d.Platform != nil }) {
		return v1.Descriptor{}, fault.WithFix(fault.New(fault.Invalid, "the layout holds %d images that neither a name "+
			"nor a platform distinguishes", len(found)), "write each image into a layout of its own")
	}
	d, err := layout.For(v1.IndexManifest{Manifests: found}, arch)
	if err == nil && lists.Count(found, func(f v1.Descriptor) bool {
		return f.Platform != nil && f.Platform.Equals(*d.Platform)
	}) > 1 {
		err = fault.WithFix(fault.New(fault.Invalid, "the layout holds several images for linux/%s", arch),
			"write each image into a layout of its own")
	}
	return d, err
}

// copyImage copies the blobs of an image, and at last its manifest.
func copyImage(ctx context.Context, s source, d v1.Descriptor, manifest []byte, into *layout.Layout) error {
	m, err := layout.ParseManifest(manifest)
	if err != nil {
		return err
	}
	for _, b := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if err := copyBlob(ctx, s, blobName(b), b, into); err != nil {
			return err
		}
	}
	return into.Put(ctx, d, bytes.NewReader(manifest))
}

func copyBlob(ctx context.Context, s source, name string, d v1.Descriptor, into *layout.Layout) error {
	if into.Has(d) {
		return nil
	}
	r, _, err := s.open(name)
	if err != nil {
		return fault.Op("blob "+d.Digest.String(), fault.Wrap(fault.Invalid, "", err))
	}
	defer r.Close()
	return into.Put(ctx, d, r)
}

// maxSaved bounds the list of docker save.
const maxSaved = 1000

// saved is an image in manifest.json of docker save.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// parseSaved reads manifest.json of docker save, which must hold one image.
func parseSaved(b []byte) (saved, error) {
	var all []saved
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&all); err != nil {
		return saved{}, fault.New(fault.Invalid, "manifest.json is damaged: %w", err)
	}
	all = slices.CompactFunc(all, func(a, b saved) bool { // one image with two names
		return a.Config == b.Config && slices.Equal(a.Layers, b.Layers)
	})
	switch {
	case len(all) > 1:
		return saved{}, fault.WithFix(fault.New(fault.Invalid, "the archive holds %d images", len(all)),
			"save only one: docker save NAME:TAG")
	case len(all) == 0 || all[0].Config == "":
		return saved{}, fault.New(fault.Invalid, "the archive holds no image")
	case len(all[0].Layers) > maxSaved:
		return saved{}, fault.New(fault.Invalid, "the image has %d layers; the limit is %d", len(all[0].Layers),
			maxSaved)
	}
	return all[0], nil
}

// listOf reads the list of docker save.
func listOf(s source) (saved, error) {
	b, err := document(s, "manifest.json")
	if err != nil {
		return saved{}, fault.WithFix(fault.Wrap(fault.Invalid, "manifest.json", err),
			"name what docker save or podman save wrote, or use oci-archive:")
	}
	return parseSaved(b)
}

// fromDocker imports what docker save wrote. Such an archive has no manifest; the new
// one depends on nothing but the configuration and the layers.
func fromDocker(ctx context.Context, s source, into *layout.Layout) (v1.Descriptor, error) {
	image, err := listOf(s)
	if err != nil {
		return v1.Descriptor{}, err
	}
	b, err := document(s, image.Config)
	if err != nil {
		return v1.Descriptor{}, fault.Op("configuration", err)
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	if m.Config, err = into.PutBytes(b, types.OCIConfigJSON); err != nil {
		return v1.Descriptor{}, err
	}
	for i, name := range image.Layers {
		d, err := measure(ctx, s, name)
		if err == nil {
			err = copyBlob(ctx, s, name, d, into)
		}
		if err != nil {
			return v1.Descriptor{}, fault.Op(fmt.Sprintf("layer %d of %d", i+1, len(image.Layers)), err)
		}
		m.Layers = append(m.Layers, d)
	}
	if b, err = json.Marshal(m); err != nil {
		return v1.Descriptor{}, err
	}
	return into.PutBytes(b, types.OCIManifestSchema1)
}

// measure returns the descriptor of a file.
func measure(ctx context.Context, s source, name string) (v1.Descriptor, error) {
	r, size, err := s.open(name)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer r.Close()
	h, buffer, kind := sha256.New(), make([]byte, 1<<20), types.OCIUncompressedLayer
	for n := int64(0); n < size; {
		if err := ctx.Err(); err != nil {
			return v1.Descriptor{}, err
		}
		m, err := r.Read(buffer)
		if n == 0 { // some builders compress each layer, although docker save does not
			kind = layerType(buffer[:m])
		}
		h.Write(buffer[:m])
		if n += int64(m); err != nil && n < size {
			return v1.Descriptor{}, fault.New(fault.Invalid, "the archive ends in the middle of %s", yamltree.Show(name))
		}
	}
	return v1.Descriptor{MediaType: kind, Size: size,
		Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}}, nil
}

// layerType is the type of a layer that begins with head.
func layerType(head []byte) types.MediaType {
	switch unpack.Compression(head) {
	case "gzip":
		return types.OCILayer
	case "zstd":
		return types.OCILayerZStd
	}
	return types.OCIUncompressedLayer
}
