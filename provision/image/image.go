// Package image provides the images of environments, in a cache, addressed by the
// digest of their content. It builds root file systems and kernels from a
// distribution's own packages, and unpacks images of registries, layouts and archives.
//
// A Store works on directories of this machine and executes the builder through
// conn.Conn. Cached images are complete: a build uses a directory with another
// name and renames it at the end, so a killed build leaves only a partial
// directory, which Sweep removes.
package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/lazy"
	"bakeoff/base/lock"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/reach/conn"
)

// Schema is the schema of the description of every image.
const Schema = "bakeoff/image/v1"

// recipe changes whenever a change of the build changes its result, so that
// older images are not used.
const recipe = 1

// Request describes the image to get.
type Request struct {
	// Ref is DISTRIBUTION:SUITE (debian:bookworm, ubuntu:noble), which bakeoff builds
	// from packages, or another reference of package reference.
	Ref string
	// Digest is sha256:… of the manifest that a tag of a registry stands for; "" asks the
	// registry.
	Digest string
	// Packages are installed in addition to the distribution's minimal base. In an
	// image that bakeoff does not build, nothing is installed.
	Packages []string
	// Unpacked leaves out everything but the packages and what they depend on. They are
	// unpacked and not installed.
	Unpacked bool
	// Disk adds the root as an ext4 image, Kernel a kernel with its modules
	// from the same distribution.
	Disk, Kernel bool
	// KernelPackage is the kernel package to use instead of the distribution's
	// kernel for virtual machines; "" uses that one.
	KernelPackage string
	// Files are placed in the root. They were packed: see Pack.
	Files []Placed
}

// Root is an unpacked image in the cache, which is never written to. The modification
// time of its description is the time of its last use.
type Root struct {
	Schema string `json:"schema"`
	Ref    string `json:"ref"`
	// Digest is sha256:… over every path, mode and content of Root; of an image of a
	// registry it is that of its manifest, of a root file system that of its archive.
	Digest string `json:"digest"`
	// Packages maps the name of every installed package to its version; nil if the
	// image has no package manager that bakeoff can read.
	Packages map[string]string `json:"packages"`
	// Config is what an image of a registry or an archive says about the programs that
	// start in it; nil for any other image.
	Config *layout.Config `json:"config,omitempty"`
	Arch   string         `json:"arch"`
	Built  time.Time      `json:"built"`
	// Archive is the size in bytes of the file of rootfs:, -1 of a folder; absent if it is
	// another image or an earlier program made it.
	Archive int64 `json:"archive_bytes,omitempty"`
	// Recipe is the way in which it was built; absent means 1.
	Recipe int `json:"recipe,omitempty"`

	Dir  string `json:"-"` // the root; "" of a disk
	Disk string `json:"-"` // ext4 image, "" when not asked for
	// Kernel is the kernel image, Modules the directory with
	// lib/modules/VERSION; "" if not requested.
	Kernel  string `json:"-"`
	Modules string `json:"-"`
	// KernelVersion and KernelDigest describe Kernel.
	KernelVersion string `json:"-"`
	KernelDigest  string `json:"-"`
}

// DirIn is the folder of the images in a cache folder.
func DirIn(cache string) string { return filepath.Join(cache, "image") }

// Store is a cache of images in Dir.
type Store struct {
	Dir  string
	Host conn.Conn // this machine
	// Mirror is the base address of the package mirror; "" is the
	// distribution's own.
	Mirror   string
	Progress func(string) // a line for a person; nil discards
	// Count receives how many bytes of a download are there, at most ten times per second;
	// nil discards.
	Count func(what string, done, all int64)

	// wait waits between two requests to a registry that does not answer; nil waits for
	// the time.
	wait func(context.Context, time.Duration) error

	// refused has the errors of images that could not be built: see unlessRefused. The lock of Dir
	// guards it.
	refused map[string]error
}

var (
	packageName = lazy.Compile(`^[a-z0-9][a-z0-9+.-]{1,80}$`)
)

