package pulled

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/store"
	"bakeoff/provision/image"
	"bakeoff/provision/image/registry/registrytest"
)

// looker is the only program of an image. It says 7 if it has what the layers of the
// image and its configuration say.
const looker = `package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

var wrong bool

func want(what string, got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		fmt.Fprintf(os.Stderr, "%s is %v instead of %v; ", what, got, want)
		wrong = true
	}
}

func main() {
	var names []string
	for _, dir := range []string{"/srv", "/srv/opaque"} {
		entries, err := os.ReadDir(dir)
		want(dir, err, nil)
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	want("the list of files", strings.Join(names, " "), "first opaque second new")
	var a, b syscall.Stat_t
	want("the first name", syscall.Stat("/srv/first", &a), nil)
	want("the second name", syscall.Stat("/srv/second", &b), nil)
	want("the inode", a.Ino, b.Ino)
	want("the owner", fmt.Sprint(a.Uid, " ", a.Gid), "1234 4321")
	want("the mode", a.Mode&07777, 04754)
	note := make([]byte, 16)
	n, err := syscall.Getxattr("/srv/first", "user.note", note)
	want("the attribute", err, nil)
	// gVisor of 2025 adds a zero byte.
	want("the attribute", strings.TrimRight(string(note[:max(n, 0)]), "\x00"), "kept")
	want("the variable", os.Getenv("WORD"), "of the image")
	groups, err := os.Getgroups()
	want("the groups", err, nil)
	want("the user", fmt.Sprint(os.Getuid(), os.Getgid(), groups), "1000 1001 [5]")
	want("the home", os.Getenv("HOME"), "/srv")
	folder, err := os.Getwd()
	want("the folder", err, nil)
	want("the folder", folder, "/made/for/work")
	want("the arguments", strings.Join(os.Args[1:], " "), "seven times one")
	if wrong {
		os.Exit(1)
	}
	fmt.Println("looked", 7)
}
`

// file is an entry of a layer.
func file(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text)),
		PAXRecords: map[string]string{
			"comment": text}}
}

// folder is an entry of a layer.
func folder(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, PAXRecords: map[string]string{}}
}

