package qemu

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// The options of storage and their values. The root of the guest is always raw
// on virtio-blk: what is compared is the disk of a volume.
const (
	optController = "controller"
	optFormat     = "disk-format"
	optCache      = "disk-cache"
	optAIO        = "disk-aio"

	virtioBlk  = "virtio-blk"
	virtioSCSI = "virtio-scsi"
	nvme       = "nvme"
	ahci       = "ahci"

	formatRaw   = "raw"
	formatQcow2 = "qcow2"

	cacheAuto         = "auto"
	cacheWriteback    = "writeback"
	cacheNone         = "none"
	cacheWritethrough = "writethrough"
	cacheDirectsync   = "directsync"
	cacheUnsafe       = "unsafe"

	aioThreads = "threads"
	aioNative  = "native"
	aioURing   = "io_uring"
)

var storageOptions = []param.Spec{
	{Name: optController, Kind: param.Text, Default: virtioBlk, Enum: []string{virtioBlk, virtioSCSI, nvme, ahci},
		Doc: "The controller of volumes with backing file:ext4 and disk. nvme and ahci need machine q35; ahci also needs a " +
			"kernel with its driver (kernel-package: linux-image-amd64). The root of an image is always on virtio-blk; the " +
			"disk of the option disk is on this controller."},
	{Name: optFormat, Kind: param.Text, Default: formatRaw, Enum: []string{formatRaw, formatQcow2},
		Doc: "The format of the file of a file:ext4 volume: raw blocks, or qcow2 with all clusters preallocated as in raw."},
	{Name: optCache, Kind: param.Text, Default: cacheAuto, Earlier: cacheWriteback,
		Enum: []string{cacheAuto, cacheWriteback, cacheNone, cacheWritethrough, cacheDirectsync, cacheUnsafe},
		Doc: "QEMU's cache mode for volumes. auto is none if the host supports direct I/O on the volume's file, and " +
			"otherwise writeback; the fact driver.disk.cache shows it. writeback uses the host's page cache and honors " +
			"flushes, none bypasses the cache, writethrough flushes after each write, directsync does both, unsafe " +
			"ignores flushes."},
	{Name: optAIO, Kind: param.Text, Default: aioThreads, Enum: []string{aioThreads, aioNative, aioURing},
		Doc: "How QEMU does disk input and output on the host. native needs disk-cache none or directsync."},
}

// direct are the cache modes that bypass the host's page cache.
var direct = []string{cacheNone, cacheDirectsync}

// validateStorage refuses combinations that QEMU or the machine does not
// support.
func (o options) validateStorage() error {
	switch {
	case o.machine == machineMicroVM && (o.controller == nvme || o.controller == ahci):
		return fault.WithFix(fault.New(fault.Unsupported, "%s: %s has no PCI bus, which %s needs", optController,
			machineMicroVM, o.controller), "machine: q35")
	case o.diskAIO == aioNative && !slices.Contains(direct, o.diskCache):
		return fault.WithFix(fault.New(fault.Invalid, "%s: %s needs direct disk access (%s is %s)", optAIO, aioNative,
			optCache, o.diskCache),
			optCache+": none or directsync")
	}
	return nil
}