// Check checks that the names in req are well formed, without building and without a
// network. Errors are of kind fault.Invalid.
func (req Request) Check() error {
	if _, err := reference.Parse(req.Ref); err != nil {
		return err
	}
	for _, p := range append(req.Packages[:len(req.Packages):len(req.Packages)], req.kernelPackages()...) {
		if !packageName.MatchString(p) {
			return fault.New(fault.Invalid, "image %s: %q is not a package name", req.Ref, p)
		}
	}
	return nil
}

// kernelPackages is the requested kernel package, if any.
func (req Request) kernelPackages() []string {
	if req.KernelPackage == "" {
		return nil
	}
	return []string{req.KernelPackage}
}

// kernelKey is the name of the kernel's directory.
func (req Request) kernelKey() string {
	return Request{Ref: req.forKernel().Ref, Packages: req.kernelPackages()}.key("kernel")
}

// key is the name of an image's directory. It depends on the request, not on
// the result.
func (req Request) key(what string) string {
	p := slices.Clone(req.Packages)
	slices.Sort(p)
	if req.Unpacked {
		what += "-unpacked"
	}
	sum := hexsum.Of(fmt.Sprintf("%d %s %s %s %v", recipe, runtime.GOARCH, what, req.Ref, slices.Compact(p)))
	return what + "-" + strings.ReplaceAll(req.Ref, ":", "-") + "-" + sum[:12]
}

// Cached reports whether Get would return without building.
func (s *Store) Cached(req Request) bool {
	root, ok := s.rootFolder(req)
	ok = ok && exists(filepath.Join(root, description))
	if req.Disk {
		ok = ok && exists(filepath.Join(root, diskFile))
	}
	if req.Kernel {
		ok = ok && exists(filepath.Join(s.Dir, req.kernelKey(), description))
	}
	return ok
}

// Root is the path of the root for req; "" before it was built.
func (s *Store) Root(req Request) string {
	dir, ok := s.rootFolder(req)
	if !ok || !exists(filepath.Join(dir, description)) {
		return ""
	}
	return filepath.Join(dir, rootDir)
}

// ConfigOf returns the configuration of the image whose root Store.Root returned; nil if the image
// has none.
func ConfigOf(root string) *layout.Config {
	img, err := readDescription(filepath.Join(filepath.Dir(root), description))
	if err != nil {
		return nil
	}
	return img.Config
}

// The files next to an image.
const (
	description = "image.json"
	rootDir     = "root"
	diskFile    = "disk.ext4"
	partial     = ".partial"
	// lease is in a partial directory. Every process of its builder holds a lock on it.
	lease = "lease"
	// scratch is in a partial directory: the temporary files of its builder.
	scratch  = "tmp"
	lockFile = "lock"
)

// partial makes a directory of a unique name, in which dir is built.
func (s *Store) partial(dir string) (string, error) {
	tmp, err := os.MkdirTemp(s.Dir, filepath.Base(dir)+".*"+partial)
	if err != nil {
		return "", err
	}
	// apt reads the directories as a user of its own.
	return tmp, errors.Join(os.Chmod(tmp, 0o755), os.Mkdir(filepath.Join(tmp, scratch), 0o755),
		os.Chmod(filepath.Join(tmp, scratch), 0o1777))
}

// Get returns the image for req and builds what the cache lacks.
//
// It needs root, mmdebstrap on the host and, to build, the distribution's
// mirror. Errors: Invalid for a malformed request or a package that the
// distribution does not have, Unsupported for a missing tool, Lab for a failed
// build.
func (s *Store) Get(ctx context.Context, req Request) (Root, error) {
	if err := req.Check(); err != nil {
		return Root{}, err
	}
	held, err := s.lockStore(ctx)
	if err != nil {
		return Root{}, err
	}
	defer held.Release()
	var img Root
	err = s.unlessRefused(ctx, fmt.Sprintf("%+v", req), func() (err error) {
		img, err = s.obtainRoot(ctx, req)
		return err
	})
	return img, err
}

