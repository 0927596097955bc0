package volume

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// disks is a host with a device that blkid knows nothing of.
type disks struct {
	local.Conn
	exit    conn.Exit // of test -b
	mounted string    // what lsblk prints
}

func (d *disks) Exec(_ context.Context, c conn.Cmd) (conn.Exit, error) {
	switch c.Argv[0] {
	case "test":
		return d.exit, nil
	case "lsblk":
		_, err := io.WriteString(c.Stdout, d.mounted)
		return conn.Exit{}, err
	}
	return conn.Exit{Code: 2}, nil
}

func TestADiskThatIsNotLabelledIsNotTouched(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		device          conn.Exit
		mounted         string
		want, mustNotBe string
	}{
		{conn.Exit{Code: 1}, "", none + ": there is no such block device; name one that lsblk shows", "mkfs"},
		{conn.Exit{}, "/boot\n[SWAP]\n\n", "mounted at /boot, [SWAP]; name a device that nothing uses", "mkfs"},
		{conn.Exit{}, "\n", "run mkfs.ext4 -L bakeoff " + none, "lsblk"},
	} {
		err := CheckDisk(t.Context(), &disks{exit: tt.device, mounted: tt.mounted}, none)
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), tt.mustNotBe) {
			t.Errorf("error %v; want Unsupported with %q", err, tt.want)
		}
	}
	if err := CheckDisk(t.Context(), local.Conn{}, none); err == nil ||
		!strings.Contains(err.Error(), "no such block device") {
		t.Errorf("on this machine: %v", err)
	}
}

func TestBackings(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts file systems; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	host := local.Conn{}
	for _, backing := range Backings() {
		if backing == Disk || backing == Dataset || backing == Zvol || backing == NFS {
			continue // of the user, or with a network: TestDatasets, TestNFS
		}
		t.Run(backing, func(t *testing.T) {
			needs(t, backing)
			size := 16 * unit.MiB
			switch backing {
			case Btrfs, ZFS:
				size = 160 * unit.MiB // less they do not take
			case XFS:
				size = 300 * unit.MiB
			}
			dir := t.TempDir()
			at, cached, err := Mount(ctx, host, host, dir, Volume{Path: "/data", Backing: backing, Size: size})
			if err != nil {
				t.Fatal(err)
			}
			checkCache(t, backing, dir, cached)
			defer func() {
				for range 2 {
					if err := Close(context.WithoutCancel(ctx), host, dir); err != nil {
						t.Error(err)
					}
				}
				if left, err := Left(ctx, host, dir); err != nil || len(left) != 0 {
					t.Errorf("left: %v %v", left, err)
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
			// A volume is as large as was declared: twice of it does not fit.
			if err := os.WriteFile(filepath.Join(at, "big"), make([]byte, 2*size), 0o644); err == nil {
				t.Error("twice the declared size was written")
			}
			kind, err := conn.Output(ctx, host, "stat", "-f", "-c", "%T", at)
			want := map[string][]string{Tmpfs: {"tmpfs"}, Ext3: {"ext2/ext3"}, Ext4: {"ext2/ext3"}, XFS: {"xfs"},
				Btrfs: {"btrfs"}, ZFS: zfsTypes()}[backing]
			if err != nil || !slices.Contains(want, strings.TrimSpace(string(kind))) {
				t.Errorf("file system %q (%v), want one of %q", kind, err, want)
			}
		})
	}
}

func TestNoRoomIsSaidBeforehand(t *testing.T) {
	if testing.Short() {
		t.Skip("reserves blocks; run without -short")
	}
	_, err := File(t.Context(), local.Conn{}, t.TempDir(), Volume{Path: "/data", Backing: Ext4, Size: 1 << 52})
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "smaller volume") {
		t.Errorf("error %v; want Unsupported with what would help", err)
	}
}

// checkCache compares the reported use of the host's page cache with the loop device
// itself. What is mounted there is read with O_DIRECT inside: the host must not
// hold it either.
func checkCache(t *testing.T, backing, dir, cached string) {
	t.Helper()
	want := map[string]string{ZFS: CacheUsed}[backing]
	if IsInFile(backing) {
		want = CacheUsed
	}
	files, _ := filepath.Glob(dir + "/volume-*." + strings.TrimPrefix(backing, "file:"))
	if len(files) == 1 {
		devices, err := exec.Command("losetup", "--noheadings", "--output", "DIO", "--associated", files[0]).Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(devices)) == "1" {
			want = CacheBypassed
		}
		if direct := Direct(t.Context(), local.Conn{}, files[0]); direct != (want == CacheBypassed) {
			t.Errorf("the host opens the file with O_DIRECT: %v, but its cache is %s", direct, cached)
		}
	}
	if got, _, _ := strings.Cut(cached, ":"); got != want {
		t.Errorf("the host's cache is %q, want %q", cached, want)
	}
}

