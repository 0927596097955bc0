package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

func TestRequestsAreChecked(t *testing.T) {
	for _, ref := range []string{"", "debian", "debian:", "debian:../../etc", "debian:a b", "debian:$(id)"} {
		if err := (Request{Ref: ref}).Check(); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), "debian:bookworm") {
			t.Errorf("Ref %q: %v; want an Invalid error that shows what is right", ref, err)
		}
	}
	req := Request{Ref: "debian:bookworm", Packages: []string{"nginx,--aptopt=x"}}
	if err := req.Check(); !fault.Is(err, fault.Invalid) {
		t.Errorf("a package name that is an option was taken: %v", err)
	}
	if err := (Request{Ref: "ubuntu:noble", Packages: []string{"g++-12", "nginx"}}).Check(); err != nil {
		t.Error(err)
	}
}

func TestACacheThatCannotBeCreatedIsNamed(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "file", "images")}
	if err := os.WriteFile(filepath.Dir(s.Dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), Request{Ref: "debian:bookworm"})
	if err == nil || !strings.Contains(err.Error(), filepath.Dir(s.Dir)) ||
		!strings.Contains(fault.Fix(err), "BAKEOFF_CACHE") {
		t.Errorf("%v; %s", err, fault.Fix(err))
	}
}

func TestKeysNameWhatWasAskedFor(t *testing.T) {
	a := Request{Ref: "debian:bookworm", Packages: []string{"nginx", "fio"}}
	b := Request{Ref: "debian:bookworm", Packages: []string{"fio", "nginx", "fio"}}
	if a.key("root") != b.key("root") {
		t.Error("the order of packages made another image")
	}
	if a.key("root") == (Request{Ref: "debian:bookworm"}).key("root") || a.key("root") == a.key("kernel") {
		t.Error("different requests share a directory")
	}
	a.KernelPackage = "linux-image-amd64"
	if a.kernelKey() == b.kernelKey() || b.kernelKey() != (Request{Ref: "debian:bookworm"}).kernelKey() {
		t.Error("kernels of different packages share a directory, or those of one image do not")
	}
	if a.KernelPackage = "../x"; a.Check() == nil {
		t.Error("a kernel's package is not checked")
	}
}

