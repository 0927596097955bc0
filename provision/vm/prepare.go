package vm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/unit"
	"bakeoff/provision/disk"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/unpack"
	"bakeoff/provision/service"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
)

// Source is what a guest is made from, as a person names it.
type Source struct {
	// What is a folder of a service, disk:FILE, the file of a kernel or of an ISO image, or
	// the name of an image.
	What  string
	Brand manifest.Brand // "" is that of the source
	// Driver runs a container; "" is the usual one.
	Driver string
	// InMemory puts the root of a machine into a RAM disk: nothing of it is kept.
	InMemory bool
	Command  []string // instead of that of the image
	Env      []string
	Kernel   string // of a disk: FILE; "" is its own boot loader
	Append   string
	// DiskSize is the size to which the disk of the machine grows; 0 is that of the image. The ISO image of
	// an installer gets an empty disk of this size.
	DiskSize unit.Bytes
}

// Prepared is what Prepare found.
type Prepared struct {
	Boot
	Brand manifest.Brand
	Name  string // for an alias
	// Fill makes the disks of the guest in its folder.
	Fill func(ctx context.Context, dir string) error `json:"-"`
}

// Prepare builds or fetches what a guest starts from. o are the options of a build.
func (s *Store) Prepare(ctx context.Context, images *image.Store, from Source, o build.Options) (Prepared, error) {
	if from.Brand == "" && s.freebsd() {
		from.Brand = brandOfRoot(from.What)
	}
	if err := s.checkDriver(ctx, from.Brand, from.Driver); err != nil { // before anything is built or fetched
		return Prepared{}, err
	}
	if file, ok := strings.CutPrefix(from.What, string(reference.Disk)+":"); ok {
		return s.prepareDisk(ctx, from, file)
	}
	if jailed(manifest.Guest{Brand: from.Brand, Driver: from.Driver}) && from.Brand != "" {
		if p, ok, err := s.prepareJail(from); ok || err != nil {
			return p, err
		}
	}
	info, err := os.Stat(from.What)
	switch {
	case err == nil && info.IsDir():
		def, err := service.Load(from.What, nil)
		if err != nil {
			return Prepared{}, err
		}
		o.Dir = from.What
		return s.prepareService(ctx, images, from, def, o)
	case err == nil:
		p, err := s.prepareFile(ctx, from)
		if err != nil && isDisk(from.What) {
			return s.prepareDisk(ctx, from, from.What)
		}
		return p, err
	}
	if _, err := reference.Parse(from.What); err != nil {
		return Prepared{}, fault.Op("there is no file or folder with this name", err)
	}
	p, err := s.prepareImage(ctx, images, from, o)
	if errors.Is(err, layout.ErrNoLayer) {
		return s.prepareArtifact(ctx, images, from)
	}
	return p, err
}

// isDisk tells a disk with a boot loader of a BIOS or a protective MBR, and one of the format
// qcow2, by its first bytes. Kernels of Linux begin alike.
func isDisk(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 512)
	if _, err := io.ReadFull(f, head); err != nil {
		return false
	}
	return bytes.HasPrefix(head, []byte("QFI\xfb")) || bytes.HasSuffix(head, []byte{0x55, 0xaa})
}

func (s *Store) prepareImage(ctx context.Context, images *image.Store, from Source, o build.Options) (Prepared, error) {
	if from.Driver == manifest.DriverBhyve {
		return s.prepareArtifact(ctx, images, from)
	}
	if from.Brand.Machine() {
		def := &service.Definition{Name: serviceName(from.What), Base: from.What}
		return s.prepareService(ctx, images, from, def, o)
	}
	return s.prepareContainer(ctx, images, from, from.What)
}

// prepareArtifact takes a disk that a registry keeps as an artifact.
func (s *Store) prepareArtifact(ctx context.Context, images *image.Store, from Source) (p Prepared, err error) {
	if p, err = s.prepareLoader(ctx, &from); err != nil {
		return p, err
	}
	file, err := images.Artifact(ctx, from.What)
	if err != nil {
		return p, err
	}
	p.Name, _, _ = strings.Cut(path.Base(from.What), ":")
	p.Name, _, _ = strings.Cut(p.Name, "@")
	s.ownDisk(&p, from, from.Kernel == "", func(ctx context.Context, to string) error {
		return s.importDisk(ctx, file, formatOf(from.Driver), to)
	})
	return p, nil
}

