package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/vm/manifest"
)

// Origin is where the images and files that a manifest names come from.
type Origin struct {
	Images *image.Store
	Dir    string // of the manifest, to which relative names of files belong
}

// formatOf is the format of the disks that bakeoff makes for guests of a driver: only QEMU reads
// others than raw ones.
func formatOf(driver string) string {
	if driver == manifest.Firecracker || driver == manifest.DriverBhyve {
		return "raw"
	}
	return "qcow2"
}

// diskFile is the name of the file of a disk.
func diskFile(name, driver string) string { return name + "." + formatOf(driver) }

// fill makes files in the folder of a guest.
type fill func(ctx context.Context, dir string) error

func fillAll(fills []fill) fill {
	return func(ctx context.Context, dir string) error {
		for _, f := range fills {
			if f == nil {
				continue
			}
			if err := f(ctx, dir); err != nil {
				return err
			}
		}
		return nil
	}
}

// addDisks adds the disks of a manifest except the one at boot, which p has.
func (s *Store) addDisks(ctx context.Context, from Origin, g manifest.Guest, p *Prepared, boot int) error {
	fills := []fill{p.Fill}
	for i, d := range g.Disks {
		if i == boot {
			if len(p.Disks) > 0 && p.Kernel == "" {
				p.Disks[0].Controller = controllers[d.Model]
			}
			if len(p.Disks) > 0 {
				path := "disks." + strconv.Itoa(i)
				fills = append(fills, s.holds(path, p.Disks[0], d.ImageSize), s.grow(path+".size", p.Disks[0], d.Size),
					s.compress(path, p.Disks[0], d.Compression))
			}
			continue
		}
		out, f, err := s.newDisk(ctx, from, g.Driver, d, "disks."+strconv.Itoa(i),
			"disk"+strconv.Itoa(len(p.Disks)))
		if err != nil {
			return err
		}
		out.Serial, out.Boots = "disk"+strconv.Itoa(i), d.Boot && p.Kernel == ""
		p.Disks, fills = append(p.Disks, out), append(fills, f)
	}
	markBoot(&p.Boot)
	p.Fill = fillAll(fills)
	return nil
}

// markBoot lets a machine with a boot loader start from its first disk, unless another one is
// marked.
func markBoot(b *Boot) {
	if len(b.Disks) > 0 && b.Kernel == "" && !slices.ContainsFunc(b.Disks, func(d qemu.Disk) bool { return d.Boots }) {
		b.Disks[0].Boots = true
	}
}

// newDisk is a disk of a manifest at path for a driver, and what makes its file, which has the
// given name.
func (s *Store) newDisk(ctx context.Context, from Origin, driver string, d manifest.Disk, path,
	name string) (out qemu.Disk, _ fill, err error) {
	name = diskFile(name, driver)
	out = qemu.Disk{Path: name, Format: formatOf(driver), Controller: controllers[d.Model], Cache: "writeback",
		AIO: "threads"}
	switch {
	case !d.Made():
		if _, err := os.Stat(d.Path); err != nil {
			return out, nil, fault.Wrap(fault.Invalid, path+".path", err)
		}
		out.Path = d.Path
		if d.Media == "cdrom" {
			out.CDROM, out.Controller = true, drives[d.Model]
		}
		if out.Format, err = s.diskFormat(ctx, d.Path); err == nil && formatOf(driver) == "raw" && out.Format != "raw" {
			err = fault.WithFix(fault.New(fault.Invalid, "%s.path: %s: driver %s reads raw disks only, and this one has the "+
				"format %s", path, d.Path, driver, out.Format), "convert it: qemu-img convert -O raw")
		}
		return out, nil, err
	case d.Image != "" || d.ImageUUID != "":
		what, err := imageOf(from.Images, d.Image, d.ImageUUID, from.Dir)
		if err != nil {
			return out, nil, err
		}
		file, ok := strings.CutPrefix(what, string(reference.Disk)+":")
		if !ok {
			return out, nil, fault.WithFix(fault.New(fault.Invalid, "%s.image: %s is not the file of a disk", path, what),
				"write disk:FILE; only the disk that the guest starts from can have another image")
		}
		format, err := s.diskFormat(ctx, file)
		if err != nil {
			return out, nil, err
		}
		return out, fillAll([]fill{func(ctx context.Context, to string) error {
			return s.makeDisk(ctx, file, format, driver, filepath.Join(to, name))
		}, s.holds(path, out, d.ImageSize), s.grow(path+".size", out, d.Size), s.compress(path, out, d.Compression)}), nil
	}
	return out, fillAll([]fill{func(ctx context.Context, to string) error {
		if d.BlockSize > 0 {
			return disk.EmptyBlocks(ctx, s.Host, filepath.Join(to, name), int64(d.Size)<<20, d.BlockSize)
		}
		return disk.Empty(ctx, s.Host, filepath.Join(to, name), out.Format, int64(d.Size)<<20)
	}, s.compress(path, out, d.Compression)}), nil
}

