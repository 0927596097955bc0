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
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/provision/lease"
	"bakeoff/provision/quota"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// limiter limits what the containers of the store write.
func (s *Store) limiter() (quota.Limiter, error) {
	if s.freebsd() {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "bakeoff cannot limit what a jail writes"), "remove it")
	}
	at := s.Storage()
	l := quota.On(s.Host, at)
	if l == nil {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "the state folder is on %s, where bakeoff cannot limit what "+
			"a container writes", cmp.Or(at, "an unknown file system")),
			"remove it, or put the state folder on btrfs, ext4, XFS or ZFS (BAKEOFF_STATE)")
	}
	return l, nil
}

// CheckQuota says why bakeoff cannot limit what containers write; nil if it can.
func (s *Store) CheckQuota() error {
	_, err := s.checkedLimiter()
	return err
}

// checkedLimiter is limiter if the storage has quotas.
func (s *Store) checkedLimiter() (quota.Limiter, error) {
	l, err := s.limiter()
	if err != nil {
		return nil, err
	}
	if err := l.Check(context.Background(), s.existing()); err != nil {
		reason, fix := reasonOf(err)
		if fix != "" {
			fix = ", or " + fix
		}
		return nil, fault.WithFix(fault.New(fault.Unsupported, "%s", reason), "remove it"+fix)
	}
	return l, nil
}

// reasonOf divides the text of an error into what is wrong and what to do.
func reasonOf(err error) (reason, fix string) {
	fix = fault.Fix(err)
	return strings.TrimSuffix(err.Error(), "; "+fix), fix
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
			reason, fix := reasonOf(err)
			add("quota", g.Quota, reason, fix)
		}
	}
}

// makeEnv makes the folder of a container. If the storage has quotas, the folder has no limit yet: the
// runtime also writes into it while the container starts. has tells whether it can have a limit.
func (g *Guest) makeEnv(ctx context.Context) (has bool, _ error) {
	dir := g.store.envDir(g.UUID)
	l, err := g.store.checkedLimiter()
	if err != nil {
		if g.Quota != 0 && g.Quota != manifest.UsualQuota(g.Brand) {
			return false, fault.Op("quota: "+strconv.Itoa(g.Quota), err)
		}
		return false, os.MkdirAll(dir, 0o700)
	}
	if m, ok := l.(quota.Mounter); ok {
		return true, errors.Join(os.MkdirAll(dir, 0o700), g.makeApart(ctx, m))
	}
	if has, err := limitable(ctx, l, dir); err != nil {
		return false, err
	} else if has {
		return true, l.Limit(ctx, dir, 0)
	}
	return true, g.makeLimitable(ctx, l, dir)
}