// maxDisk bounds the disk in an artifact, in bytes.
const maxDisk = 4 << 40

// importDisk makes a disk of a format, raw or qcow2, of a file in one of them, which may be
// compressed.
func (s *Store) importDisk(ctx context.Context, file, wanted, to string) (err error) {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	from, release, err := unpack.Decompress(in)
	if err != nil {
		return err
	}
	defer release()
	plain := to + ".part"
	out, err := os.OpenFile(plain, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(plain)) }()
	n, err := io.Copy(out, io.LimitReader(from, maxDisk))
	if err = errors.Join(err, out.Close(), ctx.Err()); err != nil {
		return err
	}
	if n == maxDisk {
		return fault.New(fault.Invalid, "the disk has more than %d bytes", int64(maxDisk))
	}
	format, err := qemu.DiskFormat(ctx, s.Host, nil, plain)
	if err != nil {
		return err
	}
	if wanted == "raw" {
		return disk.Copy(ctx, s.Host, plain, format, to)
	}
	return disk.Import(ctx, s.Host, plain, format, to)
}

var notInName = lazy.Compile(`[^a-z0-9]+`)

// serviceName is the name of the service that an image becomes.
func serviceName(ref string) string {
	return "guest-" + strings.Trim(notInName.ReplaceAllString(strings.ToLower(ref), "-"), "-")
}

func (s *Store) prepareService(ctx context.Context, images *image.Store, from Source, def *service.Definition,
	o build.Options) (Prepared, error) {
	if from.Brand == "" {
		from.Brand = manifest.MicroVM
	}
	if !from.Brand.Machine() {
		o.Only = build.Image
		r, err := build.Build(ctx, images, def, o)
		if err != nil {
			return Prepared{}, err
		}
		return s.prepareContainer(ctx, images, from, r.Image)
	}
	if from.Driver == manifest.DriverBhyve {
		return Prepared{}, errBhyveKernel
	}
	if len(from.Command) > 0 || len(from.Env) > 0 {
		return Prepared{}, fault.WithFix(fault.New(fault.Unsupported,
			"a machine has the command and the environment of its image: -e and COMMAND work for containers only"),
			"write them into service.yaml (run, environment), or add --brand docker")
	}
	r, err := build.Build(ctx, images, def, o)
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{Brand: from.Brand, Name: def.Name,
		Boot: Boot{Machine: KindOf(from.Brand), Kernel: r.Kernel.Path, Initrd: r.RAM.Path, Append: from.Append,
			Agent: true}}
	if from.InMemory {
		return p, nil
	}
	p.Initrd = r.Boot.Path
	s.overlay(&p, from, r.Disk.Path, "raw", false)
	return p, nil
}

// overlay gives the guest a disk of its own over another one.
func (s *Store) overlay(p *Prepared, from Source, base, format string, boots bool) {
	s.ownDisk(p, from, boots, func(ctx context.Context, to string) error {
		return s.makeDisk(ctx, base, format, from.Driver, to)
	})
}

// ownDisk gives the guest a disk, which make makes.
func (s *Store) ownDisk(p *Prepared, from Source, boots bool, make func(ctx context.Context, to string) error) {
	p.Disks = []qemu.Disk{{Serial: qemu.RootSerial, Path: diskFile("disk0", from.Driver), Format: formatOf(from.Driver),
		Controller: qemu.VirtioBlk, Cache: "writeback", AIO: "threads", Boots: boots}}
	x := p.Disks[0]
	p.Fill = fillAll([]fill{func(ctx context.Context, dir string) error { return make(ctx, filepath.Join(dir, x.Path)) },
		s.grow("the size of the disk", x, int(from.DiskSize/unit.MiB))})
}

