package vm

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/strictjson"
	"bakeoff/provision/image"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
)

// newImage is the payload of reprovision.
type newImage struct {
	UUID  string `json:"image_uuid"`
	Image string `json:"image"`
}

// Reprovision replaces what the guest started from by that of another image: the first disk of
// a machine, or the root of a container with all that was written. Manifest, metadata and
// other disks stay, snapshots go. It changes all of that or nothing, and starts the guest.
// payload is JSON with image_uuid or image; dir is the folder to which relative names in it
// belong.
func (g *Guest) Reprovision(ctx context.Context, images *image.Store, payload []byte, dir string, o build.Options,
	launch func(uuid string) error) error {
	var to newImage
	if err := strictjson.Decode(payload, &to); err != nil || (to.UUID == "") == (to.Image == "") {
		return fault.WithFix(fault.New(fault.Invalid, "the payload must have image_uuid or image, and nothing else"),
			`write, for example, {"image": "alpine:3.20"}`)
	}
	held, err := g.change(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	var old Boot
	if err := errors.Join(readJSON(g.Path(fileManifest), &g.Guest), readJSON(g.Path(fileBoot), &old)); err != nil {
		return err
	}
	if g.IndestructibleZoneroot {
		return fault.WithFix(fault.New(fault.Invalid, "the root of the guest is protected (indestructible_zoneroot: true)"),
			"run `bakeoff vm update "+g.UUID+" indestructible_zoneroot=false`")
	}
	m, err := to.in(g.Guest)
	if err != nil {
		return err
	}
	p, err := g.store.PrepareManifest(ctx, images, m, dir, o)
	if err != nil {
		return err
	}
	n := next{Event: EventReprovision, Guest: m, Forget: true}
	if g.Brand.Machine() {
		if len(old.Disks) == 0 || len(p.Disks) == 0 || old.Disks[0].Path != p.Disks[0].Path {
			return fault.New(fault.Unsupported, "the guest has no disk of its own that an image could replace")
		}
		n.Disks = []string{p.Disks[0].Path}
		p.Disks = append(p.Disks[:1:1], old.Disks[1:]...)
		if newVariables(m) != "" { // their boot entries are of the old disk
			n.Disks = append(n.Disks, fileVariables)
		}
	}
	p.Ports, p.Shares, p.Boot.Remove, p.Accel = old.Ports, old.Shares, old.Remove, old.Accel
	if err := p.Check(); err != nil {
		return err
	}
	if err := g.end(ctx, Stop{Force: true}); err != nil {
		return err
	}
	err = g.whileStopped(ctx, func() error {
		return g.become(ctx, n, p.Boot, func(dir string) error {
			err := g.replaceVariables(ctx, m, "", dir)
			if err == nil && p.Fill != nil {
				err = p.Fill(ctx, dir)
			}
			return err
		})
	})
	if err != nil {
		return fault.Op("reprovision", err)
	}
	if err := g.reopen(); err != nil {
		return err
	}
	if err := launch(g.UUID); err != nil {
		return err
	}
	return g.refreshUnlessRemoved()
}

// in is the manifest of a guest with the image in place of the old one.
func (to newImage) in(m manifest.Guest) (manifest.Guest, error) {
	if m.Image != "" || m.ImageUUID != "" || len(m.Disks) == 0 {
		m.Image, m.ImageUUID = to.Image, to.UUID
		return m, nil
	}
	m.Disks = slices.Clone(m.Disks)
	i := max(0, slices.IndexFunc(m.Disks, func(d manifest.Disk) bool { return d.Boot }))
	d := &m.Disks[i]
	if d.Media == "cdrom" || d.NoCreate {
		return m, fault.New(fault.Unsupported, "disks.%d: %s is not a disk that bakeoff made", i, filepath.Base(d.Path))
	}
	d.Image, d.ImageUUID = to.Image, to.UUID
	return m, nil
}
