package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/strictjson"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image/unpack"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/stream"
)

// The parts of a stream: first the description of the guest, then what it names.
const (
	partGuest   = "guest"
	partKernel  = "kernel"
	partInitrd  = "initrd"
	partRoot    = "root"    // of the image of a container
	partWritten = "written" // over it
)

// sent describes a guest that travels.
type sent struct {
	Guest json.RawMessage `json:"guest"`
	Boot  Boot            `json:"boot"`
	Parts []string        `json:"parts"`
}

// Send ends the guest and writes it to out: its disks without snapshots, its kernel and its
// image, its manifest and its metadata. The guest stays, and does not start with the host any
// more.
func (g *Guest) Send(ctx context.Context, out io.Writer) error {
	if err := g.noJail("send"); err != nil {
		return err
	}
	held, err := g.change(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	var b Boot
	if err := errors.Join(readJSON(g.Path(fileManifest), &g.Guest), readJSON(g.Path(fileBoot), &b)); err != nil {
		return err
	}
	if _, _, err := g.ownDisks(b); err != nil {
		return err
	}
	m := g.Guest
	if err := errors.Join(g.setAutoboot(false), g.end(ctx, Stop{})); err != nil {
		return err
	}
	err = g.whileStopped(ctx, func() error { return g.send(ctx, m, b, out) })
	return errors.Join(fault.Op("send", err), g.refresh())
}

func (g *Guest) send(ctx context.Context, m manifest.Guest, b Boot, out io.Writer) (err error) {
	dir := g.Path(beingMade + "send") // for disks that stand on images
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	open := map[string]func() (io.ReadCloser, error){}
	d := sent{Boot: b}
	add := func(name string, content func() (io.ReadCloser, error)) string {
		d.Parts, open[name] = append(d.Parts, name), content
		return name
	}
	file := func(path string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return os.Open(path) }
	}
	if b.Kernel != "" {
		d.Boot.Kernel = add(partKernel, file(g.file(b.Kernel)))
	}
	if b.Initrd != "" {
		d.Boot.Initrd = add(partInitrd, file(g.file(b.Initrd)))
	}
	d.Boot.Disks = slices.Clone(b.Disks)
	m.Disks = slices.Clone(m.Disks)
	for i := range m.Disks { // the stream has no paths of this machine
		m.Disks[i].Path = g.inBoot(m.Disks[i])
	}
	for i := range d.Boot.Disks {
		x := &d.Boot.Disks[i]
		if x.CDROM {
			from := file(g.file(x.Path))
			name := "cdrom" + strconv.Itoa(i) + ".iso"
			for k := range m.Disks {
				if m.Disks[k].Path == x.Path {
					m.Disks[k].Path = name
				}
			}
			x.Path = add(name, from)
			continue
		}
		from, to := g.Path(x.Path), filepath.Join(dir, x.Path)
		add(x.Path, func() (io.ReadCloser, error) {
			if err := disk.Flatten(ctx, g.store.Host, from, to); err != nil {
				return nil, err
			}
			return os.Open(to)
		})
	}
	vars, err := variables(g.Path(""))
	if err != nil {
		return err
	}
	if vars != "" {
		add(fileVariables, file(vars))
	}
	if b.Container != nil {
		root := g.file(b.Container.Root)
		d.Boot.Container = &Container{Start: b.Container.Start, Root: add(partRoot,
			func() (io.ReadCloser, error) { return unpack.Folder(root), nil })}
		upper, err := g.WrittenRoot(ctx)
		if err != nil {
			return err
		}
		if _, err := os.Stat(upper); err == nil {
			add(partWritten, func() (io.ReadCloser, error) { return unpack.Written(upper), nil })
		}
	}
	if d.Guest, err = manifest.Text(m); err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	w, err := stream.NewWriter(out)
	if err == nil {
		err = w.Part(partGuest, bytes.NewReader(text))
	}
	for _, name := range d.Parts {
		if err == nil {
			err = sendPart(ctx, w, name, open[name])
		}
	}
	if err != nil {
		return err
	}
	return w.Close()
}

