package vm

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/image/registry/registrytest"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

// artifact is one as ORAS pushes it: files, and a configuration that says nothing.
func artifact(t *testing.T, files ...[]byte) registrytest.Image {
	t.Helper()
	describe := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": kind, "digest": registrytest.Digest(b), "size": len(b)}
	}
	empty, layers := []byte("{}"), []any{}
	for _, b := range files {
		layers = append(layers, describe("application/octet-stream", b))
	}
	m, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"artifactType": "application/vnd.unknown.artifact.v1", "config": describe("application/vnd.oci.empty.v1+json", empty),
		"layers": layers})
	if err != nil {
		t.Fatal(err)
	}
	return registrytest.Image{Config: empty, Layers: files, Manifest: m}
}

// A guest gets the disk that a registry keeps as an artifact, raw, compressed or qcow2, as its own,
// and nothing is left of one that cannot be used.
func TestADiskInARegistry(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	r := registrytest.Start(t, false)
	dir := t.TempDir()
	raw := bytes.Repeat([]byte("a sector with an end of the file"), 4096)
	copy(raw[510:], "\x55\xaa")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(raw); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	qcow2 := func(argv ...string) []byte {
		file := filepath.Join(dir, "q.qcow2")
		if out, err := exec.Command("qemu-img", append(argv, file)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := filepath.Join(dir, "raw")
	if err := os.WriteFile(plain, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Store{State: t.TempDir(), Host: local.Conn{}}
	images := &image.Store{Dir: t.TempDir()}
	for _, x := range []struct {
		tag, wrong string
		files      [][]byte
	}{
		{"raw", "", [][]byte{raw}},
		{"gzip", "", [][]byte{zipped.Bytes()}},
		{"qcow2", "", [][]byte{qcow2("convert", "-f", "raw", "-O", "qcow2", plain)}},
		{"other", "has a backing file", [][]byte{qcow2("create", "-q", "-f", "qcow2", "-F", "raw", "-b", "/etc/shadow")}},
		{"cut", "unexpected EOF", [][]byte{zipped.Bytes()[:zipped.Len()-9]}},
		{"two", "the artifact has 2 files", [][]byte{raw, []byte("b")}},
	} {
		t.Run(x.tag, func(t *testing.T) {
			r.Push("disks/a", x.tag, artifact(t, x.files...))
			p, err := s.Prepare(t.Context(), images, Source{What: r.Host + "/disks/a:" + x.tag}, build.Options{})
			var g *Guest
			if err == nil {
				g, err = s.Create(t.Context(), manifest.Guest{Brand: p.Brand}, p.Boot,
					func(dir string) error { return p.Fill(t.Context(), dir) })
			}
			if x.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), x.wrong) {
					t.Errorf("%v, want %q", err, x.wrong)
				}
				if all, err := s.List(); err != nil || len(all) > 0 {
					t.Errorf("it left %v, %v", all, err)
				}
				return
			}
			if err != nil || p.Brand != manifest.KVM || p.Name != "a" {
				t.Fatalf("%+v, %v", p, err)
			}
			defer func() { _ = g.remove(t.Context()) }()
			back := filepath.Join(t.TempDir(), "back")
			err = disk.ToRaw(t.Context(), s.Host, g.file(p.Disks[0].Path), back)
			if got, rerr := os.ReadFile(back); err != nil || rerr != nil || !bytes.Equal(got, raw) {
				t.Errorf("the disk has %d other bytes: %v, %v", len(got), err, rerr)
			}
			if files, err := filepath.Glob(g.Path("*.part")); err != nil || len(files) > 0 {
				t.Errorf("it left %v, %v", files, err)
			}
		})
	}
	for what, from := range map[string]Source{
		"a container": {Brand: manifest.Docker}, "a command": {Command: []string{"ls"}}, "a RAM disk": {InMemory: true}} {
		from.What = r.Host + "/disks/a:raw"
		if _, err := s.Prepare(t.Context(), images, from, build.Options{}); !fault.Is(err, fault.Unsupported) &&
			!fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The file of a disk needs no "disk:", and a name that is nothing is refused as both.
func TestFilesOfGuests(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	dir := t.TempDir()
	s := &Store{State: t.TempDir(), Host: local.Conn{}}
	sector := append(make([]byte, 510), 0x55, 0xaa)
	contents := map[string][]byte{"disk.img": append(sector, make([]byte, 1<<20)...), "text": []byte("text")}
	for name, content := range contents {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := s.Prepare(t.Context(), nil, Source{What: file}, build.Options{})
		switch {
		case name == "text" && !fault.Is(err, fault.Invalid):
			t.Errorf("%s: %v", name, err)
		case name != "text" && (err != nil || p.Name != "disk" || len(p.Disks) != 1 || !p.Disks[0].Boots):
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	_, err := s.Prepare(t.Context(), nil, Source{What: "absent.iso"}, build.Options{})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no file or folder") ||
		!strings.Contains(fault.Fix(err), ":latest") {
		t.Errorf("%v; %s", err, fault.Fix(err))
	}
}

// A disk with a kernel of NetBSD starts as QEMU's microvm: without ACPI, with the firmware that makes the
// table of processors, and with the command line as it was written.
func TestKernelOfNetBSD(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	dir := t.TempDir()
	kernel, root := filepath.Join(dir, "netbsd-SMOL"), filepath.Join(dir, "root.img")
	elf := make([]byte, 128) // with one segment, of notes
	copy(elf, "\x7fELF\x02\x01\x01")
	elf[16], elf[18], elf[20], elf[32], elf[54], elf[56] = 2, 62, 1, 64, 56, 1
	elf[64], elf[72], elf[96] = 4, 128, 20
	elf = append(elf, "\x04\x00\x00\x00\x04\x00\x00\x00\x12\x00\x00\x00Xen\x00\x00\x00\x10\x00"...) // PVH
	elf = append(elf, "\x00NetBSD 10.99.12 (SMOL) #0: made for this test\x00virtio_mmio.device=\x00"...)
	if err := errors.Join(os.WriteFile(kernel, elf, 0o600), os.WriteFile(root, make([]byte, 1<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := &Store{State: t.TempDir(), Host: local.Conn{}}
	p, err := s.Prepare(t.Context(), nil, Source{What: "disk:" + root, Kernel: kernel, Append: "root=ld0a console=com"},
		build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Brand != manifest.MicroVM || p.Machine != qemu.MicroVM || p.Kernel != kernel || !p.NoACPI || !p.Bare ||
		p.Wants != qemu.SeaBIOS || p.Append != "root=ld0a console=com" || len(p.Disks) != 1 || p.Disks[0].Boots {
		t.Errorf("the machine starts from %+v", p)
	}
}
