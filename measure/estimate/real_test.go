package estimate_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/unit"
	"bakeoff/measure/corpus"
	"bakeoff/measure/estimate"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn/local"
)

// tolerance is how far an estimate may be from the real file system, by how
// near the algorithm claims to come.
var tolerance = map[string]float64{estimate.Same: 0.02, estimate.Other: 0.05}

// folder is a corpus with something of everything: mail, a large file of
// several records, zeros, noise.
func folder(t *testing.T, files int) string {
	dir := filepath.Join(t.TempDir(), "corpus")
	if err := (corpus.Mail{Files: files, Seed: 5}).Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	w := corpus.NewWriter(corpus.Mail{Files: corpus.Files, Seed: 6})
	var big []byte
	for i := 0; len(big) < 700_000; i++ {
		big = append(big, w.Message(i)...)
	}
	mixed := slices.Clone(big)
	r := rand.New(rand.NewPCG(1, 1))
	for i := 200_000; i < 400_000; i++ {
		mixed[i] = byte(r.Uint32())
	}
	for name, b := range map[string][]byte{"big": big, "mixed": mixed, "zeros": make([]byte, 300_000), "empty": nil,
		"small": big[:90], "sector": big[:512]} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func rows(t *testing.T, dir string, names []string, o estimate.Options) []estimate.Row {
	t.Helper()
	var err error
	if o.Algorithms, err = estimate.Find(names, o.Program); err != nil {
		t.Fatal(err)
	}
	e, err := estimate.Folder(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return e.Rows
}

// mounted makes a real file system, copies the folder into it, and waits until
// it is on its backing.
func mounted(t *testing.T, from string, v volume.Volume, look func(dir, at string, u volume.Usage)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	defer func() {
		if err := volume.Close(context.WithoutCancel(ctx), local.Conn{}, dir); err != nil {
			t.Error(err)
		}
	}()
	at, _, err := volume.Mount(ctx, local.Conn{}, local.Conn{}, dir, v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(at, "copy"), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	u, err := volume.Settle(ctx, local.Conn{}, dir, at, v)
	if err != nil {
		t.Fatal(err)
	}
	look(dir, at, u)
}

func command(ctx context.Context, argv []string) (out, complaints []byte, err error) {
	var o, c bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &o, &c
	err = cmd.Run()
	return o.Bytes(), c.Bytes(), err
}

func real(t *testing.T, programs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("makes file systems; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s: apt-get install zfs-fuse btrfs-progs zstd", p)
		}
	}
}

// allocated is what the files below dir occupy. Of ZFS, whose dnode counts for
// one block of each file, without it.
func allocated(t *testing.T, dir string) int64 {
	t.Helper()
	var n int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += (info.Sys().(*syscall.Stat_t).Blocks - 1) * 512
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func near(t *testing.T, what, match string, got, want float64) {
	t.Helper()
	t.Logf("%-34s estimated %12.4f, real %12.4f, off by %+.2f %%", what, got, want, 100*(got/want-1))
	if !(math.Abs(got/want-1) <= tolerance[match]) {
		t.Errorf("%s: estimated %.4f, and really it is %.4f", what, got, want)
	}
}

// Against a real pool of zfs-fuse: the ratio that zfs get reports, and the
// blocks of the files.
func TestARealPool(t *testing.T) {
	real(t, "zfs-fuse")
	if _, err := os.Stat("/sys/module/zfs"); err == nil {
		t.Skip("the kernel's ZFS is used here; zfs-fuse is what is held against")
	}
	dir := folder(t, 300)
	for _, c := range []struct {
		algorithm string
		record    int64
	}{{"off", 1 << 17}, {"zle", 1 << 17}, {"lzjb", 1 << 17}, {"lzjb", 1 << 12}, {"gzip-1", 1 << 17},
		{"gzip-2", 1 << 17}, {"gzip-3", 1 << 17}, {"gzip-4", 1 << 17},
		{"gzip-5", 1 << 17}, {"gzip-6", 1 << 17}, {"gzip-6", 1 << 14}, {"gzip-7", 1 << 17}, {"gzip-8", 1 << 17},
		{"gzip-9", 1 << 15}} {
		r := rows(t, dir, []string{"zfs " + c.algorithm}, estimate.Options{Records: []int64{c.record},
			Pool: estimate.Pool{Ashift: 12, Old: true}})[0]
		v := volume.Volume{Path: "/data", Backing: volume.ZFS, Size: 256 * unit.MiB,
			Properties: map[string]string{"compression": c.algorithm, "recordsize": unit.Bytes(c.record).String()}}
		mounted(t, dir, v, func(_, at string, u volume.Usage) {
			what := fmt.Sprintf("%s in records of %d", c.algorithm, c.record)
			near(t, what+", compressratio", r.Match, r.Ratio, u.CompressRatio)
			near(t, what+", bytes", r.Match, float64(r.StoredBytes), float64(allocated(t, at)))
		})
	}
}

// Against a real btrfs: what its tree says of the files' extents.
func TestARealBtrfs(t *testing.T) {
	real(t, "mkfs.btrfs", "btrfs", "zstd")
	if known, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(known), "btrfs") {
		t.Skip("the kernel has no btrfs")
	}
	p, err := estimate.NewProgram(t.Context(), "zstd", command)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("zstd", p.Version)
	dir := folder(t, 300)
	for _, c := range []struct {
		algorithm string
		force     bool
	}{{"off", false}, {"lzo", false}, {"lzo", true}, {"zlib:1", false}, {"zlib:3", false}, {"zlib:6", true},
		{"zlib:9", false},
		{"zstd:1", false}, {"zstd:3", true}, {"zstd:6", false}, {"zstd:9", false}, {"zstd:12", false}, {"zstd:15", false}} {
		r := rows(t, dir, []string{"btrfs " + c.algorithm}, estimate.Options{Force: c.force, Program: p})[0]
		v := volume.Volume{Path: "/data", Backing: volume.Btrfs, Size: 256 * unit.MiB,
			Properties: map[string]string{"compression": c.algorithm, "force": fmt.Sprint(c.force)}}
		mounted(t, dir, v, func(image, _ string, _ volume.Usage) {
			sum := float64(extents(t, image))
			near(t, fmt.Sprintf("%s force=%t, bytes", c.algorithm, c.force), r.Match, float64(r.StoredBytes), sum)
			// What stands in for the program where there is none.
			if _, err := estimate.Find([]string{c.algorithm}, nil); err == nil && strings.HasPrefix(c.algorithm, "zstd") {
				r := rows(t, dir, []string{"btrfs " + c.algorithm}, estimate.Options{Force: c.force})[0]
				near(t, c.algorithm+" without the program", r.Match, float64(r.StoredBytes), sum)
			}
		})
	}
}

// extents sums the extents and inline data that the tree of files names.
func extents(t *testing.T, dir string) int64 {
	t.Helper()
	images, err := filepath.Glob(filepath.Join(dir, "*.btrfs"))
	if err != nil || len(images) != 1 {
		t.Fatalf("images %v %v", images, err)
	}
	out, err := exec.Command("btrfs", "inspect-internal", "dump-tree", "-t", "5", images[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	seen := map[int64]bool{}
	for line := range strings.Lines(string(out)) {
		var at, n int64
		if k, _ := fmt.Sscanf(strings.TrimSpace(line), "extent data disk byte %d nr %d", &at, &n); k == 2 {
			if at != 0 && !seen[at] {
				sum += n
			}
			seen[at] = true
		} else if k, _ := fmt.Sscanf(strings.TrimSpace(line), "inline extent data size %d", &n); k == 1 {
			sum += n
		}
	}
	if sum == 0 {
		t.Fatal("the tree has no extents")
	}
	return sum
}
