package volume

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// openZFS is a host whose kernel has OpenZFS with the pool tank; it mounts nothing.
type openZFS struct {
	local.Conn
	datasets []string
	calls    []string
}

func (z *openZFS) Exec(ctx context.Context, c conn.Cmd) (conn.Exit, error) {
	last := c.Argv[len(c.Argv)-1]
	call := strings.Join(c.Argv, " ")
	switch {
	case c.Argv[0] == "mkdir":
		return z.Conn.Exec(ctx, c)
	case call == "test -e /dev/zfs":
	case c.Argv[0] == "test": // a device is there as long as its zvol
		if !slices.Contains(z.datasets, strings.TrimPrefix(last, "/dev/zvol/")) {
			return conn.Exit{Code: 1}, nil
		}
	case c.Argv[0] != "zfs", c.Argv[1] == "list" && slices.Contains(z.datasets, last):
	case c.Argv[1] == "create" && slices.Contains(z.datasets, filepath.Dir(last)):
		z.datasets = append(z.datasets, last)
	case c.Argv[1] == "rename" && slices.Contains(z.datasets, c.Argv[2]):
		z.datasets[slices.Index(z.datasets, c.Argv[2])] = last
	case c.Argv[1] == "destroy" && slices.Contains(z.datasets, last):
		z.datasets = slices.DeleteFunc(z.datasets, func(d string) bool { return d == last })
	default:
		io.WriteString(c.Stderr, "cannot open '"+last+"': dataset does not exist\n")
		return conn.Exit{Code: 1}, nil
	}
	z.calls = append(z.calls, call)
	return conn.Exit{}, nil
}

func (z *openZFS) called(want string) bool {
	return slices.ContainsFunc(z.calls, func(c string) bool { return strings.HasPrefix(c, want) })
}

// A dataset that was in use becomes one of an environment, whose end destroys it.
func TestLeaveDataset(t *testing.T) {
	z, dir := &openZFS{datasets: []string{"tank", "tank/vm", "tank/vm/bakeoff-a"}}, t.TempDir()
	if err := LeaveDataset(t.Context(), z, dir, "tank/vm/bakeoff-a"); err != nil {
		t.Fatal(err)
	}
	for _, dryRun := range []bool{true, false} {
		found, err := ReapDatasets(t.Context(), z, dir, dryRun)
		if len(found) != 1 || !strings.HasPrefix(found[0], "dataset tank/vm/bakeoff-") || err != nil {
			t.Errorf("%q, %v", found, err)
		}
	}
	if !slices.Equal(z.datasets, []string{"tank", "tank/vm"}) {
		t.Errorf("the datasets are %q", z.datasets)
	}
}

// A zvol has the block size of the lab file, and a dataset its record size; both are found by
// the directory of their environment alone, and destroyed.
func TestDatasets(t *testing.T) {
	for _, tt := range []struct {
		name  string
		v     Volume
		guest bool
		wants []string // beginnings of what was called; D is the dataset, DIR the directory
	}{
		{"zvol", Volume{Backing: Zvol, Properties: map[string]string{"volblocksize": "64KiB"}}, false, []string{
			"zfs create -V 1073741824 -o volblocksize=65536 D", "mke2fs -q -F -t ext4", "mount -t ext4 -o noatime /dev/zvol/D"}},
		{"zvol of a guest", Volume{Backing: Zvol}, true, []string{"zfs create -V 1073741824 D", "mke2fs -q -F -t ext4"}},
		{"dataset", Volume{Backing: Dataset,
			Properties: map[string]string{"recordsize": "64KiB", "compression": "lz4"}}, false,
			[]string{"zfs create -o mountpoint=DIR/volume/2f64617461 -o quota=1073741824 -o atime=off -o compression=lz4 " +
				"-o recordsize=65536 D"}},
		{"dataset of a guest", Volume{Backing: Dataset}, true, []string{
			"zfs create -o mountpoint=DIR/volume/2f64617461", "truncate -s 1073741824 DIR/volume/2f64617461/disk.raw",
			"mke2fs -q -F -t ext4 -m 0 -E nodiscard DIR/volume/2f64617461/disk.raw"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			z, dir := &openZFS{datasets: []string{"tank", "tank/vm"}}, t.TempDir()
			v := tt.v
			v.Path, v.Size, v.Pool = "/data", unit.GiB, "tank/vm"
			if err := Lacks(t.Context(), z, v.Backing, tt.guest); err != nil {
				t.Fatal(err)
			}
			var cached string
			var err error
			if tt.guest {
				_, cached, err = GuestDisk(t.Context(), z, dir, v, false)
			} else {
				_, cached, err = Mount(t.Context(), z, z, dir, v)
			}
			if err != nil || !strings.HasPrefix(cached, CacheUsed+": ZFS") {
				t.Fatalf("%q, %v", cached, err)
			}
			dataset := datasetName("tank/vm", dir, "/data")
			for _, want := range tt.wants {
				if want = strings.NewReplacer("DIR", dir, "D", dataset).Replace(want); !z.called(want) {
					t.Errorf("not called: %s\n%s", want, strings.Join(z.calls, "\n"))
				}
			}
			left, err := Left(t.Context(), z, dir)
			if err != nil || !slices.Equal(left, []string{"dataset " + dataset}) {
				t.Errorf("left: %q, %v", left, err)
			}
			for range 2 {
				if err := Close(t.Context(), z, dir); err != nil {
					t.Error(err)
				}
			}
			if left, err := Left(t.Context(), z, dir); err != nil || len(left)+len(z.datasets) != 2 {
				t.Errorf("left after Close: %q of %q, %v", left, z.datasets, err)
			}
		})
	}
}

// What a marker names is destroyed only if bakeoff would have given it that name.
func TestOnlyOwnDatasetsAreDestroyed(t *testing.T) {
	z, dir := &openZFS{datasets: []string{"tank", "tank/vm"}}, t.TempDir()
	for _, text := range []string{"tank/vm", "tank", "-r tank/vm", datasetName("tank/vm", "/other", "/data"), ""} {
		if err := os.WriteFile(filepath.Join(dir, "volume-"+hex("/data")+markerSuffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Close(t.Context(), z, dir); !fault.Is(err, fault.Lab) || z.called("zfs destroy") {
			t.Errorf("%q: %v, calls %q", text, err, z.calls)
		}
	}
}

// A host without OpenZFS, a pool that is not there and a name that is none are refused.
func TestDatasetsThatCannotBe(t *testing.T) {
	v := Volume{Path: "/data", Backing: Zvol, Size: unit.GiB, Pool: "tank/none"}
	z := &openZFS{datasets: []string{"tank"}}
	if _, _, err := GuestDisk(t.Context(), z, t.TempDir(), v, true); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "run zfs create tank/none, or name a dataset that zfs list shows") {
		t.Errorf("no pool: %v", err)
	}
	for _, pool := range []string{"", "-r", "tank@clean", "tank/", "tank//vm", "a b"} {
		v.Pool = pool
		if err := Check(v); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "pool must be a dataset") {
			t.Errorf("%q: %v", pool, err)
		}
	}
	for _, backing := range []string{Zvol, Dataset} {
		err := Lacks(t.Context(), equipped{}, backing, false)
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "no OpenZFS (/dev/zfs)") {
			t.Errorf("%s without OpenZFS: %v", backing, err)
		}
	}
}
