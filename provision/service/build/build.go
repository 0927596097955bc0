// Package build makes images from the definition of a service: an OCI image, a RAM disk
// and a disk with a GPT. Equal input gives equal bytes: what is built has fixed times,
// owners and identifiers, sorted names, and nothing that package managers note of the
// time or the machine.
package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/yamltree"
	"bakeoff/provision/files"
	"bakeoff/provision/image"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/unpack"
	"bakeoff/provision/service"
	"bakeoff/reach/initramfs"
)

// recipe changes whenever a change of this package changes what is built.
const recipe = 2

// epoch is the modification time of all that is built.
var epoch = files.Time

// Options say how to build.
type Options struct {
	Dir   string // the folder of the definition
	Agent string // bakeoff-agent for this architecture: the init process of a guest
	// Materials are the folders that service.Material names: the content of files by path.
	Materials map[string]map[string][]byte
	// Only is the one product to build: Image, RAM or Disk; "" builds all. The image is
	// always built, because the store knows what was built by it.
	Only string
	// Fresh builds also what the store has already.
	Fresh bool
	Say   func(string) // a line for a person; nil discards
}

// The products of a build.
const (
	Image = "image"
	RAM   = "ram"
	Disk  = "disk"
)

// Products are the values of Options.Only.
var Products = []string{Image, RAM, Disk}

// guest tells whether a build makes RAM disks, which need a kernel and the agent.
func (o Options) guest() bool { return o.Only == "" || o.Only == RAM }

// Result is what was built. The paths are files in the store.
type Result struct {
	Name string `json:"name"`
	// Image is the name of the OCI image in the store, Digest that of its manifest.
	Image  string `json:"image"`
	Digest string `json:"digest"`
	Built  bool   `json:"built"` // false: the store had it
	// RAM is a RAM disk with the whole service, Disk a disk whose root has the attribute
	// BOOTME, Boot a RAM disk that boots it, and Kernel the kernel for which they have
	// modules. A build of one product has no others.
	RAM    File `json:"ram,omitzero"`
	Disk   File `json:"disk,omitzero"`
	Boot   File `json:"boot,omitzero"`
	Kernel File `json:"kernel,omitzero"`
}

// File is a file that was built.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size_bytes"`
	Digest string `json:"digest"` // sha256:…
}

// The files in the folder of the store.
const (
	fileRAM    = "ram.cpio.zst"
	fileBoot   = "boot.cpio.zst"
	fileDisk   = "disk.raw"
	fileLayer  = "layer.tar.gz"
	fileResult = "service.json"
	rootDir    = "root"
)

// builder is one build.
type builder struct {
	Options
	store *image.Store
	def   *service.Definition

	base, kernel image.Root
	sources      map[int]string // digest of what each step copies from the folder
	key          string         // sha256 of all that decides on the result, in hexadecimal
	seed         string         // that of the definition alone, for identifiers
	work         *image.Work
	root         string
}

// Build builds a service, or returns what the store has. It needs root, and for packages
// what image.Store needs; for steps that run programs it needs bwrap.
func Build(ctx context.Context, store *image.Store, def *service.Definition, o Options) (Result, error) {
	if os.Getuid() != 0 {
		return Result{}, fault.WithFix(fault.New(fault.Unsupported, "the files of an image belong to several "+
			"users, and only root can create such files"), "run bakeoff as root")
	}
	b := &builder{Options: o, store: store, def: def}
	r, err := b.build(ctx)
	return r, fault.Op("service "+def.Name, err)
}

func (b *builder) say(format string, args ...any) {
	if b.Say != nil {
		b.Say(b.def.Name + ": " + fmt.Sprintf(format, args...))
	}
}

func (b *builder) build(ctx context.Context) (r Result, err error) {
	if b.guest() { // before minutes of work
		if err := initramfs.CheckInit(b.Agent); err != nil {
			return r, err
		}
	}
	if err := b.obtain(ctx); err != nil {
		return r, err
	}
	if err := b.identify(ctx); err != nil {
		return r, err
	}
	key := b.def.Name + "-" + b.key[:12]
	if !b.Fresh {
		dir, _, ok, err := b.store.Work(ctx, key)
		if err != nil {
			return r, err
		}
		if ok {
			return read(dir)
		}
	}
	if b.work, err = b.store.Begin(ctx, key); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.work.Abandon()) }()
	b.root = filepath.Join(b.work.Dir, rootDir)
	if err := b.fill(ctx); err != nil {
		return r, err
	}
	return b.output(ctx)
}

