package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// diskSlots is the number of disks that a PC can get while it runs.
const diskSlots = 4

// replaceRunning gives a machine that runs a manifest with other disks, and returns the paths of the disks
// that the machine has as they are now. The others wait for its next start. fill prepares new disks.
func (g *Guest) replaceRunning(ctx context.Context, n next, b Boot, fill fill) (live []string, err error) {
	old := g.Guest
	apply := func(ctx context.Context, from, to manifest.Guest) error {
		g.Guest = to
		err := g.applyLive(ctx, from)
		g.Guest = old
		return err
	}
	if err = apply(ctx, old, n.Guest); err == nil {
		n.Live = true
		err = g.prepare(ctx, n, b, func(dir string) error { return fill(ctx, dir) })
	}
	if err == nil {
		live, err = g.askLive(ctx, request{Do: "finish"})
		if left, lerr := g.coming(); err != nil && lerr == nil && left != nil && lock.HeldBy(g.Path(fileLife)) == nil {
			err = g.finishLeft(ctx) // its supervisor was killed
		}
	}
	if err != nil {
		return nil, errors.Join(err, apply(context.WithoutCancel(ctx), n.Guest, old))
	}
	return live, errors.Join(g.readManifest(), g.writeMetadata())
}

// finishLive makes the guest the next one while its machine runs. A disk that cannot change while the machine
// runs waits for its next start. Only a disk that cannot grow makes all of it fail.
func (m *machine) finishLive(ctx context.Context) (live []string, err error) {
	g := m.v.g
	n, err := g.coming()
	if n == nil || err != nil {
		return nil, err
	}
	dir := g.Path(dirNext)
	var b Boot
	if err := readJSON(filepath.Join(dir, fileBoot), &b); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(n.Grow)) {
		at, seen := m.diskAt(name)
		if at < 0 { // the machine does not have it yet
			err = disk.Grow(ctx, g.store.Host, g.Path(name), formatOf(g.Driver), n.Grow[name])
		} else {
			err = m.ResizeDisk(ctx, at, n.Grow[name])
			if seen {
				live = append(live, g.Path(name))
			}
		}
		if err != nil {
			gone := g.Path(beingRemoved + dirNext)
			return nil, errors.Join(fault.Op("grow "+g.Path(name), err), os.RemoveAll(gone), atomicfile.Rename(dir, gone),
				os.RemoveAll(gone))
		}
	}
	for _, name := range n.Disks {
		if err := os.Rename(filepath.Join(dir, name), g.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := errors.Join(writeJSON(g.Path(fileManifest), n.Guest), writeJSON(g.Path(fileBoot), b)); err != nil {
		return nil, err
	}
	live = append(live, m.addDisks(ctx, n.Guest, b)...)
	if err := record(g.Path(""), n.Event, n.Name, n.ID); err != nil {
		return nil, err
	}
	gone := g.Path(beingRemoved + dirNext)
	return live, errors.Join(os.RemoveAll(gone), atomicfile.Rename(dir, gone), os.RemoveAll(gone))
}

// addDisks gives the running machine the disks that it can get, and returns the paths of those that it has now.
func (m *machine) addDisks(ctx context.Context, to manifest.Guest, b Boot) (live []string) {
	v := m.v
	for _, d := range m.addable(b) {
		x := v.diskOf(to, d)
		if err := m.AddDisk(ctx, len(v.boot.Disks), x); err != nil {
			fmt.Fprintf(v.log, "add disk %s: %v\n", x.Path, err)
			return live
		}
		v.boot.Disks = append(slices.Clone(v.boot.Disks), d)
		live = append(live, x.Path)
	}
	return live
}

// addable are the disks at the end of what the machine starts from that it can get while it runs: none if
// another disk is not as it was.
func (m *machine) addable(b Boot) (out []qemu.Disk) {
	v := m.v
	have := len(v.boot.Disks)
	if len(v.extra.Disks) > 0 || len(b.Disks) < have || !sameDisks(v.boot.Disks, b.Disks[:have]) {
		return nil
	}
	for _, d := range b.Disks[have:] {
		if !m.AddsDisk(d) {
			break
		}
		out = append(out, d)
	}
	return out
}

// diskAt is the number of a disk of the running machine; -1 if it does not have it. seen tells whether the
// machine sees at once that the disk has grown.
func (m *machine) diskAt(name string) (at int, seen bool) {
	has := m.v.boot.Disks
	at = slices.IndexFunc(has, func(x qemu.Disk) bool { return x.Path == name })
	return at, at >= 0 && manifest.SeesSize(has[at].Controller)
}

// foresee returns the paths of the disks that finishLive would change at once.
func (m *machine) foresee(b Boot, grow map[string]int64) (live []string) {
	for _, name := range slices.Sorted(maps.Keys(grow)) {
		if _, seen := m.diskAt(name); seen {
			live = append(live, m.v.g.Path(name))
		}
	}
	for _, d := range m.addable(b) {
		live = append(live, m.v.g.file(d.Path))
	}
	return live
}

// foresee corrects when changes of disks would take effect: the machine that runs decides it, as for Become.
func (g *Guest) foresee(ctx context.Context, from Origin, m manifest.Guest, changes []manifest.Change) error {
	if reflect.DeepEqual(g.Disks, m.Disks) || onlyCompression(g.Disks, m.Disks) {
		return nil
	}
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		return err
	}
	n, b, _, err := g.changeDisks(ctx, from, &m, b)
	if err != nil || g.Supervisor == 0 {
		return err
	}
	live, err := g.askLive(ctx, request{Do: "foresee", Boot: &b, Grow: n.Grow})
	if fault.Is(err, fault.Invalid) {
		return nil // a supervisor of an earlier version does not know the request
	}
	if err == nil {
		diskMoments(changes, g.Guest, m, live)
	}
	return err
}

