package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/image/registry/registrytest"
)

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: sets owners")
	}
}

// apkDatabase is what apk-tools 2.14 of Alpine 3.20 writes about one package.
const apkDatabase = "C:Q1qcmEFvTHLRyG2iIcYGmYyzkPRPM=\nP:musl\nV:1.2.5-r0\nA:x86_64\nS:407278\n\n" +
	"P:busybox\nV:1.36.1-r29\n\n"

// get returns an image and fails the test if it cannot.
func get(t *testing.T, s *Store, ref string) Root {
	t.Helper()
	img, err := s.Get(t.Context(), Request{Ref: ref})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func contentOf(t *testing.T, img Root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(img.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestImagesOfARegistry(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	base := registrytest.Tar(t, map[string]string{"bin/sh": "shell", "lib/apk/db/installed": apkDatabase, "old": "x"})
	config := map[string]any{"Entrypoint": []string{"/bin/sh"}, "Env": []string{"A=b"}, "User": "7", "WorkingDir": "/w"}
	one := registrytest.Build(t, config, base, registrytest.Tar(t, map[string]string{".wh.old": "", "new": "y"}))
	r.Push("app", "1", one)
	ref := r.Host + "/app:1"
	s := &Store{Dir: t.TempDir()}
	if s.Cached(Request{Ref: ref}) || s.Root(Request{Ref: ref}) != "" {
		t.Error("an image that was not pulled is there")
	}
	img := get(t, s, ref)
	if img.Digest != one.Digest() || contentOf(t, img, "new") != "y" || exists(filepath.Join(img.Dir, "old")) {
		t.Errorf("%+v", img)
	}
	if img.Packages["musl"] != "1.2.5-r0" || img.Packages["busybox"] != "1.36.1-r29" || len(img.Packages) != 2 {
		t.Errorf("packages %v", img.Packages)
	}
	if c := img.Config; c == nil || c.Entrypoint[0] != "/bin/sh" || c.Env[0] != "A=b" ||
		c.User != "7" || c.WorkingDir != "/w" {
		t.Errorf("configuration %+v", c)
	}
	if !s.Cached(Request{Ref: ref}) || s.Root(Request{Ref: ref}) != img.Dir {
		t.Error("the image is not in the store")
	}
	if info, err := os.Stat(filepath.Dir(img.Dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can reach the programs of the image: %v, %v", info.Mode(), err)
	}

	// The tag moves. The digest stays.
	two := registrytest.Build(t, nil, base)
	r.Push("app", "1", two)
	if moved := get(t, s, ref); moved.Digest != two.Digest() || moved.Dir == img.Dir || moved.Config == nil {
		t.Errorf("%+v", moved)
	}
	pinned := r.Host + "/app@" + one.Digest()
	if again := get(t, s, pinned); again.Dir != img.Dir {
		t.Errorf("%s is in %s, want %s", pinned, again.Dir, img.Dir)
	}

	// Without the registry, the store gives what it has and reports it.
	r.Kill()
	var said []string
	s = &Store{Dir: s.Dir, Progress: func(line string) { said = append(said, line) },
		wait: func(context.Context, time.Duration) error { return nil }}
	if again := get(t, s, ref); again.Digest != two.Digest() {
		t.Errorf("%+v", again)
	}
	if !slices.ContainsFunc(said, func(l string) bool { return strings.Contains(l, "from the cache") }) {
		t.Errorf("said %q", said)
	}
	if again := get(t, s, pinned); again.Digest != one.Digest() {
		t.Errorf("%+v", again)
	}
}

// Two runs that need the same image pull it once.
func TestParallelPulls(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	r.Push("app", "1", registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "x"})))
	dir := t.TempDir()
	var mu sync.Mutex
	unpacked := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s := &Store{Dir: dir, Progress: func(line string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasPrefix(line, "unpacking") {
					unpacked++
				}
			}}
			if _, err := s.Get(t.Context(), Request{Ref: r.Host + "/app:1"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if unpacked != 1 {
		t.Errorf("unpacked %d times", unpacked)
	}
}

// entries lists the store as bakeoff cache list does.
func entries(t *testing.T, s *Store) (out []string) {
	t.Helper()
	all, err := s.Entries()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		name := e.Name
		if strings.HasPrefix(name, "root-oci-") {
			name = "root"
		}
		out = append(out, e.Kind+" "+name+" "+string(e.State))
	}
	slices.Sort(out)
	return out
}

func prune(t *testing.T, s *Store, drop func(Entry) bool) {
	t.Helper()
	all, err := s.Entries()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), slices.DeleteFunc(all, func(e Entry) bool { return !drop(e) })); err != nil {
		t.Fatal(err)
	}
}

