package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/disk"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
)

// withDisks is a stopped guest of a manifest.
func withDisks(t *testing.T, s *Store, text string) *Guest {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	m := read(t, text)
	p, err := s.PrepareManifest(t.Context(), nil, m, t.TempDir(), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Create(t.Context(), m, p.Boot, func(dir string) error { return p.Fill(t.Context(), dir) })
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func read(t *testing.T, text string) manifest.Guest {
	t.Helper()
	all, err := manifest.Read("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

const twoDisks = `{"brand": "bhyve", "alias": "d", "disks": [{"size": 8, "boot": true}, {"size": 16}]}`

// disksOf are the files of the disks that a guest starts with, their sizes in MiB, and b for
// the one that it boots from. Every file in the folder must be among them.
func disksOf(t *testing.T, g *Guest) (out []string) {
	t.Helper()
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		t.Fatal(err)
	}
	serials := map[string]bool{}
	for _, x := range b.Disks {
		size, err := disk.Size(t.Context(), g.store.Host, g.file(x.Path), x.Format)
		if err != nil {
			t.Fatal(err)
		}
		if serials[x.Serial] {
			t.Errorf("two disks have the serial number %q", x.Serial)
		}
		serials[x.Serial] = true
		out = append(out, fmt.Sprintf("%s %d%s", filepath.Base(x.Path), size>>20, map[bool]string{true: " b"}[x.Boots]))
	}
	return out
}

func checkDisks(t *testing.T, g *Guest, want ...string) {
	t.Helper()
	if got := disksOf(t, g); !reflect.DeepEqual(got, want) {
		t.Errorf("the guest starts with %q instead of %q", got, want)
	}
}

func update(t *testing.T, g *Guest, src string) string {
	t.Helper()
	changes, err := g.Update(t.Context(), Origin{Dir: t.TempDir()}, "u", []byte(src))
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return fmt.Sprint(changes)
}

// An update adds, changes and removes disks. The paths of disks stay, and files of disks that
// are removed go, unless a snapshot has them.
func TestUpdateDisks(t *testing.T) {
	s := newStore(t)
	g := withDisks(t, s, twoDisks)
	first, second := g.Path("disk0.qcow2"), g.Path("disk1.qcow2")
	if g.Disks[0].Path != first || g.Disks[1].Path != second {
		t.Fatalf("the disks have the paths %+v", g.Disks)
	}
	checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 16")
	change := `{"update_disks": [{"path": "` + second + `", "size": 32, "boot": true}, {"path": "` + first +
		`", "boot": false}], "add_disks": [{"size": 4}], "alias": "e"}`
	if got := update(t, g, change); !strings.Contains(got, "disks.1.size: 16 -> 32 (live)") ||
		!strings.Contains(got, `disks.2.path: (none) -> "`+g.Path("disk2.qcow2")) {
		t.Errorf("the changes are %s", got)
	}
	checkDisks(t, g, "disk0.qcow2 8", "disk1.qcow2 32 b", "disk2.qcow2 4")
	if again, err := s.Find("e"); err != nil || !reflect.DeepEqual(again.Guest, g.Guest) || again.Disks[1].Size != 32 {
		t.Errorf("%+v, %v", again, err)
	}
	if got := update(t, g, `{"update_disks": [{"path": "`+second+`", "size": "32"}]}`); got != "[]" {
		t.Errorf("an update without a change: %s", got)
	}
	if err := g.CreateSnapshot(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	update(t, g, `{"remove_disks": ["`+first+`"], "update_disks": [{"path": "`+second+`", "size": 64, "model": "nvme"}]}`)
	checkDisks(t, g, "disk1.qcow2 64 b", "disk2.qcow2 4")
	update(t, g, `{"add_disks": [{"size": 2}]}`) // it does not replace the file that the snapshot has
	checkDisks(t, g, "disk1.qcow2 64 b", "disk2.qcow2 4", "disk3.qcow2 2")
	if err := g.Rollback(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	checkDisks(t, g, "disk0.qcow2 8", "disk1.qcow2 32 b", "disk2.qcow2 4")
	if _, err := os.Stat(g.Path("disk3.qcow2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a disk that was added after the snapshot: %v", err)
	}
	update(t, g, `{"remove_disks": ["`+first+`"]}`)
	if _, err := os.Stat(first); err != nil {
		t.Errorf("the disk of a snapshot was removed: %v", err)
	}
	if err := g.DeleteSnapshot(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nobody has the disk, and it is there: %v", err)
	}
	update(t, g, `{"update_disks": [{"path": "`+second+`", "boot": false}]}`) // then the first one boots
	checkDisks(t, g, "disk1.qcow2 32 b", "disk2.qcow2 4")
}

// What cannot be is refused with the reason, and changes nothing.
func TestRefusedUpdateOfDisks(t *testing.T) {
	s := newStore(t)
	g := withDisks(t, s, twoDisks)
	first, second := g.Path("disk0.qcow2"), g.Path("disk1.qcow2")
	small := filepath.Join(t.TempDir(), "small.qcow2")
	if err := disk.Empty(t.Context(), s.Host, small, "qcow2", 8<<20); err != nil {
		t.Fatal(err)
	}
	before := g.Guest
	for src, want := range map[string]string{
		`{"disks": [{"size": 8}]}`:                                           "use add_disks, update_disks or remove_disks",
		`{"update_disks": [{"path": "` + first + `", "size": 4}]}`:           "disks.0.size: 4: bakeoff cannot make a disk",
		`{"update_disks": [{"path": "` + first + `", "size": null}]}`:        "disks.0.size: it is missing",
		`{"update_disks": [{"path": "/x", "size": 4}]}`:                      "the guest has no item with this path",
		`{"update_disks": [{"size": 4}]}`:                                    "the guest has no item with this path",
		`{"update_disks": [{"path": "` + first + `", "media": "cdrom"}]}`:    "disks.0.media: \"cdrom\": it is fixed",
		`{"update_disks": [{"path": "` + first + `", "nocreate": true}]}`:    "disks.0.nocreate: true: it is fixed",
		`{"update_disks": [{"path": "` + first + `", "image": "disk:/x"}]}`:  "disks.0.image: \"disk:/x\": it is fixed",
		`{"update_disks": [{"path": "` + second + `", "boot": true}]}`:       "disks.0 is already the boot disk",
		`{"update_disks": [{"path": "` + second + `", "model": "floppy"}]}`:  "brand bhyve has no such model",
		`{"update_disks": [{"path": "` + second + `", "block_size": 4096}]}`: "disks.1.block_size: 4096: it is fixed",
		`{"add_disks": [{"path": "` + first + `", "size": 4}]}`:              "disks.0 has the same path",
		`{"add_disks": [{"path": "/dev/null", "size": 4}]}`:                  "only a cdrom or a disk with nocreate",
		`{"add_disks": [{}]}`:                                                 "disks.2.size: it is missing",
		`{"add_disks": [{"media": "cdrom"}]}`:                                 "disks.2.path: it is missing",
		`{"add_disks": [{"path": "/no/such.iso", "media": "cdrom"}]}`:         "disks.2.path",
		`{"add_disks": [{"image": "disk:` + small + `", "size": 4}]}`:         "disks.2.size",
		`{"add_disks": [{"image": "alpine:3.20"}]}`:                           "is not the file of a disk",
		`{"remove_disks": ["` + first + `", "` + second + `"]}`:               "nothing to start from",
		`{"add_disks": [{"size": 4}], "brand": "kvm", "remove_disks": ["x"]}`: "brand: \"kvm\": it is fixed when a guest",
	} {
		_, err := g.Update(t.Context(), Origin{Dir: t.TempDir()}, "u", []byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v instead of %q", src, err, want)
		}
		checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 16")
	}
	if err := g.reopen(); err != nil || !reflect.DeepEqual(g.Guest, before) {
		t.Errorf("%+v, %v", g.Guest, err)
	}
	k := withDisks(t, s, `{"brand": "kvm", "disks": [{"size": 8}]}`)
	if _, err := k.Update(t.Context(), Origin{}, "u", []byte(`{"update_disks": [{"path": "`+k.Path("disk0.qcow2")+
		`", "size": 9}]}`)); err == nil || !strings.Contains(err.Error(), "disks of brand kvm keep their size") {
		t.Errorf("kvm: %v", err)
	}
	k.Supervisor, k.Driver = 1, manifest.DriverBhyve
	if _, err := k.Check(withoutDisks(k.Guest), k.store.Tags()); err == nil || !strings.Contains(err.Error(),
		"only while the guest is stopped; run `bakeoff vm stop") {
		t.Errorf("a guest of bhyve that runs: %v", err)
	}
}

func withoutDisks(m manifest.Guest) manifest.Guest {
	m.Disks = nil
	return m
}

// A disk of an image is as large as the image, or larger if the manifest says so.
func TestDiskOfImageGrows(t *testing.T) {
	s := newStore(t)
	withDisks(t, s, twoDisks) // says why, if it cannot
	image := filepath.Join(t.TempDir(), "image.qcow2")
	if err := disk.Empty(t.Context(), s.Host, image, "qcow2", 8<<20); err != nil {
		t.Fatal(err)
	}
	for i, disks := range []string{`{"image": "disk:` + image + `", "image_size": 7}`,
		`{"size": 8}, {"image": "disk:` + image + `", "image_size": 7}`} {
		m := read(t, `{"brand": "kvm", "disks": [`+disks+`]}`)
		p, err := s.PrepareManifest(t.Context(), nil, m, "/", build.Options{})
		if err == nil {
			_, err = s.Create(t.Context(), m, p.Boot, func(dir string) error { return p.Fill(t.Context(), dir) })
		}
		if want := fmt.Sprintf("disks.%d.image_size: 7 is less than the size of the image's disk, 8388608 bytes",
			i); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("larger than it should be: %v", err)
		}
	}
	g := withDisks(t, s, `{"brand": "bhyve", "disks": [{"image": "disk:`+image+`", "image_size": 8},
		{"image": "disk:`+image+`", "size": 9}]}`)
	checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 9")
	grow := func(size string) error {
		_, err := g.Update(t.Context(), Origin{}, "u", []byte(`{"update_disks": [{"path": "`+g.Disks[0].Path+`", "size": `+
			size+`}]}`))
		return err
	}
	if err := grow("7"); err == nil || !strings.Contains(err.Error(), "disks.0.size: 7: the disk has 8388608 bytes") {
		t.Errorf("smaller than the image: %v", err)
	}
	if err := grow("10"); err != nil {
		t.Error(err)
	}
	checkDisks(t, g, "disk0.qcow2 10 b", "disk1.qcow2 9")
}

// An update that is killed leaves the old disks until it has decided, and after that the next
// command finishes it.
func TestKilledUpdateOfDisks(t *testing.T) {
	s := newStore(t)
	g := withDisks(t, s, twoDisks)
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		t.Fatal(err)
	}
	m, _, err := manifest.Update(g.Guest, "u", []byte(`{"add_disks": [{"size": 4}], "update_disks": [{"path": "`+
		g.Disks[1].Path+`", "size": 32}], "remove_disks": ["`+g.Disks[0].Path+`"]}`))
	if err != nil {
		t.Fatal(err)
	}
	n, b, fill, err := g.changeDisks(t.Context(), Origin{}, &m, b)
	n.Guest = m
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	killed := g.become(ended, n, b, func(dir string) error {
		err := fill(t.Context(), dir)
		end()
		return err
	})
	if !errors.Is(killed, context.Canceled) {
		t.Fatal(killed)
	}
	checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 16")
	dir := g.Path(beingMade + dirNext)
	if err := errors.Join(os.Mkdir(dir, 0o700), fill(t.Context(), dir), writeJSON(filepath.Join(dir, fileNext), n),
		writeJSON(filepath.Join(dir, fileBoot), b)); err != nil {
		t.Fatal(err)
	}
	checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 16")
	if err := g.commit(t.Context(), m, dir); err != nil { // and is killed
		t.Fatal(err)
	}
	if g, err = s.Find("d"); err != nil || len(g.Disks) != 2 || g.Disks[0].Size != 32 {
		t.Errorf("it has decided: %+v, %v", g, err)
	}
	update(t, g, `{"alias": "e"}`)
	checkDisks(t, g, "disk1.qcow2 32 b", "disk2.qcow2 4")
	if _, err := os.Stat(g.Path("disk0.qcow2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the removed disk: %v", err)
	}
}

// apply finds the disks that a guest has without their paths, adds and grows disks, and
// removes none.
func TestApplyDisks(t *testing.T) {
	s := newStore(t)
	g := withDisks(t, s, twoDisks)
	apply := func(text string) (string, error) {
		m := read(t, text)
		g.Adopt(&m)
		planned, perr := g.Planned(t.Context(), Origin{}, m, s.Tags())
		changes, err := g.Become(t.Context(), Origin{}, m)
		if (perr == nil) != (err == nil) || len(planned) > 0 != (len(changes) > 0) && err == nil {
			t.Errorf("%s: planned %v, %v, and made %v, %v", text, planned, perr, changes, err)
		}
		return fmt.Sprint(changes), err
	}
	for range 2 {
		if got, err := apply(twoDisks); got != "[]" || err != nil {
			t.Errorf("the same manifest changes %s, %v", got, err)
		}
	}
	three := strings.Replace(twoDisks, `{"size": 16}`, `{"size": 16}, {"size": 24}`, 1)
	if _, err := apply(three); err != nil {
		t.Error(err)
	}
	checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 16", "disk2.qcow2 24")
	grown := strings.Replace(three, `{"size": 16}, `, `{"size": 20}, `, 1)
	for _, want := range []string{"disks.1.size: 16 -> 20 (live)", "[]"} {
		if got, err := apply(grown); !strings.Contains(got, want) || err != nil {
			t.Errorf("%s, %v", got, err)
		}
	}
	checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 20", "disk2.qcow2 24")
	_, err := apply(strings.Replace(grown, `{"size": 20}, `, "", 1))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), g.Path("disk1.qcow2")) ||
		!strings.Contains(err.Error(), "remove_disks") {
		t.Errorf("a disk that the file does not describe: %v", err)
	}
	checkDisks(t, g, "disk0.qcow2 8 b", "disk1.qcow2 20", "disk2.qcow2 24")
}

// A guest that travels has its disks on the other machine, under paths of that machine. A
// stream gives a guest no file of this machine, also not after an update.
func TestDisksTravel(t *testing.T) {
	s, other := newStore(t), newStore(t)
	g := withDisks(t, s, `{"brand": "kvm", "alias": "d", "disks": [{"size": 8}, {"size": 16}]}`)
	iso := filepath.Join(t.TempDir(), "a.iso")
	if err := os.WriteFile(iso, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	update(t, g, `{"add_disks": [{"size": 4}, {"path": "`+iso+`", "media": "cdrom"}], "remove_disks": "`+g.Disks[0].Path+
		`"}`)
	var stream bytes.Buffer
	if err := g.Send(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stream.Bytes(), []byte(iso)) || bytes.Contains(stream.Bytes(), []byte(s.State)) {
		t.Error("the stream has paths of the machine")
	}
	far, err := other.Receive(t.Context(), &stream)
	if err != nil {
		t.Fatal(err)
	}
	checkDisks(t, far, "disk1.qcow2 16 b", "disk2.qcow2 4", "cdrom2.iso 1")
	if far.Disks[0].Path != far.Path("disk1.qcow2") || far.Disks[2].Path != far.Path("cdrom2.iso") {
		t.Errorf("%+v", far.Disks)
	}
	update(t, far, `{"remove_disks": ["`+far.Disks[2].Path+`", "`+far.Disks[0].Path+`"]}`)
	checkDisks(t, far, "disk2.qcow2 4 b")
	if left, err := filepath.Glob(far.Path("*.*[2o]")); err != nil || len(left) != 1 {
		t.Errorf("the files %q are left, %v", left, err)
	}
	m, d := machineThatTravels()
	m.Disks = []manifest.Disk{{Path: "/etc/shadow", NoCreate: true, Media: "disk"}}
	if _, err := other.Receive(t.Context(), bytes.NewReader(traveler(t, m, d, d.Parts...))); err == nil ||
		!strings.Contains(err.Error(), "no file for disks.0") {
		t.Errorf("a file of this machine: %v", err)
	}
}

// The disk of a guest is larger than that of its image if a person asks for it, and never smaller.
func TestDiskOfRunGrows(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	s := newStore(t)
	image := filepath.Join(t.TempDir(), "image.qcow2")
	if err := disk.Empty(t.Context(), s.Host, image, "qcow2", 8<<20); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[unit.Bytes]string{0: "disk0.qcow2 8 b", 24 * unit.MiB: "disk0.qcow2 24 b",
		4 * unit.MiB: ""} {
		p, err := s.Prepare(t.Context(), nil, Source{What: "disk:" + image, DiskSize: size}, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Create(t.Context(), manifest.Guest{Brand: p.Brand}, p.Boot,
			func(dir string) error { return p.Fill(t.Context(), dir) })
		switch {
		case want == "":
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "cannot shrink to") {
				t.Errorf("%v: %v", size, err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			checkDisks(t, g, want)
			if err := g.Delete(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	checkEmpty(t, s)
}