// makeDisk makes the disk of a guest from that of an image, which stays as it is.
func (s *Store) makeDisk(ctx context.Context, base, format, driver, to string) error {
	if driver == manifest.DriverBhyve && format == "raw" { // cp of FreeBSD has no such options
		return guest.Run(ctx, s.Host, "cp", base, to)
	}
	if formatOf(driver) == "raw" {
		return disk.Copy(ctx, s.Host, base, format, to)
	}
	return disk.Overlay(ctx, s.Host, base, format, to)
}

// holds refuses a new disk of an image that is larger than the manifest says, in MiB.
func (s *Store) holds(path string, x qemu.Disk, size int) fill {
	if size == 0 {
		return nil
	}
	return func(ctx context.Context, to string) error {
		have, err := disk.Size(ctx, s.Host, filepath.Join(to, x.Path), x.Format)
		if err == nil && have > int64(size)<<20 {
			err = fault.New(fault.Invalid, "%s.image_size: %d is less than the size of the image's disk, %d bytes", path,
				size, have)
		}
		return err
	}
}

// grow gives a new disk of an image the size of the manifest in MiB; 0 is that of the image.
func (s *Store) grow(path string, x qemu.Disk, size int) fill {
	if size == 0 {
		return nil
	}
	return func(ctx context.Context, to string) error {
		return fault.Op(path, disk.Grow(ctx, s.Host, filepath.Join(to, x.Path), x.Format, int64(size)<<20))
	}
}

// givePaths gives the disks that bakeoff made their files as path: updates find them by it.
func (s *Store) givePaths(m *manifest.Guest, b Boot) {
	m.Disks = slices.Clone(m.Disks)
	for i := range m.Disks {
		d := &m.Disks[i]
		if !d.Made() || d.Path != "" {
			continue
		}
		at := slices.IndexFunc(b.Disks, func(x qemu.Disk) bool { return x.Serial == "disk"+strconv.Itoa(i) })
		if at < 0 {
			at = slices.IndexFunc(b.Disks, func(x qemu.Disk) bool { return x.Serial == qemu.RootSerial })
		}
		if at >= 0 {
			d.Path = filepath.Join(s.dirOf(m.UUID), b.Disks[at].Path)
		}
	}
}

// inBoot is the path of a disk of the manifest in Boot: files of the guest are relative to
// its folder.
func (g *Guest) inBoot(d manifest.Disk) string {
	if dir, name := filepath.Split(d.Path); d.Made() || filepath.Clean(dir) == g.Path("") {
		return name
	}
	return d.Path
}

// changeDisks is what the guest starts from with the disks of another manifest, which gets the
// paths of new disks; the files that are new, and the sizes of those that grow.
func (g *Guest) changeDisks(ctx context.Context, from Origin, m *manifest.Guest, b Boot) (next, Boot, fill, error) {
	n := next{Event: EventModify, Grow: map[string]int64{}}
	find := func(path string) int {
		return slices.IndexFunc(b.Disks, func(x qemu.Disk) bool { return x.Path == path })
	}
	kept := map[string]bool{}
	boots := func(d manifest.Disk) bool { return d.Boot }
	marked := b.Kernel == "" && (slices.ContainsFunc(m.Disks, boots) || slices.ContainsFunc(g.Disks, boots))
	m.Disks, b.Disks = slices.Clone(m.Disks), slices.Clone(b.Disks)
	for i, d := range m.Disks {
		at := find(g.inBoot(d))
		if d.Path == "" || at < 0 {
			continue
		}
		x := &b.Disks[at]
		kept[x.Path] = true
		if was := slices.IndexFunc(g.Disks, func(o manifest.Disk) bool { return o.Path == d.Path }); was >= 0 {
			if g.Disks[was].Model != d.Model {
				x.Controller = controllers[d.Model]
				if !qemu.TakesSlot(x.Controller) {
					x.Slot = 0
				}
			}
			if d.Size == g.Disks[was].Size {
				continue
			}
		}
		have, err := disk.Size(ctx, g.store.Host, g.Path(x.Path), x.Format)
		if err != nil {
			return n, b, nil, err
		}
		if want := int64(d.Size) << 20; want < have {
			return n, b, nil, fault.Wrap(fault.Invalid, "", manifest.Problems{{Path: "disks." + strconv.Itoa(i) + ".size",
				Value: strconv.Itoa(d.Size), Reason: fmt.Sprintf("the disk has %d bytes, and bakeoff cannot make a disk "+
					"smaller", have),
				Allowed: "write a larger size, or add another disk"}})
		} else if want > have {
			n.Grow[x.Path] = want
		}
	}
	gone := map[string]bool{}
	for _, d := range g.Disks {
		if path := g.inBoot(d); !kept[path] {
			gone[path] = true
		}
	}
	b.Disks = slices.DeleteFunc(b.Disks, func(x qemu.Disk) bool { return gone[x.Path] })
	names, err := g.diskNames(b)
	if err != nil {
		return n, b, nil, err
	}
	var fills []fill
	for i := range m.Disks {
		d := &m.Disks[i]
		known := slices.ContainsFunc(g.Disks, func(o manifest.Disk) bool { return d.Path != "" && o.Path == d.Path })
		if known { // also one that a stream named and did not contain
			continue
		}
		number := 0
		for slices.Contains(names, "disk"+strconv.Itoa(number)) {
			number++
		}
		serial := "disk" + strconv.Itoa(number)
		x, f, err := g.store.newDisk(ctx, from, g.Driver, *d, "disks."+strconv.Itoa(i), serial)
		if err != nil {
			return n, b, nil, err
		}
		if d.Made() {
			d.Path = g.Path(x.Path)
			n.Disks = append(n.Disks, x.Path)
		}
		x.Serial = serial
		if qemu.TakesSlot(x.Controller) && !x.CDROM {
			x.Slot = qemu.FreeSlot(b.Slots, b.Disks)
		}
		names, b.Disks, fills = append(names, serial), append(b.Disks, x), append(fills, f)
	}
	for i := range b.Disks {
		x := &b.Disks[i]
		if marked {
			x.Boots = slices.ContainsFunc(m.Disks, func(d manifest.Disk) bool { return d.Boot && g.inBoot(d) == x.Path })
		}
	}
	markBoot(&b)
	fills = append(fills, func(ctx context.Context, _ string) error { return g.recompress(ctx, *m) })
	return n, b, fillAll(fills), nil
}