// The cache knows images whose tags moved, layers that no image has, and downloads that
// did not end.
func TestCacheOfLayers(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	ref := r.Host + "/app:1"
	s := &Store{Dir: t.TempDir()}
	r.Push("app", "1", registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "1"})))
	get(t, s, ref)
	r.Push("app", "1", registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "2"})))
	img := get(t, s, ref)
	half := filepath.Join(s.Dir, layoutDir, "partial", strings.Repeat("0", 64))
	write(t, half, "half")
	want := []string{"image root complete", "image root superseded", "layers " + ref + " complete",
		"layers oci-000000000000 partial"}
	got := entries(t, s)
	kept := slices.DeleteFunc(slices.Clone(got), func(l string) bool {
		return strings.HasPrefix(l, "layers oci-") &&
			strings.HasSuffix(l, "superseded")
	})
	if !slices.Equal(kept, want) || len(got) != len(want)+3 { // manifest, configuration and layer
		t.Errorf("%q", got)
	}
	prune(t, s, func(e Entry) bool { return e.State == Partial || e.State == Superseded })
	if got := entries(t, s); !slices.Equal(got, []string{"image root complete", "layers " + ref + " complete"}) ||
		exists(half) {
		t.Errorf("after prune: %q", got)
	}
	if again := get(t, s, ref); again.Dir != img.Dir {
		t.Errorf("prune removed %s", img.Dir)
	}
	prune(t, s, func(Entry) bool { return true })
	if got := entries(t, s); len(got) > 0 {
		t.Errorf("after clear: %q", got)
	}
	var files []string
	_ = filepath.WalkDir(filepath.Join(s.Dir, layoutDir), func(p string, d fs.DirEntry, _ error) error {
		if d.Type().IsRegular() {
			files = append(files, filepath.Base(p))
		}
		return nil
	})
	if !slices.Equal(files, []string{"index.json", "oci-layout"}) {
		t.Errorf("after clear: %q", files)
	}
	get(t, s, ref)
}

// A download that a kill ended is continued by the next build and removed by clean.
func TestSweepOfDownloads(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	write(t, filepath.Join(s.Dir, lockFile), "")
	write(t, filepath.Join(s.Dir, layoutDir, "index.json"), `{"schemaVersion":2,"manifests":[]}`)
	half := filepath.Join(s.Dir, layoutDir, "partial", strings.Repeat("0", 64))
	write(t, half, "half")
	if err := s.sweepPartial(t.Context()); err != nil || !exists(half) {
		t.Errorf("the next build removes it: %v", err)
	}
	if left, err := s.Sweep(t.Context(), true); err != nil || !slices.Equal(left, []string{half}) || !exists(half) {
		t.Errorf("%q, %v", left, err)
	}
	if left, err := s.Sweep(t.Context(), false); err != nil || len(left) != 1 || exists(half) {
		t.Errorf("%q, %v", left, err)
	}
}

