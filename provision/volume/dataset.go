package volume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/sleep"
	"bakeoff/provision/disk"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
)

// poolForm is the form of the dataset below which Dataset and Zvol create theirs: zfs(8)
// reads it as neither a flag nor a snapshot.
var poolForm = lazy.Compile(`^[A-Za-z][A-Za-z0-9_.:-]*(/[A-Za-z0-9_.:-]+)*$`)

// deviceTime bounds the wait for the device of a new zvol, which udev names.
const deviceTime = 20 * time.Second

// markerSuffix ends the name of the file in an environment's directory that says which
// dataset a volume has. It is written before the dataset is created.
const markerSuffix = ".dataset"

// datasetName is the dataset of the volume at volumePath of the environment in dir.
func datasetName(pool, dir, volumePath string) string {
	sum := sha256.Sum256([]byte(dir + "\x00" + volumePath))
	return fmt.Sprintf("%s/bakeoff-%x", pool, sum[:6])
}

// createDataset creates the dataset of v below its pool: a volume of blocks, or a file
// system that is mounted at at.
//
// Source: zfs-create(8), zfsprops(7).
func createDataset(ctx context.Context, host conn.Conn, dir, at string, v Volume) (dataset string, err error) {
	if err := run(ctx, host, "zfs", "list", "-H", "-o", "name", v.Pool); err != nil {
		return "", fault.WithFix(fault.Wrap(fault.Unsupported, "pool "+v.Pool, err), "run zfs create "+v.Pool+
			", or name a dataset that zfs list shows")
	}
	dataset = datasetName(v.Pool, dir, v.Path)
	marker := path.Join(dir, "volume-"+hex(v.Path)+markerSuffix)
	if err := host.Push(ctx, marker, 0o600, bytes.NewReader([]byte(dataset))); err != nil {
		return "", err
	}
	argv, size := []string{"zfs", "create"}, strconv.FormatInt(int64(v.Size), 10)
	if v.Backing == Zvol {
		argv = append(argv, "-V", size)
	} else {
		argv = append(argv, "-o", "mountpoint="+at, "-o", "quota="+size, "-o", "atime=off")
	}
	for _, name := range slices.Sorted(maps.Keys(v.Properties)) {
		argv = append(argv, "-o", name+"="+zfsValue(name, v.Properties[name]))
	}
	if err := run(ctx, host, append(argv, dataset)...); err != nil {
		return "", fault.WithFix(fault.Wrap(fault.Unsupported, "zfs create", err),
			"`zfs get all "+v.Pool+"` lists the properties that this host's ZFS has, and zfs list shows the free space")
	}
	return dataset, nil
}

// createZvol creates the zvol of v and returns its device when the host shows it.
func createZvol(ctx context.Context, host conn.Conn, dir string, v Volume) (string, error) {
	dataset, err := createDataset(ctx, host, dir, "", v)
	if err != nil {
		return "", err
	}
	device := "/dev/zvol/" + dataset
	for end := time.Now().Add(deviceTime); run(ctx, host, "test", "-e", device) != nil; {
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return "", err
		}
		if time.Now().After(end) {
			return "", fault.New(fault.Lab, "the host did not show %s within %v", device, deviceTime)
		}
	}
	return device, nil
}

// GuestDisk creates the disk with which a guest has v, a file or a block device, and
// returns its path and why the host's memory holds its blocks ("" if it need not). Except
// for a bare one, which the guest formats itself, it has a file system (MountType).
//
// Of a pool in a file, three quarters are the disk: the rest is for ZFS.
func GuestDisk(ctx context.Context, host conn.Conn, dir string, v Volume, bare bool) (at, cached string,
	err error) {
	if err := Check(v); err != nil {
		return "", "", err
	}
	switch v.Backing {
	case Disk:
		return v.Device, "", CheckDisk(ctx, host, v.Device)
	case Zvol:
		at, err = createZvol(ctx, host, dir, v)
		cached = CacheUsed + ": ZFS caches the blocks of a zvol"
	case ZFS, Dataset:
		size := v.Size
		if v.Backing == ZFS {
			size = v.Size / 4 * 3 &^ (1<<20 - 1)
		}
		var mounted string
		if mounted, cached, err = Mount(ctx, host, host, dir, v); err == nil {
			at = path.Join(mounted, "disk.raw")
			err = run(ctx, host, "truncate", "-s", strconv.FormatInt(int64(size), 10), at)
		}
	case FFS:
		at = path.Join(dir, "volume-"+hex(v.Path)+".ffs")
		cached = CacheUsed
		err = run(ctx, host, "truncate", "-s", strconv.FormatInt(int64(v.Size), 10), at)
	default:
		at, err = File(ctx, host, dir, v)
		return at, "", err
	}
	if err == nil && !bare {
		err = disk.Ext4{Options: []string{"-m", "0"}, Extended: []string{"nodiscard"}}.Make(ctx, host, at)
	}
	return at, cached, err
}