// makeApart makes the folder of what a container has written, where that is a mount point, or removes its
// limit. What the guest wrote before into the folder of the container counts until all of it is copied.
func (g *Guest) makeApart(ctx context.Context, m quota.Mounter) error {
	dir, old := g.store.apartDir(g.UUID), filepath.Join(g.store.envDir(g.UUID), isolation.Upper)
	gone := old + ".gone"
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	_, err := os.Stat(old)
	before := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made, err := quota.HasDataset(dir)
	if err != nil {
		return err
	}
	if made && !before {
		if err := m.Mount(ctx, dir); err != nil {
			return err
		}
		return m.Limit(ctx, dir, 0)
	}
	if err := errors.Join(g.store.freeApart(ctx, g.UUID), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return err
	}
	if err := m.Make(ctx, dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil || !before {
		return err
	}
	if err := g.copyWritten(ctx, old, filepath.Join(dir, isolation.Upper)); err != nil {
		return err
	}
	// A pool writes all that was copied before this name, or together with it.
	if err := os.Rename(old, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// freeHalf frees what a killed makeApart has copied in part.
func (g *Guest) freeHalf(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(g.store.envDir(g.UUID), isolation.Upper)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return g.store.freeApart(ctx, g.UUID)
}

// dirApart is the folder of the mount points of what containers have written, in the state folder.
const dirApart = "written"

// written is the folder with what a container has written, and mounts it.
func (g *Guest) written(ctx context.Context) (string, error) {
	env, apart := g.store.envDir(g.UUID), g.store.apartDir(g.UUID)
	made, err := quota.HasDataset(apart)
	if !made || err != nil {
		return env, err
	}
	if _, err := os.Stat(filepath.Join(env, isolation.Upper)); err == nil {
		return env, nil // its next start copies it
	}
	m, err := g.store.mounter()
	if err != nil {
		return "", err
	}
	return apart, m.Mount(ctx, apart)
}

// mounter is limiter for guests that have datasets.
func (s *Store) mounter() (quota.Mounter, error) {
	l, err := s.limiter()
	m, ok := l.(quota.Mounter)
	if err != nil || !ok {
		return nil, fault.WithFix(fault.New(fault.Lab, "the files that the guest wrote are in a ZFS dataset, but the "+
			"state folder %s is not on ZFS any more", s.State), "put the state folder back to where the guest was made")
	}
	return m, nil
}

// freeApart frees the folder of what a container has written, after the folder of the container: the root there
// would keep the dataset busy. If the dataset cannot be destroyed now, the next run or "bakeoff clean" does.
func (s *Store) freeApart(ctx context.Context, uuid string) error {
	dir := s.apartDir(uuid)
	if has, err := quota.HasDataset(dir); !has || err != nil {
		return err
	}
	m, err := s.mounter()
	if err != nil {
		return err
	}
	err = m.Free(ctx, dir)
	var busy *quota.Busy
	if !errors.As(err, &busy) {
		return fault.Op("quota", err)
	}
	l := lease.Lease{Lifetime: lease.Run, Label: "left-" + uuid[:8] + "-" + NewUUID()[:8],
		Name: "dataset of a deleted guest", Owner: "guest " + uuid, PID: os.Getpid(), Started: time.Now().UTC()}
	l.Driver = technologies[manifest.Crun].Doc().Name // every driver of containers destroys datasets
	l.Dir = s.leases().Place(l.Label)
	if err := errors.Join(s.leases().Write(ctx, l), os.MkdirAll(l.Dir, 0o700)); err != nil {
		return err
	}
	if err := volume.LeaveDataset(ctx, s.Host, l.Dir, busy.Dataset); err != nil {
		return errors.Join(busy, err)
	}
	return m.Forget(dir)
}

// makeLimitable puts a folder that can have a limit in the place of the folder of a container, which may
// exist: its guest may have written something before the storage had quotas.
func (g *Guest) makeLimitable(ctx context.Context, l quota.Limiter, dir string) error {
	making := g.Path(beingMade + "env")
	if err := errors.Join(os.RemoveAll(making), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return err
	}
	if err := l.Make(ctx, making); err != nil {
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

// limitable tells whether the folder of a container exists and can have a limit.
func limitable(ctx context.Context, l quota.Limiter, dir string) (bool, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return l.Limitable(ctx, dir)
}

// setQuota limits what is in the folder of the container, in GiB, and tells whether it can have a limit.
func (g *Guest) setQuota(ctx context.Context, gib int) (has bool, _ error) {
	l, err := g.store.checkedLimiter()
	if err != nil {
		return false, nil // the storage has no quotas
	}
	dir := g.store.envDir(g.UUID)
	if _, ok := l.(quota.Mounter); ok {
		dir = g.store.apartDir(g.UUID)
	}
	if has, err := limitable(ctx, l, dir); err != nil || !has {
		return false, fault.Op("quota", err)
	}
	return true, fault.Op("quota", l.Limit(ctx, dir, gib))
}

// freeQuota removes what the storage keeps about the folder of a container that is removed next.
func (s *Store) freeQuota(ctx context.Context, uuid string) error {
	dir := s.envDir(uuid)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // that of a machine, or it was never started
	}
	l, err := s.limiter()
	if err != nil {
		return nil // the storage has no quotas
	}
	if _, ok := l.(quota.Mounter); ok {
		return nil // freeApart does it
	}
	return fault.Op("quota", l.Free(ctx, dir))
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
	has, err := g.setQuota(ctx, m.Quota)
	if err == nil && !has {
		err = fault.New(fault.Lab, "quota: the state folder lost its quotas while the guest was starting")
	}
	return err
}

// applyQuota gives a container that runs the quota of the manifest. Otherwise its next start does.
func (g *Guest) applyQuota(ctx context.Context) error {
	if g.Supervisor == 0 || g.Brand.Machine() || jailed(g.Guest) {
		return nil
	}
	has, err := g.setQuota(ctx, g.Quota)
	if err == nil && !has && g.Quota != 0 && g.Quota != manifest.UsualQuota(g.Brand) {
		err = fault.WithFix(fault.New(fault.Unsupported, "quota: guest %s was started before its storage had quotas",
			g.name()), "run `bakeoff vm stop "+g.name()+"`, and start the guest after the update")
	}
	return err
}

// liftQuota removes the limit of a container that does not run, until its next start.
func (g *Guest) liftQuota(ctx context.Context) error {
	if g.Brand.Machine() || jailed(g.Guest) {
		return nil
	}
	_, err := g.setQuota(ctx, 0)
	return err
}