// A digest speaks of names, modes and contents, and of nothing else.
func TestDigest(t *testing.T) {
	make := func(change func(dir string)) string {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a"), "one")
		write(t, filepath.Join(dir, "d", "b"), "two")
		if err := os.Symlink("a", filepath.Join(dir, "l")); err != nil {
			t.Fatal(err)
		}
		change(dir)
		d, err := hashTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := make(func(string) {})
	if make(func(string) {}) != base {
		t.Error("the same tree has two digests")
	}
	for name, change := range map[string]func(string){
		"content": func(d string) { write(t, filepath.Join(d, "a"), "two") },
		"mode": func(d string) {
			if err := os.Chmod(filepath.Join(d, "a"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
		"link": func(d string) {
			if err := os.Remove(filepath.Join(d, "l")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("d", filepath.Join(d, "l")); err != nil {
				t.Fatal(err)
			}
		},
		"name": func(d string) {
			if err := os.Rename(filepath.Join(d, "a"), filepath.Join(d, "c")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if make(change) == base {
			t.Errorf("another %s gave the same digest", name)
		}
	}
}

func TestKernelIsFoundAndTheRestRemoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	write(t, filepath.Join(root, "boot", "vmlinuz-6.1.0-1-cloud-amd64"), "kernel")
	write(t, filepath.Join(root, "usr", "lib", "modules", "6.1.0-1-cloud-amd64", "modules.dep"), "")
	write(t, filepath.Join(root, "usr", "share", "doc", "x"), "")
	if err := os.Symlink("usr/lib", filepath.Join(root, "lib")); err != nil {
		t.Fatal(err)
	}
	vmlinuz, version, err := findKernel(root)
	if err != nil || version != "6.1.0-1-cloud-amd64" {
		t.Fatalf("findKernel: %q, %v", version, err)
	}
	if err := keepOnly(root, vmlinuz, version); err != nil {
		t.Fatal(err)
	}
	if _, _, err := findKernel(root); err != nil {
		t.Errorf("after keepOnly: %v", err)
	}
	if exists(filepath.Join(root, "usr")) {
		t.Error("keepOnly kept /usr")
	}
}

func TestKilledBuildsAreSwept(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	write(t, filepath.Join(s.Dir, "root-debian-x"+partial, "root", "f"), "half")
	write(t, filepath.Join(s.Dir, "root-debian-y", description), "{}")
	if err := s.sweepPartial(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(s.Dir, "root-debian-x"+partial)) ||
		!exists(filepath.Join(s.Dir, "root-debian-y", description)) {
		t.Error("sweep removed the wrong directory")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestABuildersComplaint(t *testing.T) {
	log := `I: running apt-get update...
Err:2 http://mirror.example/debian bookwrom Release
  404  Not Found
E: The repository 'http://mirror.example/debian bookwrom Release' does not have a Release file.
E: apt-get update failed
I: main() received signal PIPE: waiting for setup...
E: mmdebstrap failed to run
`
	want := "E: The repository 'http://mirror.example/debian bookwrom Release' does not have a Release file. E: apt-get " +
		"update failed"
	if got := complaint([]byte(log)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := complaint([]byte("something\nelse\n")); got != "something else" {
		t.Errorf("a log without errors: %q", got)
	}
}

// failing is a host whose builder fails.
type failing struct {
	conn.Conn
	asked int
}

func (f *failing) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	f.asked++
	fmt.Fprintln(cmd.Stderr, "E: The repository 'x bookwrom Release' does not have a Release file.")
	return conn.Exit{Code: 25}, nil
}

func TestAnImageThatCannotBeBuiltIsAskedForOnce(t *testing.T) {
	host := &failing{}
	s := &Store{Dir: t.TempDir(), Host: host}
	for range 3 {
		_, err := s.Get(t.Context(), Request{Ref: "debian:bookwrom"})
		if err == nil || !strings.Contains(err.Error(), `has the suite "bookwrom"`) {
			t.Fatalf("%v; want a hint about the suite", err)
		}
	}
	if host.asked != 1 {
		t.Errorf("built %d times", host.asked)
	}
	if _, err := s.Get(t.Context(), Request{Ref: "debian:bookwrom", Packages: []string{"fio"}}); err == nil ||
		host.asked != 2 {
		t.Errorf("another image was not tried: %d, %v", host.asked, err)
	}
}

// The end of a builder's log names what the distribution does not have.
func TestUnknownPackages(t *testing.T) {
	for log, want := range map[string]string{
		"I: running apt-get update...\nE: Unable to locate package pyhton3\nE: apt-get install failed\n": "pyhton3",
		"E: Unable to locate package g++-99\nE: Couldn't find any package by glob 'g++-99'\n" +
			"E: Couldn't find any package by regex 'g++-99'\nE: Unable to locate package aaa\n": "aaa g++-99",
		"E: Package 'python2' has no installation candidate\r\n": "python2",
		"E: Package python2 has no installation candidate\n":     "python2",
		"E: The repository 'http://x bookworm' does not have a Release file.\n" +
			"mmdebstrap: E: Unable to locate package x y\n": "",
		"": "",
	} {
		if got := strings.Join(unknownPackages([]byte(log)), " "); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}

// Whatever a builder prints, what is found in it is the name of a package.
func FuzzUnknownPackages(f *testing.F) {
	f.Add([]byte("E: Unable to locate package a\nE: Package 'b' has no installation candidate\r\nE: " +
		"Unable to locate package \x1b"))
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, name := range unknownPackages(log) {
			if strings.ContainsFunc(name, func(r rune) bool { return r > '~' || r <= ' ' }) || name == "" {
				t.Errorf("%q is in %q", name, log)
			}
		}
	})
}