// mountDataset mounts a new dataset, or a new zvol with ext4.
func mountDataset(ctx context.Context, host conn.Conn, dir, at string, v Volume) error {
	if v.Backing == Dataset {
		_, err := createDataset(ctx, host, dir, at, v)
		return err
	}
	device, _, err := GuestDisk(ctx, host, dir, v, false)
	if err != nil {
		return err
	}
	return run(ctx, host, "mount", "-t", "ext4", "-o", "noatime", device, at)
}

// datasets lists the datasets of the environment in dir that are there, by what its markers
// say. A name that bakeoff would not have given is not one of them.
func datasets(ctx context.Context, host conn.Conn, dir string) ([]string, error) {
	files := conn.FilesOf(host)
	names, err := files.ReadDir(ctx, dir)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("datasets of "+dir, err)
	}
	var out []string
	for _, n := range names {
		text, ok := strings.CutSuffix(n, markerSuffix)
		text, ok2 := strings.CutPrefix(text, "volume-")
		volumePath, uerr := unhex(text)
		if !ok || !ok2 || uerr != nil {
			continue
		}
		content, err := files.ReadFile(ctx, path.Join(dir, n))
		if err != nil {
			return nil, err
		}
		dataset := string(content)
		pool := path.Dir(dataset)
		if !poolForm.MatchString(pool) || dataset != datasetName(pool, dir, volumePath) {
			return nil, fault.New(fault.Lab, "%s names %q, which is not a dataset of its environment", path.Join(dir, n),
				dataset)
		}
		if run(ctx, host, "zfs", "list", "-H", "-o", "name", dataset) == nil {
			out = append(out, dataset)
		}
	}
	return out, nil
}

// ReapDatasets destroys the datasets of the environment in dir and returns them; with dryRun
// it only looks. Close does it, too, on Linux.
func ReapDatasets(ctx context.Context, host conn.Conn, dir string, dryRun bool) (found []string, err error) {
	all, err := datasets(ctx, host, dir)
	for _, d := range all {
		found = append(found, "dataset "+d)
	}
	if err == nil && !dryRun {
		err = closeDatasets(ctx, host, dir)
	}
	return found, err
}

// closeDatasets destroys the datasets of the environment in dir.
func closeDatasets(ctx context.Context, host conn.Conn, dir string) error {
	all, err := datasets(ctx, host, dir)
	for _, d := range all {
		if err := run(ctx, host, "zfs", "destroy", "-f", d); err != nil {
			return fault.Op("destroy "+d, err)
		}
	}
	return err
}

// LeaveDataset makes a dataset that cannot be destroyed now one of the environment in dir, which exists: Close
// and ReapDatasets destroy it. It gets the name that they know.
func LeaveDataset(ctx context.Context, host conn.Conn, dir, dataset string) error {
	name := datasetName(path.Dir(dataset), dir, "/")
	marker := path.Join(dir, "volume-"+hex("/")+markerSuffix)
	if err := host.Push(ctx, marker, 0o600, strings.NewReader(name)); err != nil {
		return err
	}
	return run(ctx, host, "zfs", "rename", dataset, name)
}

// lacksOpenZFS refuses a host without a kernel that has OpenZFS.
func lacksOpenZFS(ctx context.Context, host conn.Conn, backing string) error {
	if zfs.InKernel(ctx, host) || run(ctx, host, "test", "-e", "/dev/zfs") == nil || ctx.Err() != nil {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported,
		"the kernel of the host has no OpenZFS (/dev/zfs), which the backing %s needs", backing),
		"load it, or use backing: "+ZFS)
}
