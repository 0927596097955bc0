package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/provision/image/archive"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/registry"
	"bakeoff/provision/image/unpack"
)

// layoutDir is the folder in the store with the layers of images that bakeoff did not
// build.
const layoutDir = "oci"

// kernelRef is the image whose distribution provides the kernel of virtual machines for
// images that have none.
const kernelRef = "debian:bookworm"

// isBuilt tells whether bakeoff builds the image of req from packages.
func (req Request) isBuilt() bool {
	ref, err := reference.Parse(req.Ref)
	return err != nil || ref.Kind == reference.Packages
}

// Starts tells whether an image with this name says which program starts in it: one of
// a registry or an archive.
func Starts(ref string) bool {
	r, err := reference.Parse(ref)
	return err == nil && (r.Kind == reference.Registry || r.Kind == reference.Layout || r.Kind == reference.OCIArchive ||
		r.Kind == reference.DockerArchive || r.Kind == reference.Stored)
}

// forKernel is the request for the kernel of virtual machines.
func (req Request) forKernel() Request {
	if !req.isBuilt() {
		req.Ref = kernelRef
	}
	return req
}

// rootOf is the name of the folder with the root of an image that bakeoff did not build.
// digest is sha256:….
func rootOf(kind, digest string) string {
	return "root-" + kind + "-" + strings.TrimPrefix(digest, "sha256:")[:24]
}

// The kinds of rootOf.
const (
	kindImage = "oci"  // by the digest of its manifest
	kindTree  = "fs"   // by the digest of its archive
	kindDisk  = "disk" // by the digest of its file
)

// rootFolder returns the folder of a root in the store, if the store can say without a
// network which one it is: for an image, the one that its name had last. The folder may
// not exist.
func (s *Store) rootFolder(req Request) (dir string, ok bool) {
	ref, err := reference.Parse(req.Ref)
	switch {
	case err != nil:
		return "", false
	case ref.Kind == reference.Packages:
		return filepath.Join(s.Dir, req.key("root")), true
	case (ref.Kind == reference.Registry || ref.Kind == reference.Stored) && req.Digest != "":
		return filepath.Join(s.Dir, rootOf(kindImage, req.Digest)), name.ValidDigest(req.Digest)
	case ref.Kind == reference.Registry && exists(filepath.Join(s.Dir, rootDirOf(ref), description)):
		return filepath.Join(s.Dir, rootDirOf(ref)), true
	case ref.Kind != reference.Registry && ref.Kind != reference.Stored:
		return "", false
	}
	d, ok, err := s.Layout().Find(ref.String())
	if err != nil || !ok {
		return "", false
	}
	return filepath.Join(s.Dir, rootOf(kindImage, d.Digest.String())), true
}

// rootDirOf is the folder of a reference with the digest of a manifest.
func rootDirOf(ref reference.Reference) string {
	if ref.Digest == "" {
		return "none"
	}
	return rootOf(kindImage, ref.Digest)
}

// otherRoot returns the folder of an image that bakeoff did not build, and unpacks it if it
// is not in the store. The lock is held.
func (s *Store) otherRoot(ctx context.Context, req Request) (string, error) {
	ref, err := reference.Parse(req.Ref)
	if err != nil {
		return "", err
	}
	if len(req.Packages) > 0 {
		s.reportProgress("image %s: bakeoff installs no packages in it; the workloads need %s", req.Ref,
			strings.Join(req.Packages, ", "))
	}
	at := ref
	switch {
	case ref.Kind == reference.Rootfs:
		return s.unpackTree(ctx, ref)
	case ref.Kind == reference.Disk:
		if err := ForMachines(req.Ref, req.Disk); err != nil {
			return "", err
		}
		return s.diskFile(ctx, ref)
	case ref.Kind == reference.Registry && req.Digest != "":
		at = ref.Pinned(req.Digest)
	}
	if dir := filepath.Join(s.Dir, rootDirOf(at)); exists(filepath.Join(dir, description)) {
		return dir, nil // its digest says what it is
	}
	l, err := layout.Open(filepath.Join(s.Dir, layoutDir))
	if err != nil {
		return "", err
	}
	if ref.Kind == reference.Stored {
		at.Digest = req.Digest // whatever has the name now
	}
	d, err := s.fetchLayers(ctx, l, at, ref.String(), true, s.pullProgress(ref))
	if err != nil {
		return "", err
	}
	return s.unpackImage(ctx, ref, l, d)
}

