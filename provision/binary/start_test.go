package binary

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A program that was built against glibc does not start in an image of musl, nor the
// other way round; that is known of images that are not built yet.
func TestLoadersByDistribution(t *testing.T) {
	glibc := map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2",
		"arm64": "/lib/ld-linux-aarch64.so.1"}[runtime.GOARCH]
	for _, c := range []struct {
		image, loader string
		packages      []string
		want          Presence
	}{
		{"debian:bookworm", glibc, nil, Present}, {"ubuntu:noble", glibc, nil, Present}, {"alpine:3.20", glibc, nil, Missing},
		{"docker.io/library/alpine:3.20", glibc, nil, Missing}, {"alpine:3.20", glibc, []string{"gcompat"}, Unknown},
		{"debian:bookworm", "/lib/ld-musl-x86_64.so.1", nil, Missing}, {"alpine:3.20", "/lib/ld-musl-x86_64.so.1", nil,
			Present},
		{"debian:bookworm", "/lib/ld-musl-x86_64.so.1", []string{"musl"}, Unknown}, {"other:1", glibc, nil, Unknown},
		{"debian:bookworm", "/lib/ld-linux.so.2", nil, Unknown},
	} {
		if got := LoaderOf(c.image, c.loader, c.packages); got != c.want {
			t.Errorf("%s, %s: %v, want %v", c.image, c.loader, got, c.want)
		}
	}
}

// Loader and libraries are looked for in the root and among what is placed.
func TestLoaderAndLibrariesInARoot(t *testing.T) {
	root := t.TempDir()
	put(t, root, "usr/lib/ld.so", "", 0o755)
	put(t, root, "usr/lib/libc.so.6", "", 0o644)
	put(t, root, "opt/own/libown.so", "", 0o644)
	put(t, root, "etc/ld.so.conf.d/own.conf", "# own\n/opt/own\n", 0o644)
	if err := os.Symlink("usr/lib", filepath.Join(root, "lib")); err != nil {
		t.Fatal(err)
	}
	placed := func(name string) Presence {
		if name == "/opt/app/lib/libapp.so" {
			return Present
		}
		return Missing
	}
	e := Environment{Name: "image debian:x", Arch: "amd64"}.WithRoot(root, placed)
	p := Program{System: "linux", Arch: "amd64", Interpreter: "/lib/ld.so",
		Needed: []string{"libc.so.6", "libown.so", "libapp.so"},
		Search: []string{"$ORIGIN/../lib"}}
	if err := e.CheckStart(p, "app", "/opt/app/bin/app"); err != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"app needs the shared library libapp.so, which image debian:x does not have; build it " +
			"statically": e.CheckStart(p, "app", "/opt/other/app"),
		"app needs the loader /lib/ld-musl-x86_64.so.1 (musl), which image debian:x does not have; build it " +
			"statically (Go: CGO_ENABLED=0, " +
			"C: -static), or use an image with musl, such as alpine": e.CheckStart(Program{System: "linux", Arch: "amd64",
			Interpreter: "/lib/ld-musl-x86_64.so.1"}, "app", "/opt/app"),
		"app is a program for arm64, but the architecture of image debian:x is " +
			"amd64": e.CheckStart(Program{System: "linux", Arch: "arm64"},
			"app", "/opt/app"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func put(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
