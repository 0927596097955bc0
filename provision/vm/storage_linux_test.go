package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// envBtrfs is the folder on btrfs in which this test runs again.
const envBtrfs = "BAKEOFF_TEST_BTRFS"

// fileSystem is a Storage that has no quotas.
type fileSystem string

func (f fileSystem) Storage() string { return string(f) }

func (fileSystem) CheckQuota() error {
	return fault.WithFix(fault.New(fault.Unsupported, "it has no quotas"), "find another one")
}

// Where the state folder is on btrfs, disks are compressed as their manifests say, also after an
// update, which a guest that runs permits, and after a rollback. Elsewhere that is refused.
func TestCompression(t *testing.T) {
	if dir := os.Getenv(envBtrfs); dir != "" {
		compressDisks(t, dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for program, pkg := range map[string]string{"mkfs.btrfs": "btrfs-progs", "qemu-io": "qemu-utils"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	if known, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(known), "btrfs") {
		t.Skip("needs a kernel with btrfs")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "at"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", `truncate -s 512M "$1/file"
		mkfs.btrfs -q "$1/file"; mount -o loop "$1/file" "$1/at"; exec "$2" -test.run '^TestCompression$' -test.v`, "sh",
		dir, os.Args[0])
	c.Env = append(os.Environ(), envBtrfs+"="+filepath.Join(dir, "at"))
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestCompression") {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"ext2/ext3": "is on ext2/ext3", "zfs": "has one compression"} {
		g := read(t, `{"brand": "bhyve", "disks": [{"size": 1, "compression": "zstd"}]}`)
		if err := Fit(g, noTags, fileSystem(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("on %s: %v", name, err)
		}
	}
	off := read(t, `{"brand": "bhyve", "disks": [{"size": 1, "compression": "off"}]}`)
	if err := Fit(off, noTags, fileSystem("xfs")); err != nil {
		t.Error(err)
	}
}

// compressDisks is TestCompression in a folder on btrfs.
func compressDisks(t *testing.T, dir string) {
	s := &Store{State: dir, Host: local.Conn{}}
	g := withDisks(t, s, `{"brand": "bhyve", "disks": [{"size": 64, "compression": "on"}, {"size": 64}]}`)
	// takes is how much of the file system 32 MiB take that are written to a disk.
	takes := func(disk int) int {
		t.Helper()
		used := func() int {
			syscall.Sync()
			out, err := exec.Command("btrfs", "filesystem", "df", "-b", dir).Output()
			_, data, _ := strings.Cut(string(out), "used=")
			data, _, _ = strings.Cut(data, "\n")
			n, perr := strconv.Atoi(strings.TrimSpace(data))
			if err != nil || perr != nil {
				t.Fatalf("%v, %v: %s", err, perr, out)
			}
			return n >> 20
		}
		before := used()
		if out, err := exec.Command("qemu-io", "-c", "write -P 97 0 32M", g.Disks[disk].Path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return used() - before
	}
	property := func(disk int) string {
		t.Helper()
		out, err := exec.Command("btrfs", "property", "get", g.Disks[disk].Path, "compression").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := takes(0); got > 8 {
		t.Errorf("32 MiB of one byte take %d MiB on a compressed disk", got)
	}
	if got := takes(1); got < 24 {
		t.Errorf("32 MiB take %d MiB on a disk that is not compressed", got)
	}
	if err := g.CreateSnapshot(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	const change = `{"update_disks": [{"path": "PATH", "compression": "lzo"}]}`
	if got := update(t, g, strings.Replace(change, "PATH", g.Disks[1].Path, 1)); !strings.Contains(got, "(live)") {
		t.Errorf("the changes are %s", got)
	}
	if property(0) != "compression=zstd" || property(1) != "compression=lzo" {
		t.Errorf("the disks have %q and %q", property(0), property(1))
	}
	update(t, g, `{"update_disks": [{"path": "`+g.Disks[1].Path+`", "compression": "off", "size": 96}]}`)
	if property(1) != "compression=none" {
		t.Errorf("the second disk has %q", property(1))
	}
	if err := g.Rollback(t.Context(), "before", nil); err != nil {
		t.Fatal(err)
	}
	if property(1) != "" {
		t.Errorf("after a rollback the second disk has %q", property(1))
	}
	bad := read(t, `{"brand": "bhyve", "disks": [{"size": 1, "compression": "lz4"}]}`)
	if err := Fit(bad, noTags, s); err == nil || !strings.Contains(err.Error(), "use on, off, zstd") {
		t.Errorf("lz4: %v", err)
	}
}

// The size of blocks is that of the clusters of the disk's file, and of the physical blocks that the
// guest sees, unless the manifest has another one for the guest.
func TestBlockSize(t *testing.T) {
	g := withDisks(t, newStore(t), `{"brand": "bhyve", "disks": [{"size": 8}, {"size": 8, "block_size": 8192}]}`)
	out, err := conn.AdminOutput(t.Context(), local.Conn{}, nil, "qemu-img", "info", "-f", "qcow2", "--output=json",
		g.Disks[1].Path)
	if err != nil || !strings.Contains(string(out), `"cluster-size": 8192`) {
		t.Errorf("%v: %s", err, out)
	}
	for _, tt := range []struct {
		d                 manifest.Disk
		logical, physical int
		ok                bool
	}{
		{manifest.Disk{}, 0, 0, true}, {manifest.Disk{BlockSize: 8192}, 0, 8192, true},
		{manifest.Disk{BlockSize: 8192, GuestBlockSize: "512/4096"}, 512, 4096, true},
		{manifest.Disk{GuestBlockSize: "4096"}, 4096, 4096, true}, {manifest.Disk{GuestBlockSize: "4096/512"}, 0, 0, false},
		{manifest.Disk{GuestBlockSize: "8192"}, 0, 0, false}, {manifest.Disk{GuestBlockSize: "513"}, 0, 0, false},
		{manifest.Disk{GuestBlockSize: "512/"}, 0, 0, false}, {manifest.Disk{GuestBlockSize: "512/4096/1"}, 0, 0, false},
	} {
		logical, physical, ok := tt.d.GuestBlocks()
		if ok != tt.ok || ok && (logical != tt.logical || physical != tt.physical) {
			t.Errorf("%+v: %d, %d, %v", tt.d, logical, physical, ok)
		}
	}
	for text, want := range map[string]string{
		`{"size": 1, "guest_block_size": "4096"}`:                                   "a BIOS starts only",
		`{"size": 1}, {"size": 1, "guest_block_size": "4096", "model": "ahci"}`:     "disks of AHCI",
		`{"size": 1}, {"path": "/x", "nocreate": true, "block_size": 512}`:          "does not make this disk",
		`{"size": 1}, {"path": "/x", "media": "cdrom", "guest_block_size": "512"}`:  "blocks of their own size",
		`{"size": 1}, {"path": "/x", "media": "cdrom", "model": "nvme"}`:            "no such CD drive",
		`{"size": 1}, {"path": "/x", "nocreate": true, "compression": "off"}`:       "does not make this disk",
		`{"size": 1}, {"size": 1, "guest_block_size": "4096"}`:                      "",
		`{"size": 1, "guest_block_size": "512/4096"}, {"size": 1, "model": "nvme"}`: "",
	} {
		err := Fit(read(t, `{"brand": "bhyve", "disks": [`+text+`]}`), noTags, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A quota is refused where nothing could limit the guest, with what to do.
func TestFitQuota(t *testing.T) {
	for text, want := range map[string]string{
		`"brand": "lx", "image": "a"`:                             "",
		`"brand": "lx", "image": "a", "quota": 10`:                "",
		`"brand": "lx", "image": "a", "quota": 0`:                 "",
		`"brand": "lx", "image": "a", "quota": 11`:                "quota: 11: it has no quotas; find another one",
		`"brand": "kvm", "disks": [{"size": 1}], "quota": 11`:     "the size of its disks; remove it",
		`"brand": "bhyve", "disks": [{"size": 1}], "quota": "10"`: "the size of its disks; remove it",
	} {
		err := Fit(read(t, "{"+text+"}"), noTags, fileSystem("xfs"))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			strings.Count(err.Error(), "find another one") > 1) {
			t.Errorf("%s: %v", text, err)
		}
	}
	err := Fit(read(t, `{"brand": "lx", "image": "a", "quota": 11}`), noTags, nil)
	if err == nil || !strings.Contains(err.Error(), "are temporary; remove it") {
		t.Errorf("of a temporary guest: %v", err)
	}
	s := &Store{State: "/proc/none", Host: local.Conn{}}
	if err := s.CheckQuota(); err == nil || !strings.Contains(err.Error(), "the state folder is on proc, where") {
		t.Errorf("on proc: %v", err)
	}
}
