package files

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/base/name"
)

// tree makes a folder with a program, a folder, and links that stay inside.
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "build")
	write(t, filepath.Join(dir, "bin", "server"), "program", 0o755)
	write(t, filepath.Join(dir, "lib", "a.txt"), "text", 0o640)
	for link, target := range map[string]string{"now": "bin", "bin/again": "server",
		"lib/up": "../bin/server", "gone": "nothing"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func measured(t *testing.T, path string) Facts {
	t.Helper()
	f, err := Measure(t.Context(), Source{Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A digest speaks of names, bits, links and contents, and of nothing else. A copy has
// the digest of its source.
func TestDigestsAreReproducible(t *testing.T) {
	dir := tree(t)
	want := measured(t, dir)
	if !name.ValidDigest(want.Digest) || want.Size != 11 || !want.Folder {
		t.Errorf("%+v", want)
	}
	other := tree(t)
	if err := os.Chtimes(filepath.Join(other, "lib", "a.txt"), time.Unix(9, 0), time.Unix(9, 0)); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, other); got != want {
		t.Errorf("the same folder elsewhere: %+v, want %+v", got, want)
	}
	dst := filepath.Join(t.TempDir(), "copy")
	if got, err := Copy(t.Context(), Source{Path: dir}, dst, nil); err != nil || got != want {
		t.Errorf("while copying: %+v, %v", got, err)
	}
	if got := measured(t, dst); got != want {
		t.Errorf("the copy: %+v, want %+v", got, want)
	}
	if at, err := os.Stat(filepath.Join(dst, "bin", "server")); err != nil || at.Mode() != 0o755 ||
		!at.ModTime().Equal(Time) {
		t.Errorf("%v, %v", at, err)
	}
	for name, change := range map[string]func(dir string) error{
		"content": func(d string) error { return os.WriteFile(filepath.Join(d, "lib", "a.txt"), []byte("tixt"), 0o640) },
		"bits":    func(d string) error { return os.Chmod(filepath.Join(d, "lib", "a.txt"), 0o644) },
		"name":    func(d string) error { return os.Rename(filepath.Join(d, "lib"), filepath.Join(d, "lob")) },
		"link":    func(d string) error { return os.Remove(filepath.Join(d, "now")) },
		"folder":  func(d string) error { return os.Mkdir(filepath.Join(d, "empty"), 0o755) },
	} {
		d := tree(t)
		if err := change(d); err != nil {
			t.Fatal(err)
		}
		if got := measured(t, d); got.Digest == want.Digest {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

func TestAFileHasItsOwnBitsOrThoseOfMode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server")
	write(t, file, "x", 0o640)
	own := measured(t, file)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, link); got != own {
		t.Errorf("through a link: %+v, want %+v", got, own)
	}
	dst := filepath.Join(t.TempDir(), "copy")
	set, err := Copy(t.Context(), Source{Path: file, Mode: 0o755}, dst, nil)
	if err != nil || set.Digest == own.Digest {
		t.Errorf("%+v, %v", set, err)
	}
	if at, err := os.Stat(dst); err != nil || at.Mode() != 0o755 {
		t.Errorf("%v, %v", at, err)
	}
}

func TestWhatCannotBePlacedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		says string
	}{
		"absolute link": {func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "x")) },
			"link x leads out"},
		"link that leaves": {func(d string) error { return os.Symlink("../../x", filepath.Join(d, "lib", "x")) },
			"leads out"},
		"link over a link": {func(d string) error { return os.Symlink("now/../..", filepath.Join(d, "x")) },
			"leads out"},
		"link to a parent link": {func(d string) error { return os.Symlink("bin/../../build", filepath.Join(d, "x")) },
			"leads out"},
		"FIFO": {func(d string) error { return unix.Mkfifo(filepath.Join(d, "lib", "x"), 0o600) }, "lib/x is a FIFO"},
		"socket": {func(d string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			t.Chdir(d)
			return syscall.Bind(fd, &syscall.SockaddrUnix{Name: "x"})
		}, "x is a socket"},
	} {
		dir := tree(t)
		if err := c.make(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := Measure(t.Context(), Source{Path: dir, Name: "./build"}, nil)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) || fault.Fix(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, src := range map[string]Source{
		"no file": {Path: filepath.Join(t.TempDir(), "none")}, "device": {Path: "/dev/null"},
		"mode of a folder": {Path: tree(t), Mode: 0o755},
	} {
		if _, err := Measure(t.Context(), src, nil); !fault.Is(err, fault.Invalid) || fault.Fix(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file is streamed: its size does not show in the memory that packing takes, and a
// hole stays one.
func TestLargeFilesAreStreamed(t *testing.T) {
	const size = 96 << 20
	file := filepath.Join(t.TempDir(), "large")
	write(t, file, "begin", 0o644)
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	dst := filepath.Join(t.TempDir(), "copy")
	got, err := Copy(t.Context(), Source{Path: file}, dst, nil)
	runtime.ReadMemStats(&after)
	if err != nil || got.Size != size {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 8*bufferSize {
		t.Errorf("packing %d bytes allocated %d", size, n)
	}
	at, err := os.Stat(dst)
	if err != nil || at.Size() != size || at.Sys().(*syscall.Stat_t).Blocks*512 > size/2 {
		t.Errorf("the copy: %+v, %v", at, err)
	}
	if again := measured(t, dst); again != got {
		t.Errorf("the copy: %+v, want %+v", again, got)
	}
}

func TestPackingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, Source{Path: tree(t)}, nil); err == nil {
		t.Error("it went on")
	}
}