// sameDisks tells whether a machine with one list of disks is built like one with the other.
func sameDisks(a, b []qemu.Disk) bool {
	return slices.EqualFunc(a, b, func(x, y qemu.Disk) bool {
		return x.Path == y.Path && x.Controller == y.Controller && x.Slot == y.Slot && x.CDROM == y.CDROM
	})
}

// sameCard tells whether two NICs are one network card for a guest.
func sameCard(a, b manifest.NIC) bool { return a.MAC == b.MAC && a.Model == b.Model }

// diskOf is a disk of Boot for QEMU.
func (v *supervisor) diskOf(m manifest.Guest, d qemu.Disk) qemu.Disk {
	if i := slices.IndexFunc(m.Disks, func(x manifest.Disk) bool { return v.g.inBoot(x) == d.Path }); i >= 0 {
		d.LogicalBlock, d.PhysicalBlock, _ = m.Disks[i].GuestBlocks()
	}
	d.Path = v.g.file(d.Path)
	return d
}

// fits refuses to keep the memory of a machine that is not the one of its manifest: it would not fit after a
// rollback.
func (m *machine) fits() error {
	g := m.v.g
	var now manifest.Guest
	var b Boot
	if err := errors.Join(readJSON(g.Path(fileManifest), &now), readJSON(g.Path(fileBoot), &b)); err != nil {
		return err
	}
	waits := ""
	switch {
	case !sameDisks(m.v.boot.Disks, b.Disks):
		waits = "disks"
	case now.RAM != g.RAM:
		waits = "ram"
	case now.VCPUs != g.VCPUs:
		waits = "vcpus"
	case !slices.EqualFunc(now.NICs, g.NICs, sameCard):
		waits = "nics"
	default:
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "a change of %s waits for the next boot of the machine, and the "+
		"memory in a snapshot would not fit the changed machine", waits), "run `bakeoff vm reboot "+g.UUID+"` first")
}

// diskMoments corrects when the changes of disks of a machine that runs take effect: live are the paths of
// the disks that change at once.
func diskMoments(changes []manifest.Change, old, to manifest.Guest, live []string) {
	for i := range changes {
		c := &changes[i]
		parts := strings.Split(c.Path, ".")
		if parts[0] != "disks" || len(parts) < 3 || parts[2] == "compression" {
			continue
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil || number >= len(to.Disks) {
			continue
		}
		d := to.Disks[number]
		known := slices.ContainsFunc(old.Disks, func(o manifest.Disk) bool { return o.Path == d.Path })
		c.When = manifest.NextBoot
		if slices.Contains(live, d.Path) && (!known || parts[2] == "size") {
			c.When = manifest.Live
		}
	}
}
