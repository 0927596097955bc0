package quota

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"bakeoff/base/fault"
)

// projects gives each folder a project of its own, which has the limit. Files that are created in the
// folder get its project.
//
// Source: xfs_quota(8), chattr(1), quotactl(2).
type projects struct {
	kernel kernel
	ext4   bool
}

// kernel is what projects uses of the kernel.
type kernel interface {
	// state tells whether the file system of a folder counts what projects use, and enforces their limits.
	state(dir string) (counts, enforces bool, err error)
	// project is that of a folder; inherited tells whether new files in the folder get it.
	project(dir string) (id uint32, inherited bool, err error)
	// setProject gives a folder a project, which new files in the folder get, too.
	setProject(dir string, id uint32) error
	// known tells whether a project has files or a limit on the file system of a folder.
	known(dir string, id uint32) (bool, error)
	// limit limits what a project uses on the file system of a folder; 0 is no limit.
	limit(dir string, id uint32, bytes uint64) error
}

// least and ids are the first project that bakeoff uses, and their number. People and container engines
// count from 1.
const least, ids = 1 << 30, 1 << 30

func ours(id uint32) bool { return id >= least && id < least+ids }

func (p projects) name() string {
	if p.ext4 {
		return "ext4"
	}
	return "XFS"
}

func (p projects) Check(_ context.Context, dir string) error {
	counts, enforces, err := p.kernel.state(dir)
	if err != nil {
		return fault.Wrap(fault.Unsupported, "the project quotas of "+dir, err)
	}
	if !enforces {
		fix := "mount it with the option prjquota"
		if p.ext4 && !counts {
			fix = "unmount it, run `tune2fs -O project,quota -Q prjquota DEVICE`, and " + fix
		}
		return fault.WithFix(fault.New(fault.Unsupported, "the %s of %s has no project quotas", p.name(), dir), fix)
	}
	// Files cannot be moved into a folder whose files get another project.
	id, inherited, err := p.kernel.project(dir)
	if err != nil {
		return fault.Wrap(fault.Unsupported, "the project of "+dir, err)
	}
	if inherited && id != 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "new files in %s get the quota project %d, which "+
			"another program has set", dir,
			id), "use another folder, or remove its project with `chattr -P`")
	}
	return nil
}

func (p projects) Make(_ context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	id, err := p.unused(dir)
	if err == nil {
		err = p.kernel.setProject(dir, id)
	}
	if err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	return nil
}

// tries bounds the search for a project that nobody uses.
const tries = 100

// unused chooses a project. IDs are random, so two programs do not choose the same at the same time.
func (p projects) unused(dir string) (uint32, error) {
	for range tries {
		id := least + rand.Uint32N(ids)
		if known, err := p.kernel.known(dir, id); err != nil || !known {
			return id, err
		}
	}
	return 0, fault.New(fault.Lab, "all of %d random quota projects of %s are in use", tries, dir)
}

func (p projects) Limitable(_ context.Context, dir string) (bool, error) {
	id, inherited, err := p.kernel.project(dir)
	return inherited && ours(id), err
}

func (p projects) Limit(_ context.Context, dir string, gib int) error {
	id, _, err := p.kernel.project(dir)
	if err != nil {
		return err
	}
	if !ours(id) {
		return fault.New(fault.Lab, "the folder %s has the quota project %d, which another program has set", dir, id)
	}
	return p.kernel.limit(dir, id, uint64(gib)<<30)
}

// Free implements Limiter. The file system would keep the limit of a project without files.
func (p projects) Free(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if p.Check(ctx, filepath.Dir(dir)) != nil {
		return nil // there was none, or its limit cannot be changed now
	}
	limitable, err := p.Limitable(ctx, dir)
	if err != nil || !limitable {
		return err
	}
	return p.Limit(ctx, dir, 0)
}