// KindOf is QEMU's machine for a brand.
func KindOf(b manifest.Brand) string {
	if b == manifest.MicroVM {
		return qemu.MicroVM
	}
	return qemu.Q35
}

func (s *Store) prepareContainer(ctx context.Context, images *image.Store, from Source, ref string) (Prepared, error) {
	if os.Getuid() != 0 { // say so before the image is fetched
		return Prepared{}, errNotRoot
	}
	img, err := images.Get(ctx, image.Request{Ref: ref})
	if err == nil && from.Brand == "" { // only now is it known that it is not the disk of a machine
		from.Brand = manifest.Docker
		err = s.checkDriver(ctx, from.Brand, from.Driver)
	}
	if err != nil {
		return Prepared{}, err
	}
	var c layout.Config
	if img.Config != nil {
		c = *img.Config
	}
	start := driver.Start{Env: append(slices.Clone(c.Env), from.Env...), User: c.User, Dir: c.WorkingDir,
		Argv: slices.Concat(c.Entrypoint, c.Cmd)}
	if len(from.Command) > 0 {
		start.Argv = slices.Concat(c.Entrypoint, from.Command)
	}
	if user, _, _ := strings.Cut(start.User, ":"); user == "root" || user == "0" {
		start.User = ""
	}
	name := strings.TrimPrefix(ref, string(reference.Stored)+":")
	name, _, _ = strings.Cut(filepath.Base(name), ":")
	return Prepared{Brand: from.Brand, Name: name, Boot: Boot{Container: &Container{Root: img.Dir, Start: start}}}, nil
}

// prepareDisk takes the disk of a machine, with its own boot loader or with a kernel.
func (s *Store) prepareDisk(ctx context.Context, from Source, file string) (p Prepared, err error) {
	if p, err = s.prepareLoader(ctx, &from); err != nil {
		return p, err
	}
	if file == "" {
		return p, fault.WithFix(fault.New(fault.Invalid, "%s names no file", from.What), "write disk:FILE")
	}
	if file, err = filepath.Abs(file); err != nil {
		return p, err
	}
	format, err := s.diskFormat(ctx, file)
	if err != nil {
		return p, err
	}
	p.Name = baseName(file)
	s.overlay(&p, from, file, format, from.Kernel == "")
	return p, nil
}

// diskFormat is the format of the disk in a file or device of this machine.
func (s *Store) diskFormat(ctx context.Context, file string) (string, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return "", fault.New(fault.Invalid, "%s is a folder, not the file of a disk", file)
	}
	return qemu.DiskFormat(ctx, s.Host, nil, file)
}

// prepareLoader takes what starts the system on a disk: its own boot loader, or a kernel. It
// completes the source.
func (s *Store) prepareLoader(ctx context.Context, from *Source) (p Prepared, err error) {
	if from.Brand != "" && !from.Brand.Machine() {
		return p, fault.WithFix(fault.New(fault.Invalid, "%s is the disk of a machine, but brand %s is for containers",
			from.What, from.Brand), "leave out --brand")
	}
	if from.Kernel != "" {
		kernel := *from
		kernel.What = from.Kernel
		return s.prepareFile(ctx, kernel)
	}
	if from.Brand == manifest.MicroVM {
		return p, fault.WithFix(fault.New(fault.Invalid, "the machine microvm cannot start the boot loader of a disk"),
			"name the kernel with --kernel FILE, or use --brand kvm")
	}
	if err := from.checkWhole(); err != nil {
		return p, err
	}
	return s.loader(ctx, from)
}

// loader is what a machine starts from that starts the boot loader of a disk or of a CD. Without a
// brand, only now is it known that it is a machine.
func (s *Store) loader(ctx context.Context, from *Source) (p Prepared, err error) {
	if from.Brand == "" {
		from.Brand = manifest.Loader()
		from.Driver = from.Brand.Drivers()[0]
		err = s.checkDriver(ctx, from.Brand, from.Driver)
	}
	p.Brand, p.Machine, p.Reboots = manifest.KVM, qemu.Q35, true
	if from.Brand == manifest.Bhyve {
		p.Brand = from.Brand
	}
	return p, err
}