// pullProgress reports how far a pull is, from time to time.
func (s *Store) pullProgress(ref reference.Reference) func(done, all int64) {
	next := time.Now()
	return func(done, all int64) {
		if now := time.Now(); now.After(next) || done == all {
			next = now.Add(pullReport)
			s.reportProgress("pulling %s: %.1f of %.1f MiB", ref, inMiB(done), inMiB(all))
		}
	}
}

// fetchLayers brings the layers of an image into the layout, under a name, and returns its
// manifest. With cached, it asks no registry for a digest that the layout has; and if ref
// has none and the registry does not answer, fetchLayers takes the image that the tag named last,
// and says so.
func (s *Store) fetchLayers(ctx context.Context, l *layout.Layout, ref reference.Reference, name string, cached bool,
	progress func(done, all int64)) (v1.Descriptor, error) {
	switch ref.Kind {
	case reference.Stored:
		return s.findStored(ref, ref.Digest)
	case reference.Registry:
	default:
		return archive.Import(ctx, ref, runtime.GOARCH, l)
	}
	c, err := s.client()
	if err != nil {
		return v1.Descriptor{}, err
	}
	var had v1.Descriptor
	complete := false
	if cached {
		if had, complete, err = findComplete(l, ref, name); err != nil || complete && ref.Digest != "" {
			return had, err
		}
	}
	c.Progress = progress
	d, err := c.PullAs(ctx, ref, name, l)
	if complete && ctx.Err() == nil && fault.Is(err, fault.Lab) {
		s.reportProgress("%v", err)
		s.reportProgress(fromCache, name, had.Digest)
		return had, nil
	}
	return d, err
}

// fromCache says that a tag could not be asked for.
const fromCache = "image %s: using %s from the cache, which the tag named when it was pulled"

// client pulls as the variables of the environment say.
func (s *Store) client() (*registry.Client, error) {
	settings, err := registry.SettingsOf(os.Getenv)
	return &registry.Client{Settings: settings, Arch: runtime.GOARCH, Say: s.Progress, Wait: s.wait}, err
}

// findComplete returns the manifest of a complete image of the layout: with a digest the one
// that has it, otherwise the one with the name.
func findComplete(l *layout.Layout, ref reference.Reference, name string) (d v1.Descriptor, complete bool, err error) {
	d, ok, err := l.Find(name)
	if err != nil || ref.Digest == "" || ok && (d.Digest.String() == ref.Digest || name == ref.String()) {
		return d, ok && hasAllBlobs(l, d), err
	}
	all, err := l.Images()
	for _, i := range all {
		if i.Manifest.Digest.String() == ref.Digest && hasAllBlobs(l, i.Manifest) {
			return i.Manifest, true, nil
		}
	}
	return v1.Descriptor{}, false, err
}

// pullReport is how often a pull is reported.
const pullReport = 3 * time.Second

func inMiB(n int64) float64 { return float64(n) / (1 << 20) }

// hasAllBlobs tells whether a layout has all blobs of an image.
func hasAllBlobs(l *layout.Layout, d v1.Descriptor) bool {
	blobs, err := l.Blobs(layout.Image{Manifest: d})
	for _, b := range blobs {
		if !l.Has(b) {
			return false
		}
	}
	return err == nil
}

// unpackImage unpacks an image of the layout, if it was not, and returns its folder.
func (s *Store) unpackImage(ctx context.Context, ref reference.Reference, l *layout.Layout,
	d v1.Descriptor) (string, error) {
	if dir := filepath.Join(s.Dir, rootOf(kindImage, d.Digest.String())); exists(filepath.Join(dir, description)) {
		return dir, nil
	}
	m, text, err := l.Config(d)
	if err != nil {
		return "", err
	}
	config, ids, err := layout.ParseConfig(text, runtime.GOARCH, len(m.Layers))
	if err != nil {
		return "", err
	}
	return s.unpackLayers(ctx, kindImage, blobLayers(l, m.Layers, ids),
		Root{Ref: ref.String(), Digest: d.Digest.String(), Config: &config})
}

