package qemu

import (
	"context"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// direct are the cache modes that bypass the host's page cache.
var direct = []string{cacheNone, cacheDirectsync}

// validateStorage refuses combinations that QEMU or the machine does not
// support.
func (o options) validateStorage() error {
	switch {
	case o.machine == qemu.MicroVM && qemu.NeedsPCI(o.controller):
		return refuseOption(fault.Unsupported, optController, "machine: q35", "%s has no PCI bus, which %s needs",
			qemu.MicroVM, o.controller)
	case o.machine == qemu.MicroVM && o.card != qemu.VirtioNet:
		return refuseOption(fault.Unsupported, optCard, "machine: q35", "%s has no PCI bus, which %s needs", qemu.MicroVM,
			o.card)
	case o.diskAIO == aioNative && !slices.Contains(direct, o.diskCache):
		return refuseOption(fault.Invalid, optAIO, optCache+": none or directsync", "%s needs direct disk access (%s is %s)",
			aioNative, optCache, o.diskCache)
	}
	return nil
}

// makeDisks creates the files of volumes and lists the machine's disks, the root
// first.
func (in *Instance) makeDisks(ctx context.Context, o options, files guestFiles) ([]qemu.Disk, error) {
	disks := files.rootDisks(in.Spec.Image, o)
	for i, v := range in.Spec.Volumes {
		d := qemu.Disk{Serial: qemu.VolumeSerial(i), Path: v.Device, Controller: o.controller, Format: formatRaw,
			Cache: o.diskCache, AIO: o.diskAIO}
		if v.Backing == volume.Tmpfs {
			continue
		}
		var cached string
		var err error
		if v.Backing == volume.NFS {
			if in.Properties.HostCache[v.Path], err = volume.Serve(ctx, in.Host, in.Spec.Dir, v); err != nil {
				return nil, fault.Op("volume "+v.Path, err)
			}
			continue
		}
		if d.Path, cached, err = volume.GuestDisk(ctx, in.Host, in.Spec.Dir, v, false); err != nil {
			return nil, fault.Op("volume "+v.Path, err)
		}
		if v.Backing != volume.Disk && v.Backing != volume.Zvol {
			if d.Format = o.diskFormat; d.Format == formatQcow2 {
				if d.Path, err = in.toQcow2(ctx, d.Path); err != nil {
					return nil, err
				}
			}
		}
		if d.Cache == auto {
			d.Cache = cacheWriteback
			if volume.Direct(ctx, in.Host, d.Path) {
				d.Cache = cacheNone
			}
		}
		if in.Properties.HostCache[v.Path] = volume.CacheUsed; slices.Contains(direct, d.Cache) {
			in.Properties.HostCache[v.Path] = volume.CacheBypassed
		}
		if cached != "" {
			in.Properties.HostCache[v.Path] = cached
		}
		disks = append(disks, d)
	}
	return disks, nil
}

// toQcow2 converts a raw image to qcow2 and removes it.
func (in *Instance) toQcow2(ctx context.Context, raw string) (string, error) {
	image := strings.TrimSuffix(raw, path.Ext(raw)) + ".qcow2"
	if err := disk.ToQCOW2(ctx, in.Host, raw, image); err != nil {
		return "", fault.Op("make a qcow2 image", err)
	}
	_, err := conn.Output(ctx, in.Host, "rm", raw)
	return image, err
}

// storageFacts are the facts about the disks. All volumes have one cache mode
// unless auto chose it.
func (o options) storageFacts(disks []qemu.Disk) map[string]string {
	for _, d := range disks {
		if !d.Snapshot {
			o.diskCache = d.Cache
		}
	}
	return map[string]string{
		"root": "virtio-blk, changes in a temporary file", "disk.controller": o.controller,
		"disk.format": o.diskFormat, "disk.cache": o.diskCache, "disk.aio": o.diskAIO,
	}
}
