package quota

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// fake is a kernel whose file system has project quotas.
type fake struct {
	counts, enforces bool
	err              error             // of all calls
	of               map[string]uint32 // projects of folders
	limits           map[uint32]uint64
	used             map[uint32]bool // by others
	busy             int             // so many projects that are asked about first are in use
}

func newFake() *fake {
	return &fake{counts: true, enforces: true, of: map[string]uint32{}, limits: map[uint32]uint64{},
		used: map[uint32]bool{}}
}

func (f *fake) state(string) (counts, enforces bool, _ error) { return f.counts, f.enforces, f.err }

func (f *fake) project(dir string) (id uint32, inherited bool, _ error) {
	id, ok := f.of[dir]
	return id, ok, f.err
}

func (f *fake) setProject(dir string, id uint32) error {
	f.of[dir] = id
	return f.err
}

func (f *fake) known(_ string, id uint32) (bool, error) {
	if f.busy > 0 {
		f.busy--
		f.used[id] = true
	}
	return f.used[id] || f.limits[id] > 0, f.err
}

func (f *fake) limit(_ string, id uint32, bytes uint64) error {
	f.limits[id] = bytes
	return f.err
}

// Each folder gets a project that nobody uses, and a limit that Free removes.
func TestProjects(t *testing.T) {
	k := newFake()
	k.busy = 3
	p := projects{kernel: k}
	at := t.TempDir()
	dirs := []string{filepath.Join(at, "a"), filepath.Join(at, "b")}
	for _, dir := range dirs {
		if err := p.Make(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if can, err := p.Limitable(t.Context(), dir); !can || err != nil {
			t.Errorf("%s: %v, %v", dir, can, err)
		}
		if id := k.of[dir]; !ours(id) || k.used[id] {
			t.Errorf("%s has project %d", dir, id)
		}
	}
	if k.busy > 0 || k.of[dirs[0]] == k.of[dirs[1]] {
		t.Errorf("the projects are %v", k.of)
	}
	for _, gib := range []int{2, 0, 5} {
		if err := p.Limit(t.Context(), dirs[0], gib); err != nil || k.limits[k.of[dirs[0]]] != uint64(gib)<<30 {
			t.Errorf("%d GiB: %v, %v", gib, err, k.limits)
		}
	}
	if k.limits[k.of[dirs[1]]] != 0 {
		t.Errorf("the limits are %v", k.limits)
	}
	for range 2 { // the second one finds nothing
		if err := p.Free(t.Context(), dirs[0]); err != nil || k.limits[k.of[dirs[0]]] != 0 {
			t.Errorf("%v, %v", err, k.limits)
		}
		if err := os.RemoveAll(dirs[0]); err != nil {
			t.Fatal(err)
		}
	}
	// A folder of others, without a project and with one.
	for _, id := range []uint32{0, 7} {
		if id > 0 {
			k.of[at], k.limits[id] = id, 1
		}
		if can, err := p.Limitable(t.Context(), at); can || err != nil {
			t.Errorf("project %d: %v, %v", id, can, err)
		}
		if err := p.Limit(t.Context(), at, 1); err == nil {
			t.Errorf("project %d was limited", id)
		}
		if err := p.Free(t.Context(), at); err != nil || id > 0 && k.limits[id] != 1 {
			t.Errorf("project %d: %v, %v", id, err, k.limits)
		}
	}
}

// A folder whose project cannot be set does not remain.
func TestMakeFails(t *testing.T) {
	at := t.TempDir()
	dir := filepath.Join(at, "a")
	k := newFake()
	k.busy = tries
	if err := (projects{kernel: k}).Make(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "are in use") {
		t.Error(err)
	}
	k.err = errors.New("broken")
	if err := (projects{kernel: k}).Make(t.Context(), dir); !errors.Is(err, k.err) {
		t.Error(err)
	}
	if left, err := os.ReadDir(at); len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// A file system without quotas is refused, with what to do.
func TestCheckProjects(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ext4   bool
		change func(*fake)
		says   string
		fix    string
	}{
		{name: "ext4 with quotas", ext4: true},
		{"ext4 without project quotas", true, func(k *fake) { k.counts, k.enforces = false, false },
			"the ext4 of /x has no project quotas", "unmount it, run `tune2fs -O project,quota -Q prjquota DEVICE`, and " +
				"mount it with the option prjquota"},
		{"ext4 mounted without prjquota", true, func(k *fake) { k.enforces = false },
			"the ext4 of /x has no project quotas", "mount it with the option prjquota"},
		{"XFS mounted without prjquota", false, func(k *fake) { k.counts, k.enforces = false, false },
			"the XFS of /x has no project quotas", "mount it with the option prjquota"},
		{"in a project", false, func(k *fake) { k.of["/x"] = 7 }, "new files in /x get the quota project 7",
			"use another folder, or remove its project with `chattr -P`"},
		{"broken", false, func(k *fake) { k.err = errors.New("broken") }, "the project quotas of /x: broken", ""},
	} {
		k := newFake()
		if tt.change != nil {
			tt.change(k)
		}
		err := projects{kernel: k, ext4: tt.ext4}.Check(t.Context(), "/x")
		if tt.says == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), tt.says) || fault.Fix(err) != tt.fix {
			t.Errorf("%s: %v; %s", tt.name, err, fault.Fix(err))
		}
	}
}