// unpackLayers unpacks layers into the root of an image, describes it and returns its folder.
// Without a digest, the image has that of its one layer, which is computed in the same
// pass.
func (s *Store) unpackLayers(ctx context.Context, kind string, layers []unpack.Layer,
	img Root) (dir string, err error) {
	s.reportProgress("unpacking %s (once)", img.Ref)
	tmp, err := s.partial("root-" + kind)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := closeToUsers(tmp); err != nil {
		return "", err
	}
	if img.Digest == "" {
		layers[0].Found = func(digest string) { img.Digest = digest }
	}
	root := filepath.Join(tmp, rootDir)
	if err := unpack.Unpack(ctx, root, layers, unpack.Options{}); err != nil {
		return "", err
	}
	dir = filepath.Join(s.Dir, rootOf(kind, img.Digest))
	return dir, s.completeRoot(tmp, dir, img)
}

// completeRoot describes an unpacked image in the folder tmp and gives the folder its name.
func (s *Store) completeRoot(tmp, dir string, img Root) (err error) {
	root := filepath.Join(tmp, rootDir)
	if img.Config != nil && img.Config.WorkingDir != "" {
		if err := makeFolder(root, img.Config.WorkingDir); err != nil {
			return err
		}
	}
	img.Schema, img.Arch, img.Built = Schema, runtime.GOARCH, time.Now().UTC().Truncate(time.Second)
	if img.Packages, err = installed(root); err != nil {
		return err
	}
	if img.Config == nil {
		if err := misnamed(root, img.Ref); err != nil {
			return err
		}
	}
	if err := unpack.Sync(root); err != nil {
		return err
	}
	return finishFolder(tmp, dir, img)
}

// makeFolder creates the folder in which an image wants its programs to start, as OCI
// runtimes do. If a file or a link is in its way, it is left out, and the programs fail
// with the reason.
func makeFolder(dir, folder string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	_ = root.MkdirAll(strings.TrimPrefix(path.Clean(folder), "/"), 0o755)
	return root.Close()
}

// unpackTree returns the folder of a root file system that a file or a folder holds.
func (s *Store) unpackTree(ctx context.Context, ref reference.Reference) (string, error) {
	info, err := os.Stat(ref.Path)
	if err != nil {
		return "", fault.WithFix(fault.Wrap(fault.Invalid, "image "+ref.Text, err), "name a folder or a tar file")
	}
	l := unpack.Layer{Name: ref.Path, Size: info.Size(), Plain: true,
		Open: func() (io.ReadCloser, error) { return os.Open(ref.Path) }}
	switch {
	case info.IsDir():
		l.Size, l.Open = -1, func() (io.ReadCloser, error) { return unpack.Folder(ref.Path), nil }
	case !info.Mode().IsRegular():
		return "", fault.WithFix(fault.New(fault.Invalid, "image %s is neither a file nor a folder", ref.Text),
			"name a folder or a tar file")
	}
	if s.maybeStored(l.Size) {
		if l.Digest, err = digestOf(ctx, l); err != nil {
			return "", err
		}
		dir := filepath.Join(s.Dir, rootOf(kindTree, l.Digest))
		if exists(filepath.Join(dir, description)) {
			return dir, misnamed(filepath.Join(dir, rootDir), ref.Text) // of a release that did not look
		}
	}
	return s.unpackLayers(ctx, kindTree, []unpack.Layer{l}, Root{Ref: ref.Text, Archive: l.Size})
}

// maybeStored tells whether the store may have the root of an archive of this size. If
// not, the archive has a digest that no root has, and reading it once is enough.
func (s *Store) maybeStored(size int64) bool {
	files, err := filepath.Glob(filepath.Join(s.Dir, "root-"+kindTree+"-*", description))
	if err != nil {
		return true
	}
	return slices.ContainsFunc(files, func(file string) bool {
		img, err := readDescription(file)
		return err != nil || img.Archive == 0 || img.Archive == size
	})
}

// digestOf is the sha256 of a layer.
func digestOf(ctx context.Context, l unpack.Layer) (string, error) {
	r, err := l.Open()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	buffer := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := r.Read(buffer)
		h.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			return "sha256:" + hex.EncodeToString(h.Sum(nil)), r.Close()
		}
		if err != nil {
			return "", errors.Join(fault.Op(l.Name, err), r.Close())
		}
	}
	return "", errors.Join(ctx.Err(), r.Close())
}