// diskNames are the names of files and the serial numbers of disks that are in use, also in
// snapshots.
func (g *Guest) diskNames(b Boot) (out []string, err error) {
	entries, err := os.ReadDir(g.Path(""))
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".qcow2" || ext == ".raw" {
			out = append(out, strings.TrimSuffix(e.Name(), ext))
		}
	}
	for _, x := range b.Disks {
		out = append(out, x.Serial)
	}
	return out, err
}

// replaceDisks gives the guest a manifest with other disks. live are the paths of those that change while it
// runs.
func (g *Guest) replaceDisks(ctx context.Context, from Origin, m manifest.Guest) (live []string, _ error) {
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		return nil, err
	}
	n, b, fill, err := g.changeDisks(ctx, from, &m, b)
	if err != nil {
		return nil, err
	}
	n.Guest = m
	if g.Supervisor != 0 {
		return g.replaceRunning(ctx, n, b, fill)
	}
	return nil, g.whileStopped(ctx, func() error {
		return g.become(ctx, n, b, func(dir string) error { return fill(ctx, dir) })
	})
}

// sweepDisks removes the files of disks that neither the guest nor one of its snapshots has.
func (g *Guest) sweepDisks() error {
	var all []Boot
	files := []string{g.Path(fileBoot)}
	entries, err := os.ReadDir(g.Path(dirSnapshots))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		files = append(files, g.Path(filepath.Join(dirSnapshots, e.Name(), fileBoot)))
	}
	for _, file := range files {
		var b Boot
		if err := readJSON(file, &b); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		all = append(all, b)
	}
	entries, err = os.ReadDir(g.Path(""))
	for _, e := range entries {
		name := e.Name()
		if !diskFiles.MatchString(name) && !cdromName.MatchString(name) ||
			slices.ContainsFunc(all, func(b Boot) bool {
				return slices.ContainsFunc(b.Disks, func(x qemu.Disk) bool { return x.Path == name })
			}) {
			continue
		}
		err = errors.Join(err, os.Remove(g.Path(name)))
	}
	return fault.Op("remove a disk", err)
}

// adoptDisks gives the disks of m, which a file describes without paths, those of the guest:
// first of the same image and size, then of the same image.
func (g *Guest) adoptDisks(m *manifest.Guest) {
	m.Disks = slices.Clone(m.Disks)
	taken := map[string]bool{}
	for _, sameSize := range []bool{true, false} {
		for i := range m.Disks {
			d := &m.Disks[i]
			if d.Path != "" || !d.Made() {
				continue
			}
			at := slices.IndexFunc(g.Disks, func(o manifest.Disk) bool {
				return o.Made() && !taken[o.Path] && o.Image == d.Image && o.ImageUUID == d.ImageUUID &&
					(!sameSize || d.Size == o.Size)
			})
			if at >= 0 {
				d.Path, taken[g.Disks[at].Path] = g.Disks[at].Path, true
			}
		}
	}
}

// lostDisks refuses a manifest that would remove a disk with what is on it, unless an update
// names the disk.
func (g *Guest) lostDisks(m manifest.Guest) (out manifest.Problems) {
	for _, d := range g.Disks {
		if d.Made() && !slices.ContainsFunc(m.Disks, func(n manifest.Disk) bool { return n.Path == d.Path }) {
			out = append(out, manifest.Problem{Path: "disks", Value: strconv.Quote(d.Path),
				Reason:  "the guest has this disk, but the file does not describe it",
				Allowed: "describe the disk, or remove it with its data by remove_disks of `bakeoff vm update`"})
		}
	}
	return out
}
