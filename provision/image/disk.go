package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/image/partition"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/unpack"
	"bakeoff/reach/conn"
)

// ForMachines refuses a disk as the image of a driver that boots no machine. Errors are
// of kind fault.Invalid.
func ForMachines(ref string, boots bool) error {
	r, err := reference.Parse(ref)
	if err != nil || r.Kind != reference.Disk || boots {
		return nil // another error of the reference is for others to report
	}
	return fault.WithFix(fault.New(fault.Invalid, "image %s is the disk of a machine, but the driver starts no machines",
		ref),
		"use the driver qemu or firecracker, or mount the disk and write rootfs: with its folder")
}

// diskFile returns the folder of the image that the file of a disk holds, and copies its
// root file system into the store if it is not there.
func (s *Store) diskFile(ctx context.Context, ref reference.Reference) (string, error) {
	before, err := os.Stat(ref.Path)
	if err == nil && !before.Mode().IsRegular() {
		err = errors.New("the path does not name a regular file")
	}
	if err != nil {
		return "", fault.WithFix(fault.Wrap(fault.Invalid, "image "+ref.Text, err), "name a raw or qcow2 file")
	}
	s.reportProgress("reading %s", ref.Path)
	digest, err := digestOf(ctx, unpack.Layer{Name: ref.Path,
		Open: func() (io.ReadCloser, error) { return os.Open(ref.Path) }})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.Dir, rootOf(kindDisk, digest))
	if exists(filepath.Join(dir, description)) {
		return dir, nil
	}
	s.reportProgress("copying the root of %s (once)", ref.Path)
	tmp, err := s.partial(dir)
	if err != nil {
		return "", err
	}
	if err = closeToUsers(tmp); err == nil {
		err = s.copyRoot(ctx, ref.Path, tmp)
	}
	if err == nil {
		if after, serr := os.Stat(ref.Path); serr != nil || after.Size() != before.Size() ||
			!after.ModTime().Equal(before.ModTime()) {
			err = fault.WithFix(fault.New(fault.Invalid, "%s changed while bakeoff read it", ref.Path),
				"stop the machine that uses it, and start again")
		}
	}
	if err == nil {
		err = finishFolder(tmp, dir, Root{Schema: Schema, Ref: ref.Text, Digest: digest, Arch: runtime.GOARCH,
			Built: time.Now().UTC().Truncate(time.Second)})
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	return dir, nil
}

// copyRoot copies the root file system of a disk into the folder dir.
func (s *Store) copyRoot(ctx context.Context, file, dir string) error {
	head := make([]byte, 512)
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	n, err := io.ReadFull(f, head)
	f.Close()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	packed, err := partition.QCOW2(head[:n])
	if err != nil {
		return err
	}
	if packed {
		raw := filepath.Join(dir, "whole.raw")
		if file, err = filepath.Abs(file); err == nil {
			err = disk.ToRaw(ctx, s.Host, file, raw)
		}
		if failed := (*conn.ExitError)(nil); errors.As(err, &failed) {
			err = fault.New(fault.Invalid, "%w", err)
		}
		if err != nil {
			return err
		}
		defer os.Remove(raw)
		file = raw
	}
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	r, err := partition.Root(from, info.Size(), runtime.GOARCH)
	if err != nil {
		return err
	}
	return copySparse(ctx, filepath.Join(dir, diskFile), io.NewSectionReader(from, r.Offset, r.Size))
}

// copySparse writes a new file. Where the source has only zeros, the file has holes.
func copySparse(ctx context.Context, name string, from *io.SectionReader) (err error) {
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	buffer, zero := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := int64(0); at < from.Size(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return fmt.Errorf("read at byte %d: %w", at, err)
		}
		if !bytes.Equal(buffer[:n], zero[:n]) {
			if _, err := to.WriteAt(buffer[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	if err := to.Truncate(from.Size()); err != nil {
		return err
	}
	return to.Sync()
}

// makeDisk creates an ext4 image of img's root at path without mounting it. It has
// no journal: the image is only read, or written for one trial.
func (s *Store) makeDisk(ctx context.Context, img Root, path string) error {
	size, err := sizeOnDisk(img.Dir)
	if err != nil {
		return err
	}
	s.reportProgress("creating a disk image of %s", img.Ref)
	tmp := path + partial
	// The identifiers come from the digest, so that equal roots give equal
	// disks.
	id := strings.TrimPrefix(img.Digest, "sha256:")
	uuid := id[0:8] + "-" + id[8:12] + "-4" + id[13:16] + "-8" + id[17:20] + "-" + id[20:32]
	err = disk.Ext4{Folder: img.Dir, Size: (size>>20*5/4 + 64) << 20,
		Options: []string{"-O", "^has_journal", "-U", uuid}, Extended: []string{"hash_seed=" + uuid}}.Make(ctx, s.Host, tmp)
	if err != nil {
		return errors.Join(err, remove(tmp))
	}
	return os.Rename(tmp, path)
}