// needs skips where a backing has what it needs missing.
func needs(t *testing.T, backing string) {
	t.Helper()
	switch backing {
	case Btrfs, Ext3, XFS, ZFS:
		if err := Lacks(t.Context(), local.Conn{}, backing, false); err != nil {
			t.Skip(err)
		}
	}
}

// zfsTypes are the words of coreutils for ZFS: the one for FUSE is not the same in all versions.
func zfsTypes() []string {
	if zfs.InKernel(context.Background(), local.Conn{}) {
		return []string{"zfs"}
	}
	return []string{"fuseblk", "fuse"}
}

// What a controller that was killed left is found by the directory alone: the
// daemon, the mounts, the loop device.
func TestPropertiesHoldAndWhatIsLeftIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts file systems; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	host := local.Conn{}
	text := []byte(strings.Repeat("From somebody to somebody else. ", 40000))
	for _, c := range []struct {
		backing, compression string
	}{{ZFS, "gzip-6"}, {ZFS, "off"}, {Btrfs, "zlib:6"}, {Btrfs, "off"}} {
		t.Run(c.backing+" "+c.compression, func(t *testing.T) {
			needs(t, c.backing)
			dir := t.TempDir()
			v := Volume{Path: "/data", Backing: c.backing, Size: 160 * unit.MiB,
				Properties: map[string]string{"compression": c.compression}}
			at, _, err := Mount(ctx, host, host, dir, v)
			defer Close(context.WithoutCancel(ctx), host, dir)
			if err != nil {
				t.Fatal(err)
			}
			before, err := Settle(ctx, host, dir, at, v)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, "mail"), text, 0o644); err != nil {
				t.Fatal(err)
			}
			after, err := Settle(ctx, host, dir, at, v)
			if err != nil {
				t.Fatal(err)
			}
			used := after.UsedBytes - before.UsedBytes
			if small := used < int64(len(text))/5; small != (c.compression != "off") {
				t.Errorf("%d bytes take %d with compression %s", len(text), used, c.compression)
			}
			if c.backing == ZFS && (after.CompressRatio > 5) != (c.compression != "off") {
				t.Errorf("compressratio %g", after.CompressRatio)
			}
			if c.backing == ZFS {
				if left, err := Left(ctx, host, dir); err != nil || len(left) != 1 {
					t.Errorf("of a live pool there is %q %v", left, err)
				}
			}
		})
	}
}

func TestPropertiesAreChecked(t *testing.T) {
	for _, c := range []struct {
		backing, name, text, says string
	}{
		{Ext4, "compression", "lz4", "cannot have properties"},
		{ZFS, "mountpoint", "/etc", "no property"},
		{ZFS, "compression", "gzip-6,exec=on", "invalid value"},
		{ZFS, "recordsize", "100KiB", "power of two"},
		{Btrfs, "compression", "zlib,subvol=/x", "invalid value"},
		{Btrfs, "force", "yes", "true or false"},
		{NFS, "version", "3", "4.1 or 4.2"},
	} {
		err := Check(Volume{Path: "/data", Backing: c.backing, Properties: map[string]string{c.name: c.text}})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error is %v", c, err)
		}
	}
	small := Check(Volume{Path: "/data", Backing: XFS, Size: 64 * unit.MiB})
	if !fault.Is(small, fault.Invalid) ||
		!strings.Contains(small.Error(), "at least 300MiB (got 64MiB); write size: 300MiB") {
		t.Errorf("a small XFS: %v", small)
	}
	if err := Check(Volume{Path: "/data", Backing: ZFS,
		Properties: map[string]string{"compression": "gzip-9", "recordsize": "128KiB"}}); err != nil {
		t.Error(err)
	}
}