// What an image refuses leaves nothing in the store but its layers.
func TestAHostileImage(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "../escaped"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	r.Push("app", "1", registrytest.Build(t, nil, b.Bytes()))
	s := &Store{Dir: t.TempDir()}
	_, err := s.Get(t.Context(), Request{Ref: r.Host + "/app:1"})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "layer 1 of 1") ||
		!strings.Contains(err.Error(), "../escaped") {
		t.Errorf("%v", err)
	}
	dirs, _ := filepath.Glob(filepath.Join(s.Dir, "root*"))
	if len(dirs) > 0 || exists(filepath.Join(s.Dir, "escaped")) {
		t.Errorf("left: %q", dirs)
	}
}

func TestRootFileSystems(t *testing.T) {
	needsRoot(t)
	src := filepath.Join(t.TempDir(), "src")
	write(t, filepath.Join(src, "bin", "tool"), "x")
	write(t, filepath.Join(src, "var/lib/dpkg/status"),
		"Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n\n"+
			"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n")
	if err := errors.Join(os.Link(filepath.Join(src, "bin/tool"), filepath.Join(src, "bin/same")),
		os.Symlink("/etc/passwd", filepath.Join(src, "link")), os.Chmod(filepath.Join(src, "bin/tool"), 0o755|fs.ModeSetuid),
		os.Lchown(filepath.Join(src, "link"), 12, 13)); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "root.tar.gz")
	if out, err := exec.Command("tar", "-C", src, "-czf", archive, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := &Store{Dir: t.TempDir()}
	for _, ref := range []string{"rootfs:" + src, "rootfs:" + archive} {
		img := get(t, s, ref)
		tool, err := os.Stat(filepath.Join(img.Dir, "bin/tool"))
		same, serr := os.Stat(filepath.Join(img.Dir, "bin/same"))
		if err != nil || serr != nil || !os.SameFile(tool, same) || tool.Mode() != 0o755|fs.ModeSetuid {
			t.Errorf("%s: %v, %v, %v", ref, tool.Mode(), err, serr)
		}
		if target, err := os.Readlink(filepath.Join(img.Dir, "link")); err != nil || target != "/etc/passwd" {
			t.Errorf("%s: %q, %v", ref, target, err)
		}
		if len(img.Packages) != 1 || img.Packages["libc6"] != "2.36-9" || img.Config != nil {
			t.Errorf("%s: %+v", ref, img)
		}
		if again := get(t, s, ref); again.Dir != img.Dir {
			t.Errorf("%s was unpacked twice", ref)
		}
	}
	before := get(t, s, "rootfs:"+src)
	write(t, filepath.Join(src, "new"), "y")
	if after := get(t, s, "rootfs:"+src); after.Digest == before.Digest || contentOf(t, after, "new") != "y" ||
		exists(filepath.Join(before.Dir, "new")) {
		t.Errorf("a folder that changed: %+v", after)
	}
	if _, err := s.Get(t.Context(), Request{Ref: "rootfs:/nonexistent"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

// What docker save wrote and OCI image layouts hold a root file system in another form.
// As a root they have none of its programs, and a static program would run in them.
func TestArchivesAreNoRootFileSystems(t *testing.T) {
	needsRoot(t)
	saved, layouts, other := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(saved, "manifest.json"), `[{"Config":"c.json","RepoTags":["a:1"],"Layers":["l/layer.tar"]}]`)
	write(t, filepath.Join(saved, "l/layer.tar"), "x")
	write(t, filepath.Join(layouts, "oci-layout"), `{"imageLayoutVersion":"1.0.0"}`)
	write(t, filepath.Join(layouts, "index.json"), `{"schemaVersion":2,"manifests":[]}`)
	write(t, filepath.Join(other, "manifest.json"), `{"name":"a web app"}`)
	write(t, filepath.Join(other, "index.json"), `[]`)
	packed := func(dir string) string {
		file := filepath.Join(t.TempDir(), "root.tar")
		if out, err := exec.Command("tar", "-C", dir, "-cf", file, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return file
	}
	lxd := t.TempDir()
	write(t, filepath.Join(lxd, "metadata.yaml"), "architecture: x86_64\n")
	write(t, filepath.Join(lxd, "rootfs/bin/sh"), "x")
	file, layout := packed(saved), packed(layouts)
	s := &Store{Dir: t.TempDir()}
	for path, want := range map[string]string{file: "write docker-archive:" + file, layout: "write oci-archive:" + layout,
		layouts: "write oci:" + layouts, saved: "docker-archive: and the tar file",
		lxd: "name the folder rootfs", packed(lxd): "name the folder rootfs"} {
		layers := folderLayers(path)
		if strings.HasSuffix(path, ".tar") {
			layers[0].Open = func() (io.ReadCloser, error) { return os.Open(path) }
		}
		if _, err := s.Make(t.Context(), Stored{Name: "made", Version: "1"}, layers); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("image create %s: %v, want %s", path, err, want)
		}
		_, err := s.Get(t.Context(), Request{Ref: "rootfs:" + path})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("rootfs:%s: %v, want %s", path, err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, "root*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	get(t, s, "rootfs:"+other)
}

// An interrupted Get leaves nothing.
func TestInterruptedUnpacking(t *testing.T) {
	needsRoot(t)
	src := filepath.Join(t.TempDir(), "src")
	write(t, filepath.Join(src, "f"), strings.Repeat("x", 8<<20))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := &Store{Dir: t.TempDir(), Progress: func(line string) {
		if strings.HasPrefix(line, "unpacking") {
			cancel()
		}
	}}
	if _, err := s.Get(ctx, Request{Ref: "rootfs:" + src}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, "root*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func FuzzInstalled(f *testing.F) {
	f.Add([]byte(apkDatabase))
	f.Add([]byte("Package: a\nStatus: install ok installed\nVersion: 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, all := range []map[string]string{parseDpkg(b), parseApk(b)} {
			for name, version := range all {
				if name == "" || version == "" {
					t.Fatalf("%q has the version %q", name, version)
				}
			}
		}
	})
}

// The digest of an archive is computed while it is unpacked. The store has each root once,
// whatever its archive is called, and two archives of the same size are two images.
func TestDigestsOfArchives(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	s := &Store{Dir: filepath.Join(dir, "store")}
	roots := map[string]string{}
	for _, tt := range []struct{ name, content string }{{"a.tar", "one"}, {"b.tar", "two"}, {"same.tar", "one"},
		{"longer.tar", strings.Repeat("x", 4096)}, {"longer.tar", strings.Repeat("x", 4096)}} {
		data := registrytest.Tar(t, map[string]string{"f": tt.content})
		write(t, filepath.Join(dir, tt.name), string(data))
		img := get(t, s, "rootfs:"+filepath.Join(dir, tt.name))
		if want := "sha256:" + fmt.Sprintf("%x", sha256.Sum256(data)); img.Digest != want ||
			img.Archive != int64(len(data)) || contentOf(t, img, "f") != tt.content {
			t.Errorf("%s: %+v, want %s", tt.name, img, want)
		}
		if old := roots[img.Digest]; old != "" && old != img.Dir {
			t.Errorf("%s is in %s and in %s", tt.name, old, img.Dir)
		}
		roots[img.Digest] = img.Dir
	}
	if got := entries(t, s); len(got) != 3 || len(roots) != 3 {
		t.Errorf("%q, %v", got, roots)
	}
	damaged := filepath.Join(dir, "damaged.tar")
	write(t, damaged, "no archive")
	if _, err := s.Get(t.Context(), Request{Ref: "rootfs:" + damaged}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a damaged archive: %v", err)
	}
	if left, err := s.listPartial(); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// Examine refuses what Get would refuse, and writes nothing.
func TestExamine(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	whole := registrytest.Tar(t, map[string]string{"bin/tool": strings.Repeat("x", 100_000), "etc/name": "y"})
	var zipped, escaping bytes.Buffer
	z, w := gzip.NewWriter(&zipped), tar.NewWriter(&escaping)
	_, err := z.Write(whole)
	if err := errors.Join(err, z.Close(), w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "../escaped"}),
		w.Close()); err != nil {
		t.Fatal(err)
	}
	half := zipped.Bytes()[:zipped.Len()/2]
	saved := registrytest.Tar(t, map[string]string{"manifest.json": `[{"Config": "c.json", "Layers": ["l.tar"]}]`})
	oci := registrytest.Tar(t, map[string]string{"oci-layout": "{}", "index.json": "{}"})
	lxd := registrytest.Tar(t, map[string]string{"metadata.yaml": "{}", "rootfs/bin/sh": "x"})
	holding := func(names ...string) string {
		files := map[string]string{}
		for _, name := range names {
			files[name] = "x"
		}
		return string(registrytest.Tar(t, files))
	}
	for _, tt := range []struct{ kind, name, content, want string }{
		{"rootfs", "inner.tar", holding("root.x86_64/etc/os-release", "root.x86_64/usr/bin/sh", "version"),
			`the root file system in its folder "root.x86_64"; unpack it; then name that folder`},
		{"rootfs", "disk.tar", holding("disk.raw"), `"disk.raw", the disk of a machine, not a root`},
		{"rootfs", "vmdk.tar", holding("a.vmdk"), "convert the disk (qemu-img convert"},
		{"rootfs", "a.ova", holding("a.ovf", "a-disk1.vmdk"), `"a.ovf" and the disks of a virtual appliance`},
		{"rootfs", "opt.tar", holding("opt/etc/x", "opt/bin/tool"), ""},
		{"rootfs", "app.tar", holding("app/bin/tool", "app/x.img"), ""},
		{"rootfs", "data.tar", holding("tool", "disk.raw"), ""},
		{"rootfs", "whole.tar", string(whole), ""},
		{"rootfs", "whole.tar.gz", zipped.String(), ""},
		{"rootfs", "half.tar", string(whole[:60_000]), "unexpected EOF"},
		{"rootfs", "half.tar.gz", string(half), "the compressed archive is damaged"},
		{"rootfs", "text.tar", strings.Repeat("no archive ", 100), "is not a tar file"},
		{"rootfs", "empty.tar", "", "the archive holds no file"},
		{"rootfs", "escaping.tar", escaping.String(), "the path has .."},
		{"rootfs", "saved.tar", string(saved), "the file contains the output of docker save"},
		{"rootfs", "oci.tar", string(oci), "the file contains an OCI image layout"},
		{"rootfs", "lxd.tar", string(lxd), "the file contains an image of LXD or Incus"},
		{"docker-archive", "saved.tar", string(saved), "the archive has no file"},
		{"docker-archive", "oci.tar", string(oci), "manifest.json"},
		{"oci-archive", "oci.tar.gz", zipped.String(), "index.json: the archive has no file"},
		{"oci-archive", "half.tar", string(whole[:60_000]), "truncated"},
		{"disk", "zero.raw", strings.Repeat("\x00", 1<<20), "disk"},
	} {
		ref := tt.kind + ":" + filepath.Join(dir, tt.name)
		write(t, filepath.Join(dir, tt.name), tt.content)
		s := &Store{Dir: filepath.Join(dir, "none")}
		err := s.Examine(t.Context(), ref)
		if (err == nil) != (tt.want == "") || err != nil && (!fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", ref, err, tt.want)
		}
		if exists(s.Dir) {
			t.Fatalf("%s: it wrote to the cache", ref)
		}
		s.Dir = filepath.Join(dir, "cache "+tt.kind+tt.name)
		if _, got := s.Get(t.Context(), Request{Ref: ref, Disk: tt.kind == "disk"}); (got == nil) != (err == nil) {
			t.Errorf("%s: Get says %v, Examine %v", ref, got, err)
		}
	}
}