// checkWhole refuses what only images of programs have a use for.
func (from Source) checkWhole() error {
	switch {
	case len(from.Command) > 0 || len(from.Env) > 0:
		return fault.WithFix(fault.New(fault.Unsupported,
			"%s starts its own programs: -e and COMMAND work for containers only", from.What), "leave them out")
	case from.InMemory:
		return fault.WithFix(fault.New(fault.Unsupported, "only the root of a service can be in a RAM disk, and %s is not "+
			"a service",
			from.What), "leave out --in-memory")
	}
	return nil
}

func baseName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// isISO tells an ISO 9660 image by its first volume descriptor (ECMA-119, 8.1).
func isISO(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	mark := make([]byte, 5)
	if _, err := f.ReadAt(mark, 16*2048+1); err != nil {
		return false, nil // it is shorter
	}
	return string(mark) == "CD001", nil
}

// prepareFile takes an installer's ISO image, or a kernel.
func (s *Store) prepareFile(ctx context.Context, from Source) (p Prepared, err error) {
	if err := from.checkWhole(); err != nil {
		return p, err
	}
	file, err := filepath.Abs(from.What)
	if err != nil {
		return p, err
	}
	iso, err := isISO(file)
	if err != nil {
		return p, err
	}
	if iso {
		if p, err = s.loader(ctx, &from); err != nil {
			return p, err
		}
		p.Name = baseName(file)
		cd := qemu.Disk{Serial: "cdrom", Path: file, Format: "raw", CDROM: true, Boots: from.DiskSize == 0,
			Cache: "writeback", AIO: "threads"}
		if from.DiskSize > 0 { // the firmware starts the CD until the installer has made this disk bootable
			s.ownDisk(&p, from, true, func(ctx context.Context, to string) error {
				return disk.Empty(ctx, s.Host, to, formatOf(from.Driver), int64(from.DiskSize))
			})
		}
		p.Disks = append(p.Disks, cd)
		return p, nil
	}
	if from.Driver == manifest.DriverBhyve {
		return p, errBhyveKernel
	}
	p.Name = baseName(file)
	k, err := qemu.ReadKernelFile(ctx, s.Host, nil, file)
	if err == nil && (from.Driver != manifest.Firecracker || k.System != "linux") { // Firecracker starts each of them
		err = k.CheckLoads(file)
	}
	if err != nil {
		return p, fault.WithFix(fault.Wrap(fault.Invalid, from.What, err),
			"name a kernel or an ISO image, or write disk:"+from.What+" for a disk")
	}
	p.Brand = from.Brand
	if p.Brand == "" {
		p.Brand = manifest.MicroVM
	}
	p.Machine, p.Kernel, p.Append = KindOf(p.Brand), file, from.Append
	if k.System != "linux" {
		if from.Driver == manifest.Firecracker {
			return p, fault.WithFix(fault.New(fault.Unsupported, "%s is a kernel of %s, and bakeoff starts only kernels of "+
				"Linux in Firecracker", from.What, k.System), "use driver qemu")
		}
		p.Bare = true
	}
	if k.System == "netbsd" && p.Machine == qemu.MicroVM {
		p.NoACPI, p.Wants = true, qemu.SeaBIOS // it needs the MP table, which qboot does not make
	}
	return p, nil
}

// Check refuses what a brand has no counterpart for, before anything is made.
func (p *Prepared) Check() error {
	if !p.Brand.Machine() && p.Boot.Container == nil {
		return fault.New(fault.Invalid, "brand %s is for containers, but the source is for a machine", p.Brand)
	}
	if err := p.checkFolders(manifest.Guest{}); err != nil {
		return fault.Op("-v", err)
	}
	for i := range p.Shares {
		s := &p.Shares[i]
		from, err := filepath.Abs(s.From)
		if err != nil {
			return err
		}
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			return fault.New(fault.Invalid, "-v: the folder %s does not exist", s.From)
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fault.New(fault.Invalid, "-v: %s is not a folder", s.From)
		}
		s.From = from
	}
	return nil
}
