package volume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/local"
	"bakeoff/driver"
	"bakeoff/fault"
	"bakeoff/unit"
)

const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 22 0:30 / /var/lib/x rw - tmpfs bakeoff rw
41 40 7:0 / /var/lib/x/volume/a rw - ext4 /dev/loop0 rw
42 22 0:31 / /var/lib/xy rw - tmpfs other rw
43 40 0:32 / /var/lib/x/with\040blank rw - tmpfs bakeoff rw
`

func TestBelow(t *testing.T) {
	want := []string{"/var/lib/x/with blank", "/var/lib/x/volume/a", "/var/lib/x"}
	if got := below(mountinfo, "/var/lib/x"); !slices.Equal(got, want) {
		t.Errorf("below: %q, want %q", got, want)
	}
}

func FuzzBelow(f *testing.F) {
	f.Add(mountinfo, "/var/lib/x")
	f.Add(`1 2 3 4 /a\04`, "/")
	f.Fuzz(func(t *testing.T, text, dir string) {
		for _, m := range below(text, dir) {
			if !strings.HasPrefix(m, strings.TrimSuffix(dir, "/")) {
				t.Errorf("%q is not below %q", m, dir)
			}
		}
	})
}

func TestADiskThatIsNotLabelledIsNotTouched(t *testing.T) {
	if err := CheckDisk(t.Context(), local.Conn{}, filepath.Join(t.TempDir(), "none")); !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "mkfs.ext4 -L bakeoff") {
		t.Errorf("error %v; want Unsupported with what its owner can do", err)
	}
}

func TestBackings(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts file systems; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host := local.Conn{}
	for _, backing := range []string{Dir, Tmpfs, Ext4} {
		t.Run(backing, func(t *testing.T) {
			dir := t.TempDir()
			at, err := Mount(ctx, host, dir, driver.Volume{Path: "/data", Backing: backing, Size: 16 * unit.MiB})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				for range 2 {
					if err := Close(context.WithoutCancel(ctx), host, dir); err != nil {
						t.Error(err)
					}
				}
				if left, err := Mounts(ctx, host, dir); err != nil || len(left) != 0 {
					t.Errorf("mounts left: %v %v", left, err)
				}
			}()
			if err := os.WriteFile(filepath.Join(at, "f"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			if backing == Dir {
				return
			}
			// A volume is as large as was declared: 32 MiB do not fit.
			if err := os.WriteFile(filepath.Join(at, "big"), make([]byte, 32<<20), 0o644); err == nil {
				t.Error("twice the declared size was written")
			}
			kind, err := conn.Output(ctx, host, "stat", "-f", "-c", "%T", at)
			want := map[string]string{Tmpfs: "tmpfs", Ext4: "ext2/ext3"}[backing]
			if err != nil || strings.TrimSpace(string(kind)) != want {
				t.Errorf("file system %q (%v), want %q", kind, err, want)
			}
		})
	}
}

func TestNoRoomIsSaidBeforehand(t *testing.T) {
	if testing.Short() {
		t.Skip("reserves blocks; run without -short")
	}
	_, err := File(t.Context(), local.Conn{}, t.TempDir(), driver.Volume{Path: "/data", Backing: Ext4, Size: 1 << 52})
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "smaller volume") {
		t.Errorf("error %v; want Unsupported with what would help", err)
	}
}