// bare is a host without loop devices, as one is whose kernel has them in a
// module that nobody loaded.
type bare struct{ local.Conn }

func (bare) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	io.WriteString(cmd.Stderr, "mount: "+cmd.Argv[len(cmd.Argv)-1]+": mount failed: Operation not permitted.\n")
	return conn.Exit{Code: 1}, nil
}

func (bare) ReadDir(context.Context, string) ([]string, error) {
	return []string{"null", "zero"}, nil
}

func TestWithoutLoopDevices(t *testing.T) {
	_, err := mountFile(t.Context(), bare{}, "ext4", "noatime", "/x.ext4", "/mnt")
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "modprobe loop") ||
		!strings.Contains(err.Error(), "not permitted") {
		t.Errorf("error %v; want Unsupported, with what would help", err)
	}
}

// Room is read as POSIX has it printed, and of nothing else.
func TestAvailable(t *testing.T) {
	for _, tt := range []struct {
		df   string
		want unit.Bytes // -1: an error
	}{
		{"Filesystem     1024-blocks     Used Available Capacity Mounted on\n/dev/vda1         61796348 28301448  " +
			"33478516  " +
			"  " +
			"  46% /\n", 33478516 * unit.KiB},
		{"Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 0 0 0 - /dev/with blank\n", 0},
		{"", -1},
		{"Filesystem 1024-blocks Used Available Capacity Mounted on\n", -1},
		{"Filesystem 1024-blocks Used Available Capacity Mounted on\nx 1 2 -3 4% /\n", -1},
		{"Filesystem 1024-blocks Used Available Capacity Mounted on\nx 1 2 99999999999999999 4% /\n", -1},
	} {
		got, err := available(tt.df)
		if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%q: %v, %v", tt.df, got, err)
		}
	}
	dir := t.TempDir()
	here, err := Free(t.Context(), local.Conn{}, dir)
	if err != nil || here <= 0 {
		t.Fatalf("%v, %v", here, err)
	}
	if _, err := Free(t.Context(), local.Conn{}, dir+"/not/there/yet"); err != nil {
		t.Errorf("a folder that will be made: %v", err)
	}
}

// equipped is a host that has no program but test(1) and sh(1), and what is in has.
type equipped struct {
	conn.Conn
	has []string
}

func (b equipped) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	switch last := cmd.Argv[len(cmd.Argv)-1]; {
	case last == "/proc/filesystems": // cat: of a kernel that loaded ext4
		_, err := io.WriteString(cmd.Stdout, "nodev\ttmpfs\n\text3\n\text2\n\text4\n")
		return conn.Exit{}, err
	case slices.Contains(b.has, last):
		return conn.Exit{}, nil
	}
	return conn.Exit{Code: 1}, nil
}

// What makes a volume is looked for before one is made.
func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		backing string
		has     []string
		want    string
		guest   bool
	}{
		{backing: Dir}, {backing: Tmpfs},
		{backing: Ext4, has: []string{"mke2fs"}}, {backing: Ext3, has: []string{"mke2fs"}},
		{backing: Ext3, want: "mke2fs is not installed; apt-get install e2fsprogs"},
		{backing: Btrfs, want: "mkfs.btrfs is not installed; apt-get install btrfs-progs"},
		{backing: XFS, want: "mkfs.xfs is not installed; apt-get install xfsprogs", guest: true},
		{backing: XFS, has: []string{"mkfs.xfs"}, want: "the kernel of the host has no xfs (/proc/filesystems, " +
			"modprobe); use another backing, or a kernel with xfs"},
		{backing: XFS, has: []string{"mkfs.xfs", "fs-xfs"}}, {backing: XFS, has: []string{"mkfs.xfs"}, guest: true},
		{backing: ZFS, want: "zfs-fuse is not installed; apt-get install zfs-fuse, or load the kernel's OpenZFS"},
		{backing: ZFS, has: []string{"/dev/zfs"}}, {backing: ZFS, has: []string{"zfs-fuse"}},
	} {
		got := ""
		err := Lacks(t.Context(), equipped{has: tt.has}, tt.backing, tt.guest)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || err != nil && !fault.Is(err, fault.Unsupported) {
			t.Errorf("%s with %v: %q, want %q", tt.backing, tt.has, got, tt.want)
		}
	}
}
