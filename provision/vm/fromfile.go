package vm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
)

// controllers are those of the models of disks; "" is virtio.
var controllers = map[string]string{"": qemu.VirtioBlk, "virtio": qemu.VirtioBlk, "scsi": qemu.VirtioSCSI,
	"ide": qemu.AHCI, "ahci": qemu.AHCI, "nvme": qemu.NVMe}

// PrepareManifest builds or fetches what a guest of a manifest starts from. dir is the folder
// of the manifest, to which relative names of files belong. Its caller has called Fit.
func (s *Store) PrepareManifest(ctx context.Context, images *image.Store, g manifest.Guest, dir string,
	o build.Options) (p Prepared, err error) {
	from := Source{Brand: g.Brand, Append: g.KernelArgs, Command: g.Command}
	for _, name := range slices.Sorted(maps.Keys(g.Environment)) {
		from.Env = append(from.Env, name+"="+g.Environment[name])
	}
	if from.What, err = imageOf(images, g.Image, g.ImageUUID, dir); err != nil {
		return p, err
	}
	for i, f := range g.Filesystems {
		if info, err := os.Stat(f.Source); err != nil || !info.IsDir() {
			return p, fault.New(fault.Invalid, "filesystems.%d.source: %s is not a folder of this machine", i, f.Source)
		}
	}
	if !g.Brand.Machine() {
		return s.prepareContainerOf(ctx, images, g, from, o)
	}
	boot := slices.IndexFunc(g.Disks, func(d manifest.Disk) bool { return d.Boot })
	if boot < 0 && len(g.Disks) > 0 {
		boot = 0
	}
	if from.What == "" && boot >= 0 {
		d := g.Disks[boot]
		if from.What, err = imageOf(images, d.Image, d.ImageUUID, dir); err != nil {
			return p, err
		}
	} else {
		boot = -1 // the image of the guest is its first disk
	}
	p = Prepared{Brand: g.Brand, Boot: Boot{Machine: KindOf(g.Brand), Reboots: true, Append: g.KernelArgs}}
	switch {
	case from.What != "":
		from.Kernel = absolute(dir, g.Kernel)
		if p, err = s.Prepare(ctx, images, from, o); err != nil {
			return p, err
		}
	case g.Kernel != "":
		from.What, boot = absolute(dir, g.Kernel), -1
		if p, err = s.prepareFile(ctx, from); err != nil {
			return p, err
		}
	}
	if g.Initrd != "" {
		p.Initrd, p.Agent = absolute(dir, g.Initrd), false
	}
	p.Brand, p.Machine = g.Brand, KindOf(g.Brand)
	return p, s.addDisks(ctx, images, g, &p, boot, dir)
}

// prepareContainerOf is PrepareManifest for a container.
func (s *Store) prepareContainerOf(ctx context.Context, images *image.Store, g manifest.Guest, from Source,
	o build.Options) (Prepared, error) {
	p, err := s.Prepare(ctx, images, from, o)
	if err != nil || p.Container == nil {
		return p, err
	}
	start := &p.Container.Start
	if len(g.Entrypoint) > 0 {
		start.Argv = slices.Concat(g.Entrypoint, g.Command)
	}
	if g.User != "" {
		start.User = g.User
	}
	if g.Workdir != "" {
		start.Dir = g.Workdir
	}
	return p, nil
}

// imageOf is the source that a manifest names: an image of the store by its UUID, a file or
// folder, or a reference.
func imageOf(images *image.Store, name, uuid, dir string) (string, error) {
	if name == "" && uuid == "" {
		return "", nil
	}
	if uuid != "" {
		all, err := images.Stored()
		if err != nil {
			return "", err
		}
		h, err := image.Choose(all, uuid)
		if err != nil {
			return "", fault.WithFix(fault.Wrap(fault.Invalid, "image_uuid: "+uuid, err),
				"run `bakeoff image import "+uuid+"`, or write image instead")
		}
		return h.Ref, nil
	}
	if file, ok := strings.CutPrefix(name, string(reference.Disk)+":"); ok {
		return string(reference.Disk) + ":" + absolute(dir, file), nil
	}
	if at := absolute(dir, name); strings.ContainsRune(name, '/') {
		if _, err := os.Stat(at); err == nil {
			return at, nil
		}
	}
	return name, nil
}