// obtain gets base and kernel.
func (b *builder) obtain(ctx context.Context) (err error) {
	if b.guest() {
		if b.kernel, err = b.store.Kernel(ctx); err != nil {
			return err
		}
	}
	if b.def.Base == service.Scratch {
		return nil
	}
	ref, unpacked := strings.CutPrefix(b.def.Base, service.Unpacked)
	at, err := reference.Parse(ref)
	if err != nil {
		return err
	}
	switch at.Kind { // a path is relative to the folder of the definition
	case reference.Layout, reference.OCIArchive, reference.DockerArchive, reference.Rootfs:
		if !filepath.IsAbs(at.Path) {
			ref = string(at.Kind) + ":" + filepath.Join(b.Dir, at.Path)
			if at.Tag != "" {
				ref += ":" + at.Tag
			}
		}
	}
	b.base, err = b.store.Get(ctx, image.Request{Ref: ref, Packages: b.def.Packages, Unpacked: unpacked})
	if err == nil && b.base.Config != nil {
		b.inherit(*b.base.Config)
	}
	return err
}

// inherit takes what the base says about its program where the definition says nothing.
func (b *builder) inherit(c layout.Config) {
	d := *b.def
	if d.Entrypoint == nil && d.Cmd == nil {
		d.Entrypoint, d.Cmd = c.Entrypoint, c.Cmd
	} else if d.Entrypoint == nil {
		d.Entrypoint = c.Entrypoint
	}
	env := slices.Clone(c.Env)
	for _, e := range d.Env {
		name, _, _ := strings.Cut(e, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
	}
	d.Env = append(env, d.Env...)
	d.Steps = slices.Clone(d.Steps)
	for i, s := range d.Steps {
		if s.Run != nil {
			run := *s.Run
			run.Env = append(slices.Clone(c.Env), run.Env...)
			d.Steps[i].Run = &run
		}
	}
	d.User = cmp.Or(d.User, c.User)
	d.Dir = cmp.Or(d.Dir, c.WorkingDir)
	b.def = &d
}

// identify computes the key.
func (b *builder) identify(ctx context.Context) error {
	sum := sha256.New()
	def, err := json.Marshal(b.def)
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%d %s\n%s\nbase %s\n", recipe, runtime.GOARCH, def, b.base.Digest)
	if b.Only != "" {
		fmt.Fprintf(sum, "only %s\n", b.Only)
	}
	if b.guest() {
		agent, err := files.Measure(ctx, files.Source{Path: b.Agent}, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "kernel %s %s\nagent %s\n", b.kernel.KernelVersion, b.kernel.KernelDigest, agent.Digest)
	}
	b.sources = map[int]string{}
	for i, s := range b.def.Steps {
		switch {
		case s.Copy == nil || s.Copy.From == "":
		case strings.HasPrefix(s.Copy.From, service.Material):
			material, err := b.material(s.Copy.From)
			if err != nil {
				return fault.Op(s.Where, err)
			}
			for _, name := range slices.Sorted(maps.Keys(material)) {
				fmt.Fprintf(sum, "file %d %q %x\n", i, name, sha256.Sum256(material[name]))
			}
		default:
			facts, err := files.Measure(ctx, b.source(s.Copy), b.Say)
			if err != nil {
				return fault.Op(s.Where, err)
			}
			b.sources[i] = facts.Digest
			fmt.Fprintf(sum, "file %d %s\n", i, facts.Digest)
		}
	}
	b.key, b.seed = hex.EncodeToString(sum.Sum(nil)), hexsum.Of(def)
	return nil
}

// source is what a step copies from the folder of the definition.
func (b *builder) source(c *service.Copy) files.Source {
	return files.Source{Path: filepath.Join(b.Dir, c.From), Name: c.From}
}

func (b *builder) material(from string) (map[string][]byte, error) {
	material, ok := b.Materials[strings.TrimPrefix(from, service.Material)]
	if !ok {
		known := slices.Sorted(maps.Keys(b.Materials))
		return nil, fault.WithFix(fault.New(fault.Invalid, "bakeoff does not have the file %q", from), yamltree.Meant(
			strings.TrimPrefix(from, service.Material), known))
	}
	return material, nil
}

// fill makes the root.
func (b *builder) fill(ctx context.Context) error {
	if b.base.Dir == "" {
		if err := os.Mkdir(b.root, 0o755); err != nil {
			return err
		}
	} else {
		b.say("copying the base %s", b.def.Base)
		err := unpack.Unpack(ctx, b.root, []unpack.Layer{{Name: b.def.Base, Size: -1, Plain: true,
			Open: func() (io.ReadCloser, error) { return unpack.Folder(b.base.Dir), nil }}}, unpack.Options{})
		if err != nil {
			return err
		}
	}
	if err := b.users(); err != nil {
		return err
	}
	for i, s := range b.def.Steps {
		b.say("step %d of %d: %s", i+1, len(b.def.Steps), firstLine(s.Text))
		if err := b.step(ctx, i, s); err != nil {
			return fault.Op(s.Where, err)
		}
	}
	return b.clean(ctx)
}

// output makes the files from the root at the same time.
func (b *builder) output(ctx context.Context) (Result, error) {
	b.say("packing")
	r := Result{Name: b.def.Name, Image: "store:" + b.def.Name + ":latest", Built: true}
	at := func(name string) string { return filepath.Join(b.work.Dir, name) }
	products := []struct {
		only string // the value of Only that makes it; "" is none but that of all
		path string
		to   *File
		make func() error
	}{
		{RAM, fileRAM, &r.RAM, func() error { return b.ramDisk(at(fileRAM), true) }},
		{"", fileBoot, &r.Boot, func() error { return b.ramDisk(at(fileBoot), false) }},
		{Disk, fileDisk, &r.Disk, func() error { return b.disk(ctx, at(fileDisk)) }},
	}
	var wg sync.WaitGroup
	errs := make([]error, len(products)+1)
	var blob layer
	wg.Go(func() { blob, errs[len(products)] = b.pack(ctx, at(fileLayer)) })
	for i, p := range products {
		if b.Only == "" || b.Only == p.only {
			wg.Go(func() {
				if errs[i] = p.make(); errs[i] == nil {
					errs[i] = p.to.measure(ctx, at(p.path))
				}
				p.to.Path = p.path
			})
		}
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil && b.guest() {
		err = r.Kernel.measure(ctx, b.kernel.Kernel)
	}
	if err != nil {
		return Result{}, err
	}
	return b.finish(ctx, r, blob)
}

// measure reads a file.
func (f *File) measure(ctx context.Context, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	sum := newHashed(io.Discard)
	buffer := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := from.Read(buffer)
		if _, werr := sum.Write(buffer[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			*f = File{Path: path, Size: sum.n, Digest: sum.digest().String()}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// finish gives the work to the store.
func (b *builder) finish(ctx context.Context, r Result, blob layer) (Result, error) {
	img := image.Root{Ref: r.Image, Packages: b.base.Packages, Arch: runtime.GOARCH}
	put, err := b.image(blob)
	if err != nil {
		return r, err
	}
	r.Digest = put.manifest.Digest.String()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return r, err
	}
	err = errors.Join(os.WriteFile(filepath.Join(b.work.Dir, fileResult), append(text, '\n'), 0o600),
		os.RemoveAll(b.root))
	if err != nil {
		return r, err
	}
	dir, err := b.work.Finish(ctx, img, put.into(ctx))
	if err != nil {
		return r, err
	}
	built, err := read(dir)
	built.Built = true
	return built, err
}

// read reads the result in a folder of the store.
func read(dir string) (r Result, err error) {
	b, err := os.ReadFile(filepath.Join(dir, fileResult))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fault.WithFix(fault.Wrap(fault.Lab, dir, err), "build it again with --fresh")
	}
	r.Built = false
	for _, f := range []*File{&r.RAM, &r.Boot, &r.Disk} {
		if f.Path != "" {
			f.Path = filepath.Join(dir, f.Path)
		}
	}
	return r, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
