package vm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// CheckQuota says why bakeoff cannot limit what containers write; nil if it can. On btrfs, the folder
// of a container is a subvolume, whose qgroup has the limit.
//
// Source: btrfs-quota(8), btrfs-qgroup(8).
func (s *Store) CheckQuota() error {
	if s.freebsd() {
		return fault.WithFix(fault.New(fault.Unsupported, "bakeoff cannot limit what a jail writes"), "remove it")
	}
	if at := s.Storage(); at != btrfs {
		return fault.WithFix(fault.New(fault.Unsupported, "the state folder is on %s, where bakeoff cannot limit what a "+
			"container writes", cmp.Or(at, "an unknown file system")),
			"remove it, or put the state folder on btrfs (BAKEOFF_STATE)")
	}
	dir := s.existing()
	_, err := conn.AdminOutput(context.Background(), s.Host, nil, "btrfs", "qgroup", "show", dir)
	switch {
	case fault.Is(err, fault.NotFound):
		err = fault.WithFix(fault.New(fault.Unsupported, "btrfs is not installed"), "apt-get install btrfs-progs")
	case err != nil && strings.Contains(err.Error(), "quotas not enabled"):
		err = fault.WithFix(fault.New(fault.Unsupported, "the btrfs of the state folder has no quotas"),
			"remove it, or run `btrfs quota enable "+dir+"`")
	case err != nil && os.Getuid() != 0:
		err = fault.WithFix(fault.New(fault.Unsupported, "only root can read the quotas of the state folder"),
			"run this command as root")
	case err != nil:
		err = fault.WithFix(fault.Wrap(fault.Unsupported, "the quotas of the state folder", err), "remove it")
	}
	return err
}

// fitQuota checks the limit of what a guest writes. The default limits only where the storage can.
func fitQuota(g manifest.Guest, storage Storage, add func(path string, value any, reason, allowed string)) {
	switch {
	case g.Quota == 0 || g.Quota == manifest.UsualQuota(g.Brand):
	case g.Brand.Machine():
		add("quota", g.Quota, "bakeoff limits what a machine writes by the size of its disks", "remove it, and set the size")
	case storage == nil:
		add("quota", g.Quota, "the files of these guests are temporary", "remove it")
	default:
		if err := storage.CheckQuota(); err != nil {
			add("quota", g.Quota, err.Error(), fault.Fix(err))
		}
	}
}

// makeEnv makes the folder of a container. If the storage has quotas, it is a subvolume, without a
// limit: the runtime also writes into the folder while the container starts. has tells whether it can
// have a limit.
func (g *Guest) makeEnv(ctx context.Context) (has bool, _ error) {
	dir := g.store.envDir(g.UUID)
	if err := g.store.CheckQuota(); err != nil {
		if g.Quota != 0 && g.Quota != manifest.UsualQuota(g.Brand) {
			return false, fault.Op("quota: "+strconv.Itoa(g.Quota), err)
		}
		return false, os.MkdirAll(dir, 0o700)
	}
	if has, err := g.limitable(ctx); err != nil {
		return false, err
	} else if has {
		return true, g.limit(ctx, 0)
	}
	return true, g.makeSubvolume(ctx, dir)
}

// makeSubvolume puts a subvolume in the place of the folder of a container, which may exist: its guest
// may have written something before the storage had quotas.
func (g *Guest) makeSubvolume(ctx context.Context, dir string) error {
	making := g.Path(beingMade + "env")
	if err := errors.Join(os.RemoveAll(making), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return err
	}
	if _, err := conn.AdminOutput(ctx, g.store.Host, nil, "btrfs", "subvolume", "create", making); err != nil {
		return err
	}
	err := os.Chmod(making, 0o700)
	if err == nil {
		err = g.copyWritten(ctx, filepath.Join(dir, isolation.Upper), filepath.Join(making, isolation.Upper))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(making))
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(making, dir)
	}
	return errors.Join(exchange(making, dir), os.RemoveAll(making))
}

// limitable tells whether the folder of a container is a subvolume, and has quotas. The root of each subvolume has
// the same inode number.
func (g *Guest) limitable(ctx context.Context) (bool, error) {
	dir := g.store.envDir(g.UUID)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || g.store.CheckQuota() != nil {
		return false, nil
	}
	out, err := conn.Output(ctx, g.store.Host, "stat", "-c", "%i", dir)
	return strings.TrimSpace(string(out)) == "256", err
}

// limit limits what is in the folder of a container, in GiB; 0 means no limit.
func (g *Guest) limit(ctx context.Context, quota int) error {
	size := "none"
	if quota > 0 {
		size = strconv.Itoa(quota) + "G"
	}
	_, err := conn.AdminOutput(ctx, g.store.Host, nil, "btrfs", "qgroup", "limit", size, g.store.envDir(g.UUID))
	return fault.Op("quota", err)
}

// beginQuota limits a container that has started. It first waits until a program can start in it: its
// init process makes a socket in the folder.
func (g *Guest) beginQuota(ctx context.Context, in driver.Instance) error {
	if _, err := conn.Output(ctx, in, in.Info().Agent, "list"); err != nil {
		return fault.Op("quota", err)
	}
	whole, err := g.store.exclusive(ctx) // an update may change the quota now
	if err != nil {
		return err
	}
	defer whole.Release()
	var m manifest.Guest
	if err := readJSON(g.Path(fileManifest), &m); err != nil {
		return err
	}
	return g.limit(ctx, m.Quota)
}

// applyQuota gives a container that runs the quota of the manifest. Otherwise its next start does.
func (g *Guest) applyQuota(ctx context.Context) error {
	if g.Supervisor == 0 || g.Brand.Machine() || jailed(g.Guest) {
		return nil
	}
	has, err := g.limitable(ctx)
	if err == nil && !has && g.Quota != 0 && g.Quota != manifest.UsualQuota(g.Brand) {
		err = fault.WithFix(fault.New(fault.Unsupported, "quota: guest %s has run since before its storage had quotas",
			g.name()), "run `bakeoff vm stop "+g.name()+"`, and start the guest after the update")
	}
	if err != nil || !has {
		return err
	}
	return g.limit(ctx, g.Quota)
}

// liftQuota removes the limit of a container that does not run, until its next start.
func (g *Guest) liftQuota(ctx context.Context) error {
	if g.Brand.Machine() || jailed(g.Guest) {
		return nil
	}
	if has, err := g.limitable(ctx); !has || err != nil {
		return err
	}
	return g.limit(ctx, 0)
}