// unlessRefused calls do, or returns the error that the key had before: the next contender does not
// wait for the same error. The lock is held.
func (s *Store) unlessRefused(ctx context.Context, key string, do func() error) error {
	if err := s.refused[key]; err != nil {
		return err
	}
	err := do()
	if err != nil && ctx.Err() == nil {
		if s.refused == nil {
			s.refused = map[string]error{}
		}
		s.refused[key] = err
	}
	return err
}

// obtainRoot is Get with the lock held.
func (s *Store) obtainRoot(ctx context.Context, req Request) (Root, error) {
	dir, err := s.ensureRoot(ctx, req)
	if err != nil {
		return Root{}, err
	}
	img, err := noteUse(dir)
	if err == nil {
		err = closeToUsers(dir)
	}
	if err != nil {
		return Root{}, fault.Op("image "+req.Ref, err)
	}
	if img.Dir = filepath.Join(dir, rootDir); !exists(img.Dir) {
		img.Dir = "" // a disk
	}
	if len(req.Files) > 0 {
		if img.Dir == "" {
			return Root{}, fault.WithFix(fault.New(fault.Invalid, "%s is a disk image, and bakeoff cannot place "+
				"files in disk images", req.Ref), noFiles)
		}
		if img, dir, err = s.derivedRoot(req, img); err != nil {
			return Root{}, fault.Op("place files in "+req.Ref, err)
		}
	}
	if req.Disk {
		img.Disk = filepath.Join(dir, diskFile)
		if !exists(img.Disk) {
			if err := s.makeDisk(ctx, img, img.Disk); err != nil {
				return Root{}, fault.Op("image "+req.Ref, err)
			}
		}
	}
	if req.Kernel {
		if err := s.addKernel(ctx, req.forKernel(), &img); err != nil {
			return Root{}, fault.Op("kernel of "+req.forKernel().Ref, err)
		}
	}
	return img, nil
}

// ensureRoot returns the folder of the image for req, and builds or unpacks what is not there.
// After an error it does not try again.
func (s *Store) ensureRoot(ctx context.Context, req Request) (dir string, err error) {
	key := req.Ref + "@" + req.Digest
	if req.isBuilt() {
		dir = filepath.Join(s.Dir, req.key("root"))
		if exists(filepath.Join(dir, description)) {
			return dir, nil
		}
		key = dir
	}
	err = s.unlessRefused(ctx, key, func() (err error) {
		if req.isBuilt() {
			err = s.buildRoot(ctx, req, dir)
		} else {
			dir, err = s.otherRoot(ctx, req)
		}
		return fault.Op("image "+req.Ref, err)
	})
	return dir, err
}

// Sweep removes what killed builds left in the store, and returns its paths; with
// dryRun it only lists them. While a build is in progress nothing is left over.
func (s *Store) Sweep(ctx context.Context, dryRun bool) ([]string, error) {
	held, err := lock.Try(filepath.Join(s.Dir, lockFile))
	switch {
	case errors.Is(err, lock.ErrHeld), errors.Is(err, fs.ErrNotExist): // in use, or never used
		return nil, nil
	case err != nil && dryRun && errors.Is(err, fs.ErrPermission):
		return s.leftovers()
	case err != nil:
		return nil, fault.Op("image store", err)
	}
	defer held.Release()
	left, err := s.leftovers()
	if err == nil && !dryRun {
		for _, file := range left {
			err = errors.Join(err, s.sweepDownload(file))
		}
		err = errors.Join(err, s.sweepPartial(ctx))
	}
	return left, fault.Op("image store", err)
}

// leftovers are what is partial, and the downloads that did not end. The next build
// removes only the first: it continues a download.
func (s *Store) leftovers() ([]string, error) {
	left, err := s.listPartial()
	if err != nil {
		return left, err
	}
	downloads, err := s.Layout().Partials()
	return append(left, downloads...), err
}

// sweepDownload removes a file of the layout.
func (s *Store) sweepDownload(file string) error {
	if strings.HasPrefix(file, s.Layout().Dir+"/") {
		return remove(file)
	}
	return nil
}

