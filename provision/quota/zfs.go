package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// datasets makes a dataset for each folder, whose property refquota is the limit: snapshots do not count. A
// file beside the folder names the dataset, from before it exists until it is destroyed. The mount point
// legacy leaves the mounts to bakeoff.
//
// Source: zfsprops(7), zfs-create(8), zfs-destroy(8), zfs-rename(8).
type datasets struct{ host conn.Conn }

// markerSuffix ends the name of the file with the last part of the name of the dataset of a folder. The rest
// of the name is that of the dataset in which this file is.
const markerSuffix = ".dataset"

// datasetForm is the form of the text in this file.
var datasetForm = lazy.Compile(`^bakeoff-[0-9a-f]{12}$`)

func (d datasets) output(ctx context.Context, argv ...string) (string, error) {
	out, err := conn.AdminOutput(ctx, d.host, nil, argv...)
	return strings.TrimSpace(string(out)), err
}

func (d datasets) run(ctx context.Context, argv ...string) error {
	_, err := d.output(ctx, argv...)
	return err
}

// of is the dataset in which a folder is.
func (d datasets) of(ctx context.Context, dir string) (string, error) {
	return d.output(ctx, "zfs", "list", "-H", "-o", "name", dir)
}

// named is the dataset of a folder; "" if the folder has none.
func (d datasets) named(ctx context.Context, dir string) (string, error) {
	b, err := os.ReadFile(dir + markerSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	name := strings.TrimSpace(string(b))
	if err == nil && !datasetForm.MatchString(name) {
		err = fault.New(fault.Lab, "%s names %q, which is not a dataset of bakeoff", dir+markerSuffix, name)
	}
	if err != nil {
		return "", err
	}
	parent, err := d.of(ctx, filepath.Dir(dir))
	return path.Join(parent, name), err
}

// mounted tells whether a folder is a mount point. The kernel names it without symbolic links.
func (d datasets) mounted(ctx context.Context, dir string) (bool, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	at := filepath.Join(parent, filepath.Base(dir))
	all, err := volume.Mounts(ctx, d.host, at)
	return slices.Contains(all, at), err
}

func (d datasets) Check(ctx context.Context, dir string) error {
	_, err := d.of(ctx, dir)
	switch {
	case fault.Is(err, fault.NotFound):
		err = fault.WithFix(fault.New(fault.Unsupported, "zfs is not installed"), "run `apt-get install zfsutils-linux`")
	case os.Getuid() != 0:
		err = fault.WithFix(fault.New(fault.Unsupported, "only root can make datasets for %s", dir),
			"run this command as root")
	case err != nil:
		err = fault.Wrap(fault.Unsupported, "the dataset of "+dir, err)
	}
	return err
}

func (d datasets) Make(ctx context.Context, dir string) error {
	parent, err := d.of(ctx, filepath.Dir(dir))
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	var b [6]byte
	rand.Read(b[:]) // never fails
	name := fmt.Sprintf("bakeoff-%x", b)
	err = atomicfile.Write(dir+markerSuffix, []byte(name+"\n"), 0o600)
	if err == nil {
		err = d.run(ctx, "zfs", "create", "-o", "mountpoint=legacy", "-o", "bakeoff:folder="+dir, path.Join(parent, name))
	}
	if err == nil {
		err = d.Mount(ctx, dir)
	}
	if err != nil {
		return errors.Join(err, d.Free(context.WithoutCancel(ctx), dir))
	}
	return nil
}

// HasDataset tells whether a Mounter has made a folder, and has not freed it. The folder need not be mounted.
func HasDataset(dir string) (bool, error) {
	_, err := os.Stat(dir + markerSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Mount implements Mounter.
func (d datasets) Mount(ctx context.Context, dir string) error {
	if mounted, err := d.mounted(ctx, dir); mounted || err != nil {
		return err
	}
	dataset, err := d.named(ctx, dir)
	if err == nil && dataset == "" {
		err = fault.New(fault.Lab, "%s has no dataset", dir)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err = d.run(ctx, "mount", "-t", "zfs", dataset, dir)
	if err != nil { // unless another command was faster
		if mounted, merr := d.mounted(ctx, dir); mounted && merr == nil {
			return nil
		}
	}
	return fault.Op("mount "+dataset, err)
}

// Limitable implements Limiter.
func (d datasets) Limitable(ctx context.Context, dir string) (bool, error) {
	if made, err := HasDataset(dir); !made || err != nil {
		return false, err
	}
	return d.mounted(ctx, dir)
}

// triesToLimit bounds how often Limit sets a limit while a program writes.
const triesToLimit = 10

// Limit implements Limiter. ZFS refuses a limit below what is in a dataset; the limit is then what is in it.
func (d datasets) Limit(ctx context.Context, dir string, gib int) error {
	dataset, err := d.named(ctx, dir)
	if err == nil && dataset == "" {
		err = fault.New(fault.Lab, "%s has no dataset", dir)
	}
	if err != nil {
		return err
	}
	limit, size := "none", uint64(gib)<<30
	if gib > 0 {
		limit = strconv.FormatUint(size, 10)
	}
	for i := 0; ; i++ {
		err = d.run(ctx, "zfs", "set", "refquota="+limit, dataset)
		if err == nil || gib == 0 || i == triesToLimit {
			return err
		}
		text, uerr := d.output(ctx, "zfs", "get", "-Hp", "-o", "value", "referenced", dataset)
		used, perr := strconv.ParseUint(text, 10, 64)
		if uerr = errors.Join(uerr, perr); uerr != nil {
			return errors.Join(err, uerr)
		}
		if used < size && i > 0 {
			return err // for another reason
		}
		limit = strconv.FormatUint(max(used, size), 10)
	}
}

// Busy is the error of Free for a dataset that cannot be destroyed now: a program uses a file in it, or it has
// snapshots that somebody else has made.
type Busy struct {
	Dataset string
	Err     error
}

func (b *Busy) Error() string { return b.Err.Error() }
func (b *Busy) Unwrap() error { return b.Err }

// Free implements Limiter. It removes the folder before it destroys the dataset: this removes the copies of
// the mount in other mount namespaces, which would keep the dataset busy.
//
// Source: Linux 8ed936b5671b (mounts on removed folders).
func (d datasets) Free(ctx context.Context, dir string) error {
	dataset, err := d.named(ctx, dir)
	if dataset == "" || err != nil {
		return err
	}
	for mounted := true; mounted; {
		if mounted, err = d.mounted(ctx, dir); err != nil {
			return err
		}
		if mounted && d.run(ctx, "umount", dir) != nil {
			if err := d.run(ctx, "umount", "--lazy", dir); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = d.run(ctx, "zfs", "destroy", dataset)
	if err != nil && !strings.Contains(err.Error(), "does not exist") {
		return &Busy{dataset, err}
	}
	return d.Forget(dir)
}

// Forget implements Mounter.
func (d datasets) Forget(dir string) error {
	if err := os.Remove(dir + markerSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
