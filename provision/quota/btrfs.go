package quota

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// subvolumes makes a subvolume for each folder, whose qgroup has the limit.
//
// Source: btrfs-quota(8), btrfs-qgroup(8).
type subvolumes struct{ host conn.Conn }

func (s subvolumes) output(ctx context.Context, argv ...string) (string, error) {
	out, err := conn.AdminOutput(ctx, s.host, nil, append([]string{"btrfs"}, argv...)...)
	return strings.TrimSpace(string(out)), err
}

func (s subvolumes) run(ctx context.Context, argv ...string) error {
	_, err := s.output(ctx, argv...)
	return err
}

func (s subvolumes) Check(ctx context.Context, dir string) error {
	err := s.run(ctx, "qgroup", "show", dir)
	switch {
	case fault.Is(err, fault.NotFound):
		err = fault.WithFix(fault.New(fault.Unsupported, "btrfs is not installed"), "run `apt-get install btrfs-progs`")
	case err != nil && strings.Contains(err.Error(), "quotas not enabled"):
		err = fault.WithFix(fault.New(fault.Unsupported, "the btrfs of %s has no quotas", dir),
			"run `btrfs quota enable "+dir+"`")
	case err != nil && os.Getuid() != 0:
		err = fault.WithFix(fault.New(fault.Unsupported, "only root can read the quotas of %s", dir),
			"run this command as root")
	case err != nil:
		err = fault.Wrap(fault.Unsupported, "the quotas of "+dir, err)
	}
	return err
}

func (s subvolumes) Make(ctx context.Context, dir string) error {
	return s.run(ctx, "subvolume", "create", dir)
}

// Limitable implements Limiter. The root of each subvolume has the same inode number.
func (s subvolumes) Limitable(ctx context.Context, dir string) (bool, error) {
	out, err := conn.Output(ctx, s.host, "stat", "-c", "%i", dir)
	return strings.TrimSpace(string(out)) == "256", err
}

// Limit implements Limiter. It changes the limit through the parent: the kernel refuses changes through a
// subvolume that is full.
func (s subvolumes) Limit(ctx context.Context, dir string, gib int) error {
	size := "none"
	if gib > 0 {
		size = strconv.Itoa(gib) + "G"
	}
	id, err := s.output(ctx, "inspect-internal", "rootid", dir)
	if err != nil {
		return err
	}
	return s.run(ctx, "qgroup", "limit", size, "0/"+id, filepath.Dir(dir))
}

// Free implements Limiter. btrfs removes the limit with the subvolume.
func (s subvolumes) Free(context.Context, string) error { return nil }
