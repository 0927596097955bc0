package vm

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/network"
	"bakeoff/provision/vm/stream"
)

// traveler is the stream of a machine whose description is d.
func traveler(t testing.TB, m manifest.Guest, d sent, parts ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	if d.Guest, err = manifest.Text(m); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	w, err := stream.NewWriter(&out)
	if err == nil {
		err = w.Part(partGuest, bytes.NewReader(text))
	}
	for _, name := range parts {
		if err == nil {
			err = w.Part(name, bytes.NewReader([]byte("content")))
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func machineThatTravels() (manifest.Guest, sent) {
	m := manifest.Guest{UUID: NewUUID(), Brand: manifest.MicroVM, Kernel: "/boot/vmlinuz", Alias: "x"}
	manifest.Complete(&m)
	return m, sent{Boot: Boot{Machine: qemu.MicroVM, Kernel: partKernel}, Parts: []string{partKernel}}
}

// A guest is received whole. A stream that names a file of this machine, or has other parts
// than its description, makes nothing.
func TestReceive(t *testing.T) {
	s := newStore(t)
	m, d := machineThatTravels()
	g, err := s.Receive(t.Context(), bytes.NewReader(traveler(t, m, d, d.Parts...)))
	if err != nil || g.UUID != m.UUID || g.State != Configured {
		t.Fatalf("%+v, %v", g, err)
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	shadow := qemu.Disk{Serial: "root", Path: "/etc/shadow", Format: "qcow2", Cache: "writeback", AIO: "threads"}
	for name, change := range map[string]func(*manifest.Guest, *sent){
		"a kernel of this machine":  func(_ *manifest.Guest, d *sent) { d.Boot.Kernel = "/boot/vmlinuz" },
		"an initrd of this machine": func(_ *manifest.Guest, d *sent) { d.Boot.Initrd = "../../x" },
		"a disk of this machine":    func(_ *manifest.Guest, d *sent) { d.Boot.Disks = []qemu.Disk{shadow} },
		"a disk that is raw": func(_ *manifest.Guest, d *sent) {
			x := shadow
			x.Path, x.Format = "disk0.qcow2", "raw"
			d.Boot.Disks, d.Parts = []qemu.Disk{x}, append(slices.Clone(d.Parts), x.Path)
		},
		"a disk with no qcow2": func(_ *manifest.Guest, d *sent) {
			x := shadow
			x.Path = "disk0.qcow2"
			d.Boot.Disks, d.Parts = []qemu.Disk{x}, append(slices.Clone(d.Parts), x.Path)
		},
		"a container's root": func(m *manifest.Guest, d *sent) {
			d.Boot.Container = &Container{Root: "/", Start: driver.Start{}}
		},
		"another machine": func(_ *manifest.Guest, d *sent) { d.Boot.Machine = "none" },
		"a million slots": func(_ *manifest.Guest, d *sent) { d.Boot.Machine, d.Boot.Slots = qemu.Q35, 1_000_000 },
		"a disk in a slot that the machine lacks": func(_ *manifest.Guest, d *sent) {
			x := shadow
			x.Path, x.Slot = "disk0.qcow2", 1
			d.Boot.Disks, d.Parts = []qemu.Disk{x}, append(slices.Clone(d.Parts), x.Path)
		},
		"another firmware": func(_ *manifest.Guest, d *sent) { d.Boot.Wants = "/etc/shadow" },
		"no such folder":   func(_ *manifest.Guest, d *sent) { d.Boot.Shares = []Share{{From: "/nowhere/at/all", To: "/x"}} },
		"a part too many":  func(_ *manifest.Guest, d *sent) { d.Parts = append(slices.Clone(d.Parts), "more") },
		"the variables of the firmware twice": func(_ *manifest.Guest, d *sent) {
			d.Parts = append(slices.Clone(d.Parts), fileVariables, fileVariables)
		},
		"no UUID":          func(m *manifest.Guest, _ *sent) { m.UUID = "" },
		"a path for UUID":  func(m *manifest.Guest, _ *sent) { m.UUID = "../../x" },
		"a wrong manifest": func(m *manifest.Guest, _ *sent) { m.Alias = "a\nb" },
	} {
		m, d := machineThatTravels()
		change(&m, &d)
		if _, err := s.Receive(t.Context(), bytes.NewReader(traveler(t, m, d, d.Parts...))); err == nil {
			t.Errorf("%s was received", name)
		}
		checkEmpty(t, s)
	}
	for name, parts := range map[string][]string{"a part is missing": nil, "another part": {"x"},
		"one more": {"kernel", "x"}} {
		_, err := s.Receive(t.Context(), bytes.NewReader(traveler(t, m, d, parts...)))
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		checkEmpty(t, s)
	}
}

// What is not a whole stream of a guest makes nothing, and what is names only its own files.
func FuzzReceive(f *testing.F) {
	m, d := machineThatTravels()
	f.Add(traveler(f, m, d, d.Parts...))
	text, err := json.Marshal(d)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, b []byte) {
		// The sums keep a fuzzer from the description, so it is also read alone.
		if r, err := stream.NewReader(bytes.NewReader(b)); err == nil {
			_, _, _ = readGuest(r, noTags, nil)
		}
		var out bytes.Buffer
		w, err := stream.NewWriter(&out)
		if err != nil || w.Part(partGuest, bytes.NewReader(b)) != nil || w.Close() != nil {
			t.Fatal("a buffer takes everything")
		}
		r, err := stream.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		_, d, err := readGuest(r, noTags, nil)
		if err != nil {
			return
		}
		if _, err := r.Next(); err != io.EOF {
			t.Error(err)
		}
		for _, x := range append(d.Boot.Disks, qemu.Disk{Path: d.Boot.Kernel}, qemu.Disk{Path: d.Boot.Initrd}) {
			if len(x.Path) > 0 && (x.Path[0] == '/' || x.Path[0] == '.') {
				t.Errorf("%q names %s", b, x.Path)
			}
		}
	})
}

// noTags are those of a machine without networks.
func noTags(string) *network.Network { return nil }
