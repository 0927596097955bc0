package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// openZFS is a host with the dataset tank/state, which answers as OpenZFS 2.3.9 does.
type openZFS struct {
	local.Conn
	datasets []string
	mounts   []string // folders
	used     string   // what each dataset refers to, in bytes
	limits   []string // those that were tried
	busy     string   // why no dataset can be destroyed
}

func (z *openZFS) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if name != "/proc/self/mountinfo" {
		return z.Conn.ReadFile(ctx, name)
	}
	text := ""
	for i, at := range z.mounts {
		text += fmt.Sprintf("%d 1 0:%d / %s rw - zfs tank rw\n", i+2, i+2, at)
	}
	return []byte(text), nil
}

func (z *openZFS) Exec(_ context.Context, c conn.Cmd) (conn.Exit, error) {
	last := c.Argv[len(c.Argv)-1]
	fails := func(text string) (conn.Exit, error) {
		fmt.Fprintln(c.Stderr, text)
		return conn.Exit{Code: 1}, nil
	}
	switch strings.Join(c.Argv[:min(2, len(c.Argv))], " ") {
	case "zfs list":
		fmt.Fprintln(c.Stdout, "tank/state")
	case "zfs create":
		z.datasets = append(z.datasets, last)
	case "zfs get":
		fmt.Fprintln(c.Stdout, z.used)
	case "zfs set":
		limit := strings.TrimPrefix(c.Argv[2], "refquota=")
		if z.limits = append(z.limits, limit); limit != "none" && limit != z.used && z.used != "" {
			return fails("cannot set property for '" + last + "': size is less than current used or reserved space")
		}
	case "zfs destroy":
		switch {
		case !slices.Contains(z.datasets, last):
			return fails("cannot open '" + last + "': dataset does not exist")
		case z.busy != "":
			return fails("cannot destroy '" + last + "': " + z.busy)
		}
		z.datasets = slices.DeleteFunc(z.datasets, func(d string) bool { return d == last })
	case "mount -t":
		at, err := filepath.EvalSymlinks(last)
		if err != nil || slices.Contains(z.mounts, at) || !slices.Contains(z.datasets, c.Argv[3]) {
			return fails("cannot mount")
		}
		z.mounts = append(z.mounts, at)
	case "umount " + last:
		at, _ := filepath.EvalSymlinks(last)
		z.mounts = slices.DeleteFunc(z.mounts, func(m string) bool { return m == at })
	default:
		return fails("unexpected")
	}
	return conn.Exit{}, nil
}

// A folder below a symbolic link gets a dataset, which is mounted again after a restart of the host, and
// which Free destroys with the folder.
func TestDataset(t *testing.T) {
	z, real := &openZFS{}, t.TempDir()
	d, at := datasets{z}, filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, at); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(at, "a")
	if err := d.Make(t.Context(), dir); err != nil || len(z.datasets) != 1 || len(z.mounts) != 1 {
		t.Fatalf("%v, %+v", err, z)
	}
	if !strings.HasPrefix(z.datasets[0], "tank/state/bakeoff-") {
		t.Errorf("the dataset is %s", z.datasets[0])
	}
	z.mounts = nil
	if can, err := d.Limitable(t.Context(), dir); can || err != nil {
		t.Errorf("not mounted: %v, %v", can, err)
	}
	for range 2 { // the second does nothing
		if err := d.Mount(t.Context(), dir); err != nil || len(z.mounts) != 1 {
			t.Errorf("%v, %q", err, z.mounts)
		}
	}
	if can, err := d.Limitable(t.Context(), dir); !can || err != nil {
		t.Errorf("mounted: %v, %v", can, err)
	}
	for range 2 {
		if err := d.Free(t.Context(), dir); err != nil || len(z.datasets)+len(z.mounts) != 0 {
			t.Errorf("%v, %+v", err, z)
		}
	}
	if left, err := os.ReadDir(real); len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// ZFS refuses a limit below what is in a dataset, which is then the limit.
func TestLimitBelowUse(t *testing.T) {
	z, dir := &openZFS{}, filepath.Join(t.TempDir(), "a")
	d := datasets{z}
	if err := d.Make(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	z.used = "3000000000"
	if err := d.Limit(t.Context(), dir, 1); err != nil || !slices.Equal(z.limits, []string{"1073741824", "3000000000"}) {
		t.Errorf("%v, %q", err, z.limits)
	}
	z.used, z.limits = "3000000000", nil
	if err := d.Limit(t.Context(), dir, 4); err == nil || len(z.limits) > 3 { // for another reason
		t.Errorf("%v, %q", err, z.limits)
	}
	z.used, z.limits = "", nil
	if err := errors.Join(d.Limit(t.Context(), dir, 4), d.Limit(t.Context(), dir, 0)); err != nil ||
		!slices.Equal(z.limits, []string{"4294967296", "none"}) {
		t.Errorf("%v, %q", err, z.limits)
	}
}

// A dataset that cannot be destroyed keeps its name until somebody else takes it. A name that bakeoff would
// not give is refused.
func TestBusyDataset(t *testing.T) {
	z, dir := &openZFS{busy: "dataset is busy"}, filepath.Join(t.TempDir(), "a")
	d := datasets{z}
	if err := d.Make(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	var busy *Busy
	if err := d.Free(t.Context(), dir); !errors.As(err, &busy) || busy.Dataset != z.datasets[0] {
		t.Errorf("%v", err)
	}
	if has, err := HasDataset(dir); !has || err != nil {
		t.Errorf("%v, %v", has, err)
	}
	if err := d.Mount(t.Context(), dir); err != nil || len(z.mounts) != 1 { // its files are not lost
		t.Errorf("%v, %q", err, z.mounts)
	}
	if err := errors.Join(d.Free(t.Context(), dir), d.Forget(dir)); !errors.As(err, &busy) {
		t.Error(err)
	}
	if has, err := HasDataset(dir); has || err != nil {
		t.Errorf("%v, %v", has, err)
	}
	if err := os.WriteFile(dir+markerSuffix, []byte("../tank\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Free(t.Context(), dir); !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "is not a dataset") {
		t.Errorf("%v", err)
	}
}