func absolute(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// addDisks adds the disks of a manifest except the one at boot, which p has.
func (s *Store) addDisks(ctx context.Context, images *image.Store, g manifest.Guest, p *Prepared, boot int,
	dir string) error {
	fills := []func(context.Context, string) error{p.Fill}
	for i, d := range g.Disks {
		if i == boot {
			if len(p.Disks) > 0 && p.Kernel == "" {
				p.Disks[0].Controller = controllers[d.Model]
			}
			continue
		}
		name := "disk" + strconv.Itoa(len(p.Disks)) + ".qcow2"
		out := qemu.Disk{Serial: "disk" + strconv.Itoa(i), Path: name, Format: "qcow2", Controller: controllers[d.Model],
			Cache: "writeback", AIO: "threads", Boots: d.Boot && p.Kernel == ""}
		switch {
		case d.Media == "cdrom" || d.NoCreate:
			if _, err := os.Stat(d.Path); err != nil {
				return fault.Wrap(fault.Invalid, "disks."+strconv.Itoa(i)+".path", err)
			}
			format, err := qemu.DiskFormat(ctx, s.Host, nil, d.Path)
			if err != nil {
				return err
			}
			out.Path, out.Format, out.CDROM = d.Path, format, d.Media == "cdrom"
		case d.Image != "" || d.ImageUUID != "":
			what, err := imageOf(images, d.Image, d.ImageUUID, dir)
			if err != nil {
				return err
			}
			file, ok := strings.CutPrefix(what, string(reference.Disk)+":")
			if !ok {
				return fault.WithFix(fault.New(fault.Invalid, "disks.%d.image: %s is not the file of a disk", i, what),
					"write disk:FILE; only the disk that the guest starts from can have another image")
			}
			format, err := qemu.DiskFormat(ctx, s.Host, nil, file)
			if err != nil {
				return err
			}
			fills = append(fills, func(ctx context.Context, to string) error {
				return disk.Overlay(ctx, s.Host, file, format, filepath.Join(to, name))
			})
		default:
			fills = append(fills, func(ctx context.Context, to string) error {
				return disk.Empty(ctx, s.Host, filepath.Join(to, name), int64(d.Size)<<20)
			})
		}
		p.Disks = append(p.Disks, out)
	}
	if len(p.Disks) > 0 && p.Kernel == "" && !slices.ContainsFunc(p.Disks, func(d qemu.Disk) bool { return d.Boots }) {
		p.Disks[0].Boots = true
	}
	p.Fill = func(ctx context.Context, to string) error {
		for _, fill := range fills {
			if fill == nil {
				continue
			}
			if err := fill(ctx, to); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// Update applies an update to the guest, all of it or nothing, and returns what it changes:
// nothing if there is no change.
func (g *Guest) Update(ctx context.Context, file string, src []byte) ([]manifest.Change, error) {
	return g.replace(ctx, func(old manifest.Guest) (manifest.Guest, []manifest.Change, error) {
		return manifest.Update(old, file, src)
	})
}

// Become gives the guest another manifest, all of it or nothing, and returns what that
// changes.
func (g *Guest) Become(ctx context.Context, m manifest.Guest) ([]manifest.Change, error) {
	return g.replace(ctx, func(old manifest.Guest) (manifest.Guest, []manifest.Change, error) {
		changes := manifest.Diff(old, m)
		return m, changes, manifest.CheckFixed(changes)
	})
}

// replace writes the manifest that make returns.
func (g *Guest) replace(ctx context.Context,
	make func(manifest.Guest) (manifest.Guest, []manifest.Change, error)) ([]manifest.Change, error) {
	held, err := g.change(ctx)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	whole, err := g.store.exclusive(ctx) // no other guest takes an address meanwhile
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	if err := readJSON(g.Path(fileManifest), &g.Guest); err != nil {
		return nil, err
	}
	m, _, err := make(g.Guest)
	if err != nil {
		return nil, err
	}
	giveMACs(&m)
	changes := manifest.Diff(g.Guest, m)
	if len(changes) == 0 {
		return nil, nil
	}
	others, err := g.store.List()
	if err == nil {
		err = errors.Join(Fit(m, g.store.Tags()), conflict(m, others))
	}
	if err == nil {
		err = writeJSON(g.Path(fileManifest), m)
	}
	if err != nil {
		return nil, err
	}
	old := g.Guest
	g.Guest = m
	if err := g.applyFilters(ctx); err != nil {
		g.Guest = old
		return nil, errors.Join(err, writeJSON(g.Path(fileManifest), old), g.applyFilters(context.WithoutCancel(ctx)))
	}
	return changes, errors.Join(g.writeMetadata(), record(g.Path(""), EventModify, "", ""),
		g.store.refreshNetworks(ctx, slices.Concat(old.NICs, m.NICs)...))
}

// Planned is what Become would change.
func (g *Guest) Planned(m manifest.Guest, tags Tags) ([]manifest.Change, error) {
	changes := manifest.Diff(g.Guest, m)
	return changes, errors.Join(manifest.CheckFixed(changes), Fit(m, tags))
}

// Adopt gives m what a file may leave open and the guest has: its UUID and MAC addresses.
func (g *Guest) Adopt(m *manifest.Guest) {
	m.UUID = g.UUID
	for i := range m.NICs {
		if m.NICs[i].MAC == "" && i < len(g.NICs) {
			m.NICs[i].MAC = g.NICs[i].MAC
		}
	}
}

// giveMACs gives NICs without a MAC address a random one.
func giveMACs(m *manifest.Guest) {
	m.NICs = slices.Clone(m.NICs)
	for i := range m.NICs {
		n := &m.NICs[i]
		switch {
		case n.VRRPVRID != 0:
			n.MAC = fmt.Sprintf("00:00:5e:00:01:%02x", n.VRRPVRID) // RFC 5798, 7.3
		case n.MAC == "":
			n.MAC = newMAC()
		}
	}
}
