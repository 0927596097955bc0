package vm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/volume"
)

// controllers are those of the models of disks; "" is virtio.
var controllers = map[string]string{"": qemu.VirtioBlk, "virtio": qemu.VirtioBlk, "scsi": qemu.VirtioSCSI,
	"ide": qemu.AHCI, "ahci": qemu.AHCI, "nvme": qemu.NVMe}

// drives are the controllers of the models of CD drives; "" is ide.
var drives = map[string]string{"": "", "ide": "", "ahci": "", "scsi": qemu.VirtioSCSI, "virtio": qemu.VirtioCD}

// PrepareManifest builds or fetches what a guest of a manifest starts from. dir is the folder
// of the manifest, to which relative names of files belong. Its caller has called Fit.
func (s *Store) PrepareManifest(ctx context.Context, images *image.Store, g manifest.Guest, dir string,
	o build.Options) (p Prepared, err error) {
	from := Source{Brand: g.Brand, Driver: g.Driver, Append: g.KernelArgs, Command: g.Command}
	for _, name := range slices.Sorted(maps.Keys(g.Environment)) {
		from.Env = append(from.Env, name+"="+g.Environment[name])
	}
	if from.What, err = imageOf(images, g.Image, g.ImageUUID, dir); err != nil {
		return p, err
	}
	if err := errors.Join(s.checkSources(ctx, g), s.checkDriver(ctx, g.Brand, g.Driver)); err != nil {
		return p, err
	}
	if !g.Brand.Machine() {
		return s.prepareContainerOf(ctx, images, g, from, o)
	}
	if firmware := firmwareOf(g); firmware != "" {
		if _, err := qemu.FindFirmware(ctx, s.Host, qemu.Program, KindOf(g.Brand), firmware); err != nil {
			return p, fault.Op("bootrom", err)
		}
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
	if from.What == "" {
		boot = -1 // an empty disk
	}
	p = Prepared{Brand: g.Brand, Boot: Boot{Machine: KindOf(g.Brand), Reboots: true, Append: g.KernelArgs}}
	switch {
	case from.What != "":
		from.Kernel = absolute(dir, g.Kernel)
		if p, err = s.Prepare(ctx, images, from, o); err != nil {
			return p, err
		}
	case g.Kernel != "":
		from.What = absolute(dir, g.Kernel)
		if p, err = s.prepareFile(ctx, from); err != nil {
			return p, err
		}
	}
	if g.Initrd != "" {
		p.Initrd, p.Agent = absolute(dir, g.Initrd), false
	}
	if err := p.checkFolders(g); err != nil {
		return p, err
	}
	p.Brand, p.Machine = g.Brand, KindOf(g.Brand)
	return p, s.addDisks(ctx, Origin{images, dir}, g, &p, boot)
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

// checkSources refuses folders of the host that do not exist, and those that it cannot serve.
func (s *Store) checkSources(ctx context.Context, g manifest.Guest) error {
	for i, f := range g.Filesystems {
		if info, err := os.Stat(f.Source); err != nil || !info.IsDir() {
			return fault.New(fault.Invalid, "filesystems.%d.source: %s is not a folder of this machine", i, f.Source)
		}
		if f.Type == manifest.NFS {
			if err := volume.Lacks(ctx, s.Host, volume.NFS, true); err != nil {
				return fault.Op(fmt.Sprintf("filesystems.%d.type", i), err)
			}
		}
	}
	return nil
}

func absolute(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// Update applies an update to the guest, all of it or nothing, and returns what it changes:
// nothing if there is no change.
func (g *Guest) Update(ctx context.Context, from Origin, file string, src []byte) ([]manifest.Change, error) {
	return g.replace(ctx, from, func(old manifest.Guest) (manifest.Guest, error) {
		m, _, err := manifest.Update(old, file, src)
		return m, err
	})
}

// Become gives the guest another manifest, all of it or nothing, and returns what that
// changes.
func (g *Guest) Become(ctx context.Context, from Origin, m manifest.Guest) ([]manifest.Change, error) {
	return g.replace(ctx, from, func(old manifest.Guest) (manifest.Guest, error) {
		_, err := g.planned(m, g.store.Tags())
		return m, err
	})
}

// replace writes the manifest that make returns.
func (g *Guest) replace(ctx context.Context, from Origin,
	make func(manifest.Guest) (manifest.Guest, error)) ([]manifest.Change, error) {
	held, err := g.change(ctx)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	if err := g.readManifest(); err != nil {
		return nil, err
	}
	old := g.Guest
	m, err := make(old)
	if err != nil {
		return nil, err
	}
	giveMACs(&m)
	changes, err := g.Check(m, g.store.Tags())
	if err == nil && len(changes) == 0 {
		return nil, nil
	}
	if err == nil && !reflect.DeepEqual(old.Filesystems, m.Filesystems) {
		var b Boot
		err = errors.Join(g.store.checkSources(ctx, m), readJSON(g.Path(fileBoot), &b))
		if err == nil {
			err = b.checkFolders(m)
		}
	}
	if err != nil {
		return nil, err
	}
	switch {
	case reflect.DeepEqual(old.Disks, m.Disks):
		err = g.replaceManifest(ctx, m)
	case onlyCompression(old.Disks, m.Disks):
		if err = g.recompress(ctx, m); err == nil {
			err = g.replaceManifest(ctx, m)
		}
		if err != nil {
			undo := *g
			undo.Guest = m
			err = errors.Join(err, undo.recompress(context.WithoutCancel(ctx), old))
		}
	default:
		var live []string
		live, err = g.replaceDisks(ctx, from, m)
		changes = manifest.Diff(old, g.Guest) // with the paths of new disks
		if g.moments(changes); g.Supervisor != 0 {
			diskMoments(changes, old, g.Guest, live)
		}
	}
	if err != nil {
		return nil, err
	}
	return changes, g.store.refreshNetworks(ctx, slices.Concat(old.NICs, m.NICs)...)
}

// replaceManifest gives the guest a manifest with the same disks.
func (g *Guest) replaceManifest(ctx context.Context, m manifest.Guest) error {
	whole, err := g.store.exclusive(ctx) // no other guest takes an address meanwhile
	if err != nil {
		return err
	}
	defer whole.Release()
	others, err := g.store.List()
	if err == nil {
		err = conflict(m, others)
	}
	if err == nil {
		err = writeJSON(g.Path(fileManifest), m)
	}
	if err != nil {
		return err
	}
	old := g.Guest
	g.Guest = m
	err = g.applyLive(ctx, old)
	if err == nil {
		err = g.applyRoutes(ctx, old) // last, because it undoes itself
	}
	if err != nil {
		g.Guest = old
		return errors.Join(err, writeJSON(g.Path(fileManifest), old), g.applyLive(context.WithoutCancel(ctx), m))
	}
	return errors.Join(g.writeMetadata(), record(g.Path(""), EventModify, "", ""))
}

// applyLive gives a guest that runs what its manifest has in place of an old one.
func (g *Guest) applyLive(ctx context.Context, old manifest.Guest) error {
	err := g.applyFilters(ctx)
	if err == nil && g.Quota != old.Quota {
		err = g.applyQuota(ctx)
	}
	if err == nil {
		err = g.applyLimits(ctx, old)
	}
	if err == nil {
		err = g.applyResolvers(ctx, old)
	}
	if err == nil {
		err = g.applyScreen(ctx, old)
	}
	return err
}

// readManifest reads the manifest of the guest again.
func (g *Guest) readManifest() error {
	var m manifest.Guest
	if err := readJSON(g.Path(fileManifest), &m); err != nil {
		return err
	}
	g.Guest = m
	return g.completeRecord()
}

// completeRecord gives a guest that an earlier version made its driver, and its disks their
// paths.
func (g *Guest) completeRecord() error {
	g.Driver = manifest.DriverOf(g.Guest)
	if !slices.ContainsFunc(g.Disks, func(d manifest.Disk) bool { return d.Path == "" }) {
		return nil
	}
	var b Boot
	err := readJSON(g.Path(fileBoot), &b)
	if err == nil {
		g.store.givePaths(&g.Guest, b)
	}
	return err
}

// Check returns what m would change, and every reason why the guest cannot become m.
func (g *Guest) Check(m manifest.Guest, tags Tags) ([]manifest.Change, error) {
	changes, cerr := manifest.Compare(g.Guest, m)
	g.moments(changes)
	problems := manifest.ProblemsOf(cerr)
	ferr := Fit(m, tags, g.store)
	problems = append(problems, manifest.ProblemsOf(ferr)...)
	if i := slices.IndexFunc(changes, func(c manifest.Change) bool { return c.When == manifest.Stopped }); i >= 0 &&
		g.Supervisor != 0 {
		problems = append(problems, manifest.Problem{Path: changes[i].Path,
			Reason: "disks change only while the guest is stopped", Allowed: "run `bakeoff vm stop " + g.name() + "`"})
	}
	if len(problems) > 0 {
		return changes, fault.Wrap(fault.Invalid, "", problems)
	}
	return changes, errors.Join(cerr, ferr)
}

// moments corrects when changes take effect: at once if the guest is stopped.
func (g *Guest) moments(changes []manifest.Change) {
	for i := range changes {
		c := &changes[i]
		switch {
		case g.Supervisor == 0 && c.When != manifest.Never:
			c.When = manifest.Live
		case strings.HasPrefix(c.Path, "vnc_") && g.State == Running && g.VNC == "": // it has none before it starts again
			c.When = manifest.NextBoot
		}
	}
}

// Planned is what Become would change.
func (g *Guest) Planned(ctx context.Context, from Origin, m manifest.Guest, tags Tags) ([]manifest.Change, error) {
	changes, err := g.planned(m, tags)
	if err == nil {
		err = g.foresee(ctx, from, m, changes)
	}
	return changes, err
}

func (g *Guest) planned(m manifest.Guest, tags Tags) ([]manifest.Change, error) {
	changes, err := g.Check(m, tags)
	if lost := g.lostDisks(m); len(lost) > 0 {
		err = fault.Wrap(fault.Invalid, "", append(manifest.ProblemsOf(err), lost...))
	}
	return changes, err
}

// Adopt gives m what a file may leave open and the guest has: its UUID, MAC addresses and the
// paths of its disks.
func (g *Guest) Adopt(m *manifest.Guest) {
	m.UUID = g.UUID
	for i := range m.NICs {
		if m.NICs[i].MAC == "" && i < len(g.NICs) {
			m.NICs[i].MAC = g.NICs[i].MAC
		}
	}
	g.adoptDisks(m)
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