// packed is a layer. The text of a file is its comment.
func packed(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := h.PAXRecords["comment"]
		delete(h.PAXRecords, "comment")
		h.ModTime = time.Unix(1, 0)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// lookerImage is an image with nothing but the program, in two layers.
func lookerImage(t *testing.T) registrytest.Image {
	t.Helper()
	program := filepath.Join(t.TempDir(), "look")
	e2e.Build(t, looker, program)
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	look, first := file("opt/look", string(text)), file("srv/first", "first")
	look.Mode = 0o755 // gVisor executes only what its user can read
	first.Mode, first.Uid, first.Gid, first.PAXRecords["SCHILY.xattr.user.note"] = 0o4754, 1234, 4321, "kept"
	return registrytest.Build(t, map[string]any{"Env": []string{"WORD=of the image"}, "User": "app",
		"WorkingDir": "/made/for/work", "Entrypoint": []string{"/opt/look", "seven"}, "Cmd": []string{"times one"}},
		packed(t, folder("opt/"), folder("srv/"), folder("srv/opaque/"), look, first,
			file("etc/passwd", "app:x:1000:1001::/srv:\n"), file("etc/group", "log:x:5:app\n"),
			file("srv/removed", ""), file("srv/opaque/old", ""),
			tar.Header{Typeflag: tar.TypeLink, Name: "srv/second", Linkname: "srv/first", Mode: first.Mode, Uid: first.Uid,
				Gid: first.Gid}), // as tar writes it: Docker takes the last entry of a file
		packed(t, folder("srv/"), folder("srv/opaque/"), file("srv/.wh.removed", ""), file("srv/opaque/.wh..wh..opq", ""),
			file("srv/opaque/new", "")))
}

// ownCache gives h a cache of its own with the kernels and programs of the machine's
// cache, so that images of registries that end with the test do not stay there.
func ownCache(t *testing.T, h *e2e.Home) {
	t.Helper()
	old, dir := h.Variable("BAKEOFF_CACHE"), filepath.Join(h.Dir, "cache")
	if err := os.MkdirAll(filepath.Join(dir, "image"), 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(old, "image", "kernel-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range found {
		if strings.HasSuffix(from, ".partial") {
			continue
		}
		if err := os.Symlink(from, filepath.Join(dir, "image", filepath.Base(from))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(old, "bin"), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	h.Env = append(h.Env, "BAKEOFF_CACHE="+dir)
}

// medians are the medians of a metric by contender.
func medians(r e2e.Ran, metric string) map[string]float64 {
	out := map[string]float64{}
	for _, s := range r.Summaries {
		if s.Metric == metric && s.Median != nil {
			out[s.Contender] = *s.Median
		}
	}
	return out
}

// hasDigest asserts that the fingerprint of a contender has the digest of its image, as
// the registry has it.
func hasDigest(t *testing.T, h e2e.Home, r e2e.Ran, contender string, image registrytest.Image) {
	t.Helper()
	if got := factsOf(t, h, r, contender)["image.digest"]; got != image.Digest() {
		t.Errorf("the fingerprint of %s has the digest %q, want %s", contender, got, image.Digest())
	}
}

// factsOf are those of the fingerprint of a contender.
func factsOf(t *testing.T, h e2e.Home, r e2e.Ran, contender string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.Dir, r.Folder, "fingerprint", contender+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var fp facts.Fingerprint
	if err := json.Unmarshal(text, &fp); err != nil {
		t.Fatal(err)
	}
	return fp.Facts
}

// An image of a registry is the same in every kind of environment: its files, their
// owners, hard links and attributes, what a layer removes, its program, variables, user and
// folder.
func TestPulledImage(t *testing.T) {
	e2e.NeedsRoot(t)
	server := registrytest.Start(t, false)
	h := e2e.New(t)
	ownCache(t, &h)
	image := lookerImage(t)
	server.Push("app", "1", image)
	t.Cleanup(func() {
		id := strings.TrimPrefix(registrytest.Digest(image.Config), "sha256:")
		if out, err := exec.Command("podman", "image", "rm", "--force", id).CombinedOutput(); err != nil {
			t.Errorf("podman keeps the image: %v\n%s", err, out)
		}
	})
	lab := `schema: bakeoff/lab/v1
name: pulled
defaults: {memory: 256MiB, image: "` + server.Host + `/app:1"}
contenders:
  - {name: chroot, driver: chroot}
  - {name: bwrap, driver: bwrap}
  - {name: crun, driver: oci, runtime: crun}
  - {name: runc, driver: oci, runtime: runc}
  - {name: nspawn, driver: nspawn}
  - {name: lxc, driver: lxc}
  - {name: docker, driver: docker, engine: private}
  - {name: podman, driver: podman}
  - {name: microvm, driver: qemu, machine: microvm}
baseline: chroot
cells: [{name: look, workload: command, params: {cost: "regexp:looked ([0-9]+)"}, primary: [cost]}]
design: {blocks: 1, instances: run, mirror: false, budget: 2m}
`
	names := []string{"chroot", "bwrap", "crun", "runc", "nspawn", "lxc", "docker", "podman", "microvm"}
	for driver, program := range map[string]string{"gvisor": "runsc", "firecracker": "firecracker"} {
		_, err := exec.LookPath(program)
		_, built := os.Stat(filepath.Join(h.Dir, "cache/bin", program))
		if err != nil && built != nil {
			t.Logf("without %s: there is no program %s", driver, program)
			continue
		}
		names = append(names, driver)
		lab = strings.Replace(lab, "baseline:", "  - {name: "+driver+", driver: "+driver+"}\nbaseline:", 1)
	}
	if err := os.WriteFile(filepath.Join(h.Dir, "bakeoff.yaml"), []byte(lab), 0o600); err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, "--seed", "5")
	for _, m := range r.Missing {
		t.Errorf("%s: %s", m.Contender, m.Reason)
	}
	seen := medians(r, "cost")
	for _, name := range names {
		if seen[name] != 7 {
			t.Errorf("%s printed %v, want 7", name, seen[name])
		}
		hasDigest(t, h, r, name, image)
	}
	// The engines have the image under the ID that a pull gives it.
	for _, engine := range []string{"docker", "podman"} {
		if got, want := factsOf(t, h, r, engine)["driver.image-id"], registrytest.Digest(image.Config); got != want {
			t.Errorf("%s ran the image %q, want %s", engine, got, want)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, l := range e2e.Journal(t, filepath.Join(h.Dir, r.Folder, store.JournalFile)) {
		if l.Reason != "" && l.Type != store.LineEnd {
			t.Errorf("%s: %s", l.Contender, l.Reason)
		}
	}
	h.Holds(t, filepath.Join(h.Dir, r.Folder))
	h.LeavesNothing(t)
}

// try takes an image of a registry by its address, and the run records its digest.
func TestTryPulled(t *testing.T) {
	e2e.NeedsRoot(t)
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skip("needs busybox: apt-get install busybox-static")
	}
	if f, err := elf.NewFile(bytes.NewReader(program)); err != nil || f.SectionByType(elf.SHT_DYNAMIC) != nil {
		t.Skip("needs a static busybox: apt-get install busybox-static")
	}
	server := registrytest.Start(t, false)
	h := e2e.New(t)
	ownCache(t, &h)
	busybox := file("bin/busybox", string(program))
	busybox.Mode = 0o755
	image := registrytest.Build(t, nil, packed(t, busybox, tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/sh",
		Linkname: "busybox"}))
	server.Push("app", "1", image)
	at := server.Host + "/app:1"
	out, errs, code := h.Bakeoff(t, e2e.RunLimit, "try", "--json", "--seed", "7", "--budget", "1s",
		"--metric", "last-line:lower",
		"host", "crun:"+at, "bwrap:"+at, "--", "busybox", "sh", "-c", "echo took 7")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v in %q\n%s", code, err, out, errs)
	}
	if seen := medians(r, "cost"); seen["host"] != 7 || seen["crun"] != 7 || seen["bwrap"] != 7 {
		t.Errorf("printed %v, want 7", seen)
	}
	for _, name := range []string{"crun", "bwrap"} {
		hasDigest(t, h, r, name, image)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// A program for glibc cannot start in an image with musl. plan says so, and what to do.
func TestMuslRefusesGlibc(t *testing.T) {
	e2e.NeedsRoot(t)
	loaders, err := filepath.Glob("/lib/ld-musl-*.so.1")
	if err != nil || len(loaders) != 1 {
		t.Skip("needs a loader of musl: apt-get install musl")
	}
	loader, err := os.ReadFile(loaders[0])
	if err != nil {
		t.Fatal(err)
	}
	server := registrytest.Start(t, false)
	h := e2e.New(t)
	ownCache(t, &h)
	libc := file(loaders[0][1:], string(loader))
	libc.Mode = 0o755
	server.Push("musl", "1", registrytest.Build(t, nil, packed(t, libc)))
	ref := server.Host + "/musl:1"
	store := image.Store{Dir: filepath.Join(h.Dir, "cache/image")}
	if _, err := store.Get(t.Context(), image.Request{Ref: ref}); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"program": string(program), "bakeoff.yaml": `schema: bakeoff/lab/v1
name: musl
files: [{from: program, to: /opt/program}]
contenders: [{name: host, driver: host}, {name: crun, driver: oci, runtime: crun, image: "` + ref + `"}]
baseline: host
cells: [{name: start, workload: command, params: {argv: [/opt/program]}, primary: true}]
`} {
		if err := os.WriteFile(filepath.Join(h.Dir, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan")
	text := strings.Join(strings.Fields(out+errs), " ")
	for _, want := range []string{"needs the loader /lib", "(glibc), which image " + ref + " does not have",
		"use an image with glibc"} {
		if code == 0 || !strings.Contains(text, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
}

// A machine boots with the root partition of a qcow2 file as its root.
func TestDiskOfAMachine(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	ownCache(t, &h)
	dir := t.TempDir()
	opt := filepath.Join(dir, "root", "opt")
	if err := os.MkdirAll(opt, 0o755); err != nil {
		t.Fatal(err)
	}
	e2e.Build(t, "package main\n\nfunc main() {}\n", filepath.Join(opt, "run"))
	fs, raw := filepath.Join(dir, "root.ext4"), filepath.Join(dir, "disk.raw")
	if out, err := exec.Command("/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", filepath.Join(dir, "root"), fs,
		"16M").CombinedOutput(); err != nil {
		t.Skipf("needs mke2fs: apt-get install e2fsprogs (%v, %s)", err, out)
	}
	system, err := os.ReadFile(fs)
	if err != nil {
		t.Fatal(err)
	}
	disk := make([]byte, 1<<20, 17<<20)
	copy(disk[446:], []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x80, 0, 0}) // 16 MiB from sector 2048
	copy(disk[510:], "\x55\xaa")
	if err := os.WriteFile(raw, append(disk, system...), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("qemu-img", "convert", "-O", "qcow2", raw,
		filepath.Join(h.Dir, "disk.qcow2")).CombinedOutput(); err != nil {
		t.Skipf("needs qemu-img: apt-get install qemu-utils (%v, %s)", err, out)
	}
	ref := "disk:" + filepath.Join(h.Dir, "disk.qcow2")
	lab := `schema: bakeoff/lab/v1
name: disk
defaults: {memory: 256MiB, image: "` + ref + `"}
contenders: [{name: microvm, driver: qemu, machine: microvm}]
baseline: microvm
cells: [{name: run, workload: command, params: {argv: [/opt/run]}, primary: true}]
design: {blocks: 1, instances: run, mirror: false, budget: 2m}
`
	if err := os.WriteFile(filepath.Join(h.Dir, "bakeoff.yaml"), []byte(lab), 0o600); err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, "--seed", "5")
	if seen := medians(r, "wall"); code != 0 || seen["microvm"] == 0 {
		t.Errorf("exit code %d, medians %v, missing %v", code, seen, r.Missing)
	}
	_, errs, code := h.Bakeoff(t, 3*time.Minute, "try", "crun:"+ref, "--", "true")
	if code == 0 || !strings.Contains(errs, "is the disk of a machine, but the driver starts no machines") {
		t.Errorf("in crun: exit code %d, %s", code, errs)
	}
	h.LeavesNothing(t)
}