func sendPart(ctx context.Context, w *stream.Writer, name string, open func() (io.ReadCloser, error)) error {
	in, err := open()
	if err != nil {
		return fault.Op(name, err)
	}
	defer in.Close()
	defer context.AfterFunc(ctx, func() { in.Close() })()
	err = w.Part(name, in)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fault.Op(name, err)
}

// file is a file that the guest starts from: below its folder if the name is relative.
func (g *Guest) file(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return g.Path(name)
}

// Receive makes a stopped guest from what Send has written. Nothing is made of a stream that
// was cut or changed. The stream may come from a stranger: the guest gets no file of this
// machine, except the folders that its manifest names.
func (s *Store) Receive(ctx context.Context, in io.Reader) (*Guest, error) {
	r, err := stream.NewReader(in)
	if err != nil {
		return nil, err
	}
	m, d, err := readGuest(r, s.Tags(), s)
	if err != nil {
		return nil, fault.Op("receive", err)
	}
	for i := range m.Disks {
		m.Disks[i].Path = filepath.Join(s.dirOf(m.UUID), m.Disks[i].Path)
	}
	p := Prepared{Brand: m.Brand, Boot: d.Boot}
	err = p.Check()
	if err == nil {
		err = s.checkDriver(ctx, m.Brand, m.Driver)
	}
	if err != nil {
		return nil, err
	}
	g, err := s.Create(ctx, m, p.Boot, func(dir string) error { return s.fillFrom(ctx, r, d, dir) })
	return g, fault.Op("receive", err)
}

// readGuest reads the first part, and checks what it says.
func readGuest(r *stream.Reader, tags Tags, storage Storage) (m manifest.Guest, d sent, err error) {
	name, err := r.Next()
	if err == nil && name != partGuest {
		err = fault.New(fault.Invalid, "the stream does not begin with the description of a guest")
	}
	if err != nil {
		return m, d, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxJSON))
	if err != nil {
		return m, d, err
	}
	if err := strictjson.Decode(text, &d); err != nil {
		return m, d, fault.Wrap(fault.Invalid, "the description of the guest", err)
	}
	all, err := manifest.ReadRecord(partGuest, d.Guest, func(path string) bool {
		return diskName.MatchString(path) || cdromName.MatchString(path)
	})
	if err == nil && len(all) != 1 {
		err = fault.New(fault.Invalid, "the stream describes %d guests instead of one", len(all))
	}
	if err == nil {
		m = all[0]
		err = errors.Join(Fit(m, tags, storage), d.check(m.Brand), d.checkDisks(m))
	}
	if err == nil && formatOf(m.Driver) == "raw" && len(d.Boot.Disks) > 0 {
		err = fault.New(fault.Invalid, "the guest has a disk in a format of QEMU, but its driver is %s", m.Driver)
	}
	if err == nil && m.UUID == "" {
		err = fault.New(fault.Invalid, "the guest has no UUID")
	}
	return m, d, err
}

var (
	diskName   = lazy.Compile(`^disk[0-9]{1,3}\.qcow2$`)
	diskFiles  = lazy.Compile(`^disk[0-9]{1,3}\.(qcow2|raw)$`)
	cdromName  = lazy.Compile(`^cdrom[0-9]{1,3}\.iso$`)
	diskSerial = lazy.Compile(`^[A-Za-z0-9]{1,20}$`)
)

