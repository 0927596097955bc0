package image

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/provision/files"
)

// based is a store with a base image in it, and a packed program and folder.
func based(t *testing.T) (s *Store, program, folder string) {
	t.Helper()
	s = &Store{Dir: t.TempDir()}
	dir := filepath.Join(s.Dir, Request{Ref: "debian:bookworm"}.key("root"))
	write(t, filepath.Join(dir, rootDir, "usr", "bin", "sh"), "shell")
	write(t, filepath.Join(dir, rootDir, "opt", "old", "note"), "of the image")
	for link, target := range map[string]string{"bin": "usr/bin", "usr/local": "/opt"} {
		if err := os.Symlink(target, filepath.Join(dir, rootDir, link)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(Root{Schema: Schema, Ref: "debian:bookworm", Digest: "sha256:base", Recipe: recipe})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, description), string(text))
	return s, packed(t, s, func(at string) { write(t, at, "program") }),
		packed(t, s, func(at string) { write(t, filepath.Join(at, "in", "side"), "data") })
}

func packed(t *testing.T, s *Store, make func(at string)) (digest string) {
	t.Helper()
	src := files.Source{Path: filepath.Join(t.TempDir(), "source"), Name: "./source"}
	make(src.Path)
	facts, err := files.Measure(t.Context(), src, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pack(t.Context(), src, facts.Digest); err != nil {
		t.Fatal(err)
	}
	return facts.Digest
}

// A derived image is the base with files at their paths. It shares the files of both,
// and the base stays as it is.
func TestDerivedImages(t *testing.T) {
	s, program, folder := based(t)
	req := Request{Ref: "debian:bookworm", Files: []Placed{{"/bin/server", program}, {"/opt/old", folder},
		{"/usr/local/new/x", program}}}
	base, err := s.Get(t.Context(), Request{Ref: "debian:bookworm"})
	if err != nil {
		t.Fatal(err)
	}
	img, err := s.Get(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"usr/bin/sh": "shell", "bin/server": "program", "opt/old/in/side": "data",
		"opt/new/x": "program", "opt/old/note": ""} {
		text, err := os.ReadFile(filepath.Join(img.Dir, name))
		if string(text) != want || (err != nil) != (want == "") {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	if exists(filepath.Join(base.Dir, "bin", "server")) || !exists(filepath.Join(base.Dir, "opt", "old", "note")) {
		t.Error("the base image changed")
	}
	for _, root := range []string{base.Dir, img.Dir} {
		if at, err := os.Stat(filepath.Dir(root)); err != nil || at.Mode().Perm() != 0o700 {
			t.Errorf("others can reach the programs in %s: %v, %v", root, at.Mode(), err)
		}
	}
	if inode(t, filepath.Join(img.Dir, "usr/bin/sh")) != inode(t, filepath.Join(base.Dir, "usr/bin/sh")) ||
		inode(t, filepath.Join(img.Dir, "usr/bin/server")) != inode(t, s.Packed(program)) {
		t.Error("files were copied")
	}
	again, err := s.Get(t.Context(), Request{Ref: req.Ref, Files: []Placed{req.Files[2], req.Files[1], req.Files[0]}})
	if err != nil || again.Dir != img.Dir || again.Digest != img.Digest || !name.ValidDigest(img.Digest) {
		t.Errorf("in another order: %+v, %v", again, err)
	}
	req.Files[0].To = "/bin/other"
	if other, err := s.Get(t.Context(), req); err != nil || other.Digest == img.Digest || other.Dir == img.Dir {
		t.Errorf("at another path: %+v, %v", other, err)
	}
	entries, err := s.Entries()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range entries {
		if kinds[e.Kind]++; e.State != Complete {
			t.Errorf("%+v", e)
		}
		if e.Kind == KindFiles && e.Ref == "" {
			t.Errorf("%+v does not say where it comes from", e)
		}
	}
	if kinds["image"] != 1 || kinds[KindDerived] != 2 || kinds[KindFiles] != 2 {
		t.Errorf("%v", kinds)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	at, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return at.Sys().(*syscall.Stat_t).Ino
}

func TestFilesThatChangedAreNotPacked(t *testing.T) {
	s, _, _ := based(t)
	src := files.Source{Path: filepath.Join(t.TempDir(), "server"), Name: "./server"}
	write(t, src.Path, "one")
	facts, err := files.Measure(t.Context(), src, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, src.Path, "two")
	if err := s.Pack(t.Context(), src, facts.Digest); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "./server changed since the plan was made") {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(filepath.Join(s.Dir, "*"+partial)); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	_, err = s.Get(t.Context(), Request{Ref: "debian:bookworm", Files: []Placed{{"/opt/x", facts.Digest}}})
	if !fault.Is(err, fault.Unsupported) || s.Packed(facts.Digest) != "" || s.Packed("sha256:../x") != "" {
		t.Errorf("an image with files that are not packed: %v", err)
	}
}

// What a killed process left while it packed is found and removed.
func TestKilledPackingIsSwept(t *testing.T) {
	s, program, _ := based(t)
	half, err := s.partial(s.filesDir(program))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(half, content), "half")
	if left, err := s.Sweep(t.Context(), true); err != nil || len(left) != 1 || left[0] != half {
		t.Fatalf("%v, %v", left, err)
	}
	if _, err := s.Sweep(context.Background(), false); err != nil || exists(half) {
		t.Errorf("%v", err)
	}
}

func TestInside(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "usr", "bin", "sh"), "")
	for link, target := range map[string]string{"bin": "usr/bin", "usr/up": "../../../../etc",
		"abs": "/usr", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"/bin/sh": "usr/bin/sh", "/usr/up/x": "etc/x", "abs/bin/../x": "usr/x",
		"/../../x": "x", "/": "", "/new/path": "new/path"} {
		if got, err := Inside(root, name); err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if got, err := Inside(root, "/loop/x"); err == nil {
		t.Errorf("a loop of links: %s", got)
	}
}