// storage creates the files of volumes and lists the machine's disks, the root
// first.
func (in *Instance) storage(ctx context.Context, o options, files guestFiles) ([]disk, error) {
	disks := files.disk(o)
	if !o.own() && o.ramDisk == "" {
		disks = []disk{{serial: rootSerial, path: in.Spec.Image.Disk, snapshot: true, controller: virtioBlk,
			format: formatRaw, cache: cacheWriteback, aio: aioThreads}}
	}
	for i, v := range in.Spec.Volumes {
		d := disk{serial: volumeSerial(i), path: v.Device, controller: o.controller, format: formatRaw, cache: o.diskCache,
			aio: o.diskAIO}
		switch v.Backing {
		case volume.Tmpfs:
			continue
		case volume.Ext4:
			var err error
			if d.path, err = volume.File(ctx, in.Host, in.Spec.Dir, v); err != nil {
				return nil, err
			}
			if d.format = o.diskFormat; d.format == formatQcow2 {
				if d.path, err = in.toQcow2(ctx, d.path); err != nil {
					return nil, err
				}
			}
		case volume.Disk:
			if err := volume.CheckDisk(ctx, in.Host, v.Device); err != nil {
				return nil, err
			}
		}
		if d.cache == cacheAuto {
			d.cache = cacheWriteback
			if volume.Direct(ctx, in.Host, d.path) {
				d.cache = cacheNone
			}
		}
		if in.Properties.HostCache[v.Path] = driver.CacheUsed; slices.Contains(direct, d.cache) {
			in.Properties.HostCache[v.Path] = driver.CacheBypassed
		}
		disks = append(disks, d)
	}
	return disks, nil
}

// toQcow2 converts a raw image to qcow2 and removes it. All clusters are
// allocated: otherwise the first write of each would do work that a raw file
// has done already.
func (in *Instance) toQcow2(ctx context.Context, raw string) (string, error) {
	image := strings.TrimSuffix(raw, ".ext4") + ".qcow2"
	_, err := conn.Output(ctx, in.Host, "qemu-img", "convert", "-f", formatRaw, "-O", formatQcow2, "-S", "0", raw, image)
	if fault.Is(err, fault.NotFound) {
		return "", fault.WithFix(fault.Wrap(fault.Unsupported, "", err), "apt-get install qemu-utils")
	}
	if err != nil {
		return "", fault.Op("make a qcow2 image", err)
	}
	_, err = conn.Output(ctx, in.Host, "rm", raw)
	return image, err
}

// attach is the part of the command line with the disks.
func attach(m machine) []string {
	var argv []string
	if slices.ContainsFunc(m.disks, func(d disk) bool { return d.controller == virtioSCSI }) {
		argv = append(argv, "-device", "virtio-scsi-"+bus(m.kind)+",id=scsi")
	}
	port := 0 // of the AHCI controller that q35 has
	for i, d := range m.disks {
		id := fmt.Sprintf("disk%d", i)
		drive := "if=none,id=" + id + ",format=" + d.format
		if d.snapshot {
			drive += ",snapshot=on"
		} else {
			drive += ",cache=" + d.cache + ",aio=" + d.aio
		}
		device := ",drive=" + id + ",serial=" + d.serial
		if d.boots {
			device += ",bootindex=0"
		}
		switch d.controller {
		case virtioSCSI:
			device = "scsi-hd,bus=scsi.0" + device
		case nvme:
			device = "nvme" + device
		case ahci:
			device = fmt.Sprintf("ide-hd,bus=ide.%d%s", port, device)
			port++
		default:
			device = "virtio-blk-" + bus(m.kind) + device
		}
		argv = append(argv, "-drive", drive+",file="+escape(d.path), "-device", device)
	}
	return argv
}

// storageModules are the kernel modules of the disks' controllers.
func storageModules(controller string, volumes []driver.Volume) []string {
	if !slices.ContainsFunc(volumes, func(v driver.Volume) bool { return v.Backing != volume.Tmpfs }) {
		return nil
	}
	return map[string][]string{virtioSCSI: {"virtio_scsi", "sd_mod"}, nvme: {"nvme"}, ahci: {"ahci", "sd_mod"}}[controller]
}

// storageFacts are the facts about the disks. All volumes have one cache mode
// unless auto chose it.
func (o options) storageFacts(disks []disk) map[string]string {
	for _, d := range disks {
		if !d.snapshot {
			o.diskCache = d.cache
		}
	}
	return map[string]string{
		"root": "virtio-blk, changes in a temporary file", "disk.controller": o.controller,
		"disk.format": o.diskFormat, "disk.cache": o.diskCache, "disk.aio": o.diskAIO,
	}
}
