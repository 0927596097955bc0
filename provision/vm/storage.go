package vm

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/quota"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// Storage is where the guests of a store are; nil if they are temporary.
type Storage interface {
	// Storage names the file system.
	Storage() string
	// CheckQuota says why it cannot limit what containers write; nil if it can.
	CheckQuota() error
}

// Storage is the file system of the state folder, as stat(1) names it; "" if it is not known.
func (s *Store) Storage() string {
	out, err := conn.Output(context.Background(), s.Host, "stat", "-f", "-c", "%T", s.existing())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// existing is the state folder, or the one in which it will be.
func (s *Store) existing() string {
	dir := s.State
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// compressions are the counterparts in btrfs of SmartOS's values.
var compressions = map[string]string{"off": "none", "on": "zstd", "zstd": "zstd", "lzo": "lzo", "zlib": "zlib",
	"gzip": "zlib"}

// fitBlocks checks what the disks of a guest want of their blocks, and of the file system on which
// they are.
func fitBlocks(g manifest.Guest, storage Storage, add func(path string, value any, reason, allowed string)) {
	boot := max(0, slices.IndexFunc(g.Disks, func(d manifest.Disk) bool { return d.Boot }))
	for i, d := range g.Disks {
		path := "disks." + strconv.Itoa(i) + "."
		logical, _, _ := d.GuestBlocks()
		large := d.GuestBlockSize != "" && logical != 512
		switch {
		case d.GuestBlockSize != "" && d.Media == "cdrom":
			add(path+"guest_block_size", d.GuestBlockSize, "CD drives have blocks of their own size", "remove it")
		case large && controllers[d.Model] == qemu.AHCI:
			add(path+"guest_block_size", d.GuestBlockSize, "disks of AHCI have logical blocks of 512 bytes",
				"write, for example, 512/4096, or use another model")
		case large && i == boot && g.Kernel == "" && g.Bootrom != "uefi":
			add(path+"guest_block_size", d.GuestBlockSize, "a BIOS starts only disks with logical blocks of 512 bytes",
				"write, for example, 512/4096, or set bootrom to uefi")
		}
		if d.BlockSize > 0 && !d.Made() {
			add(path+"block_size", d.BlockSize, "bakeoff does not make this disk", "remove it")
		}
		if d.Compression != "" {
			if reason, allowed := checkCompression(d, storage); reason != "" {
				add(path+"compression", d.Compression, reason, allowed)
			}
		}
	}
}

// checkCompression says why the storage cannot compress a disk; "" if it can.
func checkCompression(d manifest.Disk, storage Storage) (reason, allowed string) {
	switch {
	case !d.Made():
		return "bakeoff does not make this disk", "remove it"
	case storage == nil:
		return "the disks of these guests are temporary", "remove it"
	}
	switch at := storage.Storage(); {
	case at == quota.Btrfs && compressions[d.Compression] == "":
		return "files on btrfs cannot have this compression", "use on, off, zstd, lzo, zlib or gzip"
	case at == quota.Btrfs:
	case at == "zfs":
		return "disks are files in a dataset of ZFS, which has one compression for all its files",
			"remove it, and set the compression of the dataset with `zfs set`"
	case d.Compression != "off":
		return "the state folder is on " + at + ", which does not compress files",
			"remove it, or put the state folder on btrfs (BAKEOFF_STATE)"
	}
	return "", ""
}

// compress gives a new disk the compression of the manifest.
func (s *Store) compress(path string, x qemu.Disk, value string) fill {
	if value == "" {
		return nil
	}
	return func(ctx context.Context, to string) error {
		return fault.Op(path+".compression", s.compressFile(ctx, filepath.Join(to, x.Path), value))
	}
}

// compressFile sets how the file system compresses what is written to a disk from now on; "" is
// the setting of its mount.
func (s *Store) compressFile(ctx context.Context, file, value string) error {
	if s.Storage() != quota.Btrfs {
		return nil // nothing compresses there
	}
	return disk.Compress(ctx, s.Host, file, compressions[value])
}

// recompress gives the disks that the guest has the compression of another manifest.
func (g *Guest) recompress(ctx context.Context, m manifest.Guest) error {
	for i, d := range m.Disks {
		was := slices.IndexFunc(g.Disks, func(o manifest.Disk) bool { return o.Path == d.Path })
		if !d.Made() || was < 0 || g.Disks[was].Compression == d.Compression {
			continue
		}
		if err := g.store.compressFile(ctx, d.Path, d.Compression); err != nil {
			return fault.Op("disks."+strconv.Itoa(i)+".compression", err)
		}
	}
	return nil
}

// onlyCompression tells whether the disks of two manifests differ in their compression alone.
func onlyCompression(a, b []manifest.Disk) bool {
	return slices.EqualFunc(a, b, func(x, y manifest.Disk) bool {
		x.Compression = y.Compression
		return x == y
	})
}