// listPartial lists what is partial.
func (s *Store) listPartial() ([]string, error) {
	left, err := filepath.Glob(filepath.Join(s.Dir, "*"+partial))
	if err != nil {
		return nil, err
	}
	left = slices.DeleteFunc(left, isWorkedIn)
	disks, err := filepath.Glob(filepath.Join(s.Dir, "*", diskFile+partial))
	return append(left, disks...), err
}

// builderEnd bounds how long the builder of a killed process takes to end.
const builderEnd = 10 * time.Second

// sweepPartial removes what killed builds left. The store's lock is held. It waits for a
// builder to end: its controller was killed a moment ago.
func (s *Store) sweepPartial(ctx context.Context) error {
	left, err := s.listPartial()
	if err != nil {
		return err
	}
	for _, p := range left {
		if err := awaitBuilder(ctx, p); err != nil {
			return err
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}

// awaitBuilder returns when no process of a builder has the partial directory.
func awaitBuilder(ctx context.Context, dir string) error {
	file := filepath.Join(dir, lease)
	if !exists(file) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, builderEnd)
	defer cancel()
	held, err := lock.Wait(ctx, file)
	if err != nil {
		return fault.New(fault.Lab, "%s is in use by its builder: %w", dir, err)
	}
	held.Release()
	return nil
}

// buildRoot creates the root file system of req in dir.
func (s *Store) buildRoot(ctx context.Context, req Request, dir string) error {
	s.reportProgress("building %s with %s (once; about a minute)", req.Ref, orNothing(req.Packages))
	tmp, err := s.partial(dir)
	if err != nil {
		return err
	}
	root := filepath.Join(tmp, rootDir)
	args := []string{"--variant=minbase"}
	if req.Unpacked {
		args[0] = "--variant=extract"
	}
	if len(req.Packages) > 0 {
		args = append(args, "--include="+strings.Join(req.Packages, ","))
	}
	if err := s.mmdebstrap(ctx, req.Ref, root, args); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	img := Root{Schema: Schema, Ref: req.Ref, Arch: runtime.GOARCH, Built: time.Now().UTC().Truncate(time.Second)}
	if !req.Unpacked {
		if img.Packages, err = s.packages(ctx, root); err != nil {
			return err
		}
	}
	if img.Digest, err = hashTree(root); err != nil {
		return err
	}
	return finishFolder(tmp, dir, img)
}

// addKernel sets the kernel of img from the distribution's kernel package for
// virtual machines. It unpacks the package without installing it: no initial
// RAM disk is made and no hook runs.
func (s *Store) addKernel(ctx context.Context, req Request, img *Root) error {
	ref := req.Ref
	distro, _, _ := strings.Cut(ref, ":")
	pkg, ok := distributions[distro].kernel[runtime.GOARCH]
	if req.KernelPackage != "" {
		pkg, ok = req.KernelPackage, true
	}
	if !ok {
		return fault.New(fault.Unsupported, "no kernel for virtual machines is known for %s on %s", distro, runtime.GOARCH)
	}
	dir := filepath.Join(s.Dir, req.kernelKey())
	if !exists(filepath.Join(dir, description)) {
		s.reportProgress("fetching the kernel package %s of %s (once)", pkg, ref)
		tmp, err := s.partial(dir)
		if err != nil {
			return err
		}
		err = s.mmdebstrap(ctx, ref, filepath.Join(tmp, rootDir), []string{"--variant=extract", "--include=" + pkg})
		if err != nil {
			return errors.Join(err, os.RemoveAll(tmp))
		}
		vmlinuz, version, err := findKernel(filepath.Join(tmp, rootDir))
		if err != nil {
			return err
		}
		if err := keepOnly(filepath.Join(tmp, rootDir), vmlinuz, version); err != nil {
			return err
		}
		sum, err := hexsum.File(vmlinuz)
		if err != nil {
			return err
		}
		d := Root{Schema: Schema, Ref: ref, Arch: runtime.GOARCH, Built: time.Now().UTC().Truncate(time.Second),
			Digest: "sha256:" + sum, Packages: map[string]string{pkg: version}}
		if err := finishFolder(tmp, dir, d); err != nil {
			return err
		}
	}
	vmlinuz, version, err := findKernel(filepath.Join(dir, rootDir))
	if err != nil {
		return err
	}
	d, err := noteUse(dir)
	if err != nil {
		return err
	}
	img.Kernel, img.Modules = vmlinuz, filepath.Join(dir, rootDir)
	img.KernelVersion, img.KernelDigest = version, d.Digest
	return nil
}

// findKernel returns the one kernel image below root and its version.
func findKernel(root string) (vmlinuz, version string, err error) {
	found, err := filepath.Glob(filepath.Join(root, "boot", "vmlinu*-*"))
	if err != nil {
		return "", "", err
	}
	if len(found) != 1 {
		return "", "", fault.New(fault.Lab, "%d kernels in %s/boot instead of one", len(found), root)
	}
	_, version, _ = strings.Cut(filepath.Base(found[0]), "-")
	if !exists(filepath.Join(root, "lib", "modules", version)) {
		return "", "", fault.New(fault.Lab, "kernel %s has no modules in %s/lib/modules", version, root)
	}
	return found[0], version, nil
}

// keepOnly removes everything below root except the kernel and its modules.
func keepOnly(root, vmlinuz, version string) error {
	mods := filepath.Join(root, "lib", "modules", version)
	if l, err := os.Readlink(filepath.Join(root, "lib")); err == nil {
		// With a merged /usr lib is a link to usr/lib. Make it a directory.
		mods = filepath.Join(root, l, "modules", version)
	}
	keep := root + ".keep"
	for from, to := range map[string]string{mods: "lib/modules/" + version, vmlinuz: "boot/" + filepath.Base(vmlinuz)} {
		to = filepath.Join(keep, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	return os.Rename(keep, root)
}

// packages lists the packages installed in root.
func (s *Store) packages(ctx context.Context, root string) (map[string]string, error) {
	var out, errb bytes.Buffer
	exit, err := s.Host.Exec(ctx, conn.Cmd{
		Argv: []string{"dpkg-query", "--admindir=" + filepath.Join(root, "var/lib/dpkg"), "-W",
			"-f=${Package} ${Version}\n"},
		Stdout: &out, Stderr: &errb,
	})
	if err != nil {
		return nil, err
	}
	if !exit.OK() {
		return nil, fault.New(fault.Lab, "dpkg-query: %v: %s", exit, lastBytes(errb.Bytes(), 300))
	}
	pkgs := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			pkgs[name] = version
		}
	}
	if len(pkgs) == 0 {
		return nil, fault.New(fault.Lab, "dpkg-query listed no package in %s", root)
	}
	return pkgs, nil
}

func (s *Store) reportProgress(format string, args ...any) {
	if s.Progress != nil {
		s.Progress(fmt.Sprintf(format, args...))
	}
}

// finishFolder writes the description and renames the directory.
func finishFolder(tmp, dir string, img Root) error {
	if err := errors.Join(os.RemoveAll(filepath.Join(tmp, scratch)), remove(filepath.Join(tmp, lease))); err != nil {
		return err
	}
	img.Recipe = recipe
	b, err := json.MarshalIndent(img, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, description), append(b, '\n'), 0o644); err != nil {
		return err
	}
	return atomicfile.Rename(tmp, dir)
}

// closeToUsers keeps other users than root out of the folder of an image: the image may have
// programs that give their user the rights of root.
func closeToUsers(dir string) error { return os.Chmod(dir, 0o700) }

// noteUse reads the description of the image in dir and notes its use.
func noteUse(dir string) (Root, error) {
	file, now := filepath.Join(dir, description), time.Now()
	img, err := readDescription(file)
	if err == nil {
		err = os.Chtimes(file, now, now)
	}
	return img, err
}

// readDescription reads the description of an image.
func readDescription(file string) (img Root, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return img, err
	}
	if err := json.Unmarshal(b, &img); err != nil {
		return img, fmt.Errorf("%s: %w; to rebuild the image, remove its directory", file, err)
	}
	return img, nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func orNothing(p []string) string {
	if len(p) == 0 {
		return "no additional packages"
	}
	return strings.Join(p, ", ")
}