// check refuses a description that names anything outside of the stream.
func (d *sent) check(brand manifest.Brand) error {
	b, want := d.Boot, []string{}
	wrong := func(what string, value any) error {
		return fault.New(fault.Invalid, "the stream's description of the guest has an invalid %s: %q", what, value)
	}
	for _, c := range []struct{ what, name, value string }{{"kernel", partKernel, b.Kernel},
		{"initrd", partInitrd, b.Initrd}} {
		if c.value == c.name {
			want = append(want, c.name)
		} else if c.value != "" {
			return wrong(c.what, c.value)
		}
	}
	if brand.Machine() && b.Machine != KindOf(brand) || !brand.Machine() && b.Machine != "" {
		return wrong("machine", b.Machine)
	}
	if b.Wants != "" && b.Wants != qemu.SeaBIOS {
		return wrong("firmware", b.Wants)
	}
	if !slices.Contains([]string{"", qemu.KVM, qemu.TCG}, b.Accel) {
		return wrong("accelerator", b.Accel)
	}
	if b.Slots != 0 && (b.Slots != diskSlots || b.Machine != qemu.Q35) {
		return wrong("number of slots", strconv.Itoa(b.Slots))
	}
	for i, x := range b.Disks {
		form, format := diskName, "qcow2"
		if x.CDROM {
			form, format = cdromName, "raw"
		}
		switch {
		case !form.MatchString(x.Path) || slices.Contains(want, x.Path):
			return wrong("disk", x.Path)
		case x.Format != format || x.Folder != "" || x.Snapshot || x.Cache != "writeback" || x.AIO != "threads":
			return wrong("format of a disk", x.Format)
		case !diskSerial.MatchString(x.Serial):
			return wrong("serial number", x.Serial)
		case x.Controller != "" && !slices.Contains(qemu.Controllers(), x.Controller) &&
			!(x.CDROM && x.Controller == qemu.VirtioCD):
			return wrong("controller", x.Controller)
		case x.Slot < 0 || x.Slot > b.Slots || x.Slot > 0 && (!qemu.TakesSlot(x.Controller) || x.CDROM ||
			slices.ContainsFunc(b.Disks[:i], func(o qemu.Disk) bool { return o.Slot == x.Slot })):
			return wrong("slot of a disk", strconv.Itoa(x.Slot))
		}
		want = append(want, x.Path)
	}
	if brand.Machine() && slices.Contains(d.Parts, fileVariables) {
		want = append(want, fileVariables)
	}
	if brand.Machine() != (b.Container == nil) {
		return wrong("brand", brand)
	}
	if b.Container != nil {
		if b.Container.Root != partRoot {
			return wrong("root", b.Container.Root)
		}
		want = append(want, partRoot)
		if slices.Contains(d.Parts, partWritten) {
			want = append(want, partWritten)
		}
	}
	if !slices.Equal(d.Parts, want) {
		return wrong("parts", d.Parts)
	}
	return nil
}

// checkDisks refuses a manifest with disks that the stream does not have.
func (d *sent) checkDisks(m manifest.Guest) error {
	for i, x := range m.Disks {
		if !slices.ContainsFunc(d.Boot.Disks, func(b qemu.Disk) bool { return b.Path == x.Path }) {
			return fault.New(fault.Invalid, "the stream has no file for disks.%d of the guest (%q)", i, x.Path)
		}
	}
	return nil
}

// fillFrom writes the parts of a stream into the folder of a guest in the making.
func (s *Store) fillFrom(ctx context.Context, r *stream.Reader, d sent, dir string) error {
	var layers []unpack.Layer
	for _, want := range d.Parts {
		name, err := r.Next()
		if err == nil && name != want {
			err = fault.New(fault.Invalid, "the stream has the part %q instead of %q", name, want)
		}
		if err == io.EOF {
			err = fault.New(fault.Invalid, "the stream has no part %q", want)
		}
		if err != nil {
			return err
		}
		file := filepath.Join(dir, name)
		if name == partRoot || name == partWritten {
			file += ".tar"
			layers = append(layers, unpack.Layer{Name: name, Size: -1, Plain: name == partRoot,
				Open: func() (io.ReadCloser, error) { return os.Open(file) }})
		}
		if err := writeNew(ctx, file, r); err != nil {
			return fault.Op(name, err)
		}
		if diskName.MatchString(name) {
			if err := disk.CheckAlone(ctx, s.Host, file); err != nil {
				return fault.Op(name, err)
			}
		}
	}
	if name, err := r.Next(); err != io.EOF {
		if err == nil {
			err = fault.New(fault.Invalid, "the stream has the part %q, which the guest does not use", name)
		}
		return err
	}
	if len(layers) > 0 {
		if err := unpack.Unpack(ctx, filepath.Join(dir, partRoot), layers, unpack.Options{}); err != nil {
			return err
		}
		for _, l := range layers {
			if err := os.Remove(filepath.Join(dir, l.Name+".tar")); err != nil {
				return err
			}
		}
	}
	return unpack.Sync(dir)
}

// writeNew writes a new file, until in ends.
func writeNew(ctx context.Context, file string, in io.Reader) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return errors.Join(err, f.Close())
}
