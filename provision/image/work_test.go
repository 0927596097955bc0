package image

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
)

// Two builds work at the same time, and nobody removes what they write. What a killed one
// left is found and removed.
func TestWork(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	one, err := s.Begin(t.Context(), "web-1")
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Begin(t.Context(), "db-1")
	if err != nil {
		t.Fatal(err)
	}
	if left, err := s.Sweep(t.Context(), false); err != nil || len(left) > 0 {
		t.Errorf("builds in progress were taken for leftovers: %v, %v", left, err)
	}
	all, err := s.Entries()
	if err != nil || len(all) != 2 || all[0].State != InUse || all[1].State != InUse || all[0].Kind != KindService {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.Remove(t.Context(), all); !fault.Is(err, fault.Unsupported) || !exists(one.Dir) {
		t.Errorf("a build in progress was removed: %v", err)
	}
	put := func(text string) func(*layout.Layout) (v1.Descriptor, error) {
		return func(l *layout.Layout) (v1.Descriptor, error) {
			c, err := l.PutBytes([]byte(`{}`), types.OCIConfigJSON)
			if err != nil {
				return c, err
			}
			return l.PutBytes([]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":`+
				`{"mediaType":"application/vnd.oci.image.config.v1+json","size":2,"digest":"`+c.Digest.String()+
				`"},"layers":[],"annotations":{"x":"`+text+`"}}`), types.OCIManifestSchema1)
		}
	}
	if _, err := one.Finish(t.Context(), Root{Ref: "store:web:latest"}, put("1")); err != nil {
		t.Fatal(err)
	}
	dir, img, ok, err := s.Work(t.Context(), "web-1")
	if err != nil || !ok || img.Ref != "store:web:latest" || dir != filepath.Join(s.Dir, "service-web-1") {
		t.Errorf("%s, %+v, %v, %v", dir, img, ok, err)
	}
	if _, _, ok, err := s.Work(t.Context(), "web-2"); ok || err != nil {
		t.Errorf("what was not made was found: %v", err)
	}
	two.held.Release() // as if its process had been killed
	left, err := s.Sweep(t.Context(), false)
	if err != nil || len(left) != 1 || exists(two.Dir) {
		t.Errorf("%v, %v", left, err)
	}
	three, err := s.Begin(t.Context(), "web-2")
	if err == nil {
		_, err = three.Finish(t.Context(), Root{Ref: "store:web:latest"}, put("2"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if all, err = s.Entries(); err != nil {
		t.Fatal(err)
	}
	states := map[string]State{}
	for _, e := range all {
		states[e.Name] = e.State
	}
	if states["service-web-1"] != Superseded || states["service-web-2"] != Complete {
		t.Errorf("%v", states)
	}
	four, err := s.Begin(t.Context(), "web-3")
	if err == nil {
		err = four.Abandon()
	}
	if names, _ := os.ReadDir(s.Dir); err != nil || exists(four.Dir) || len(names) != 4 {
		t.Errorf("abandoned work is left: %v, %v", names, err)
	}
}

// A system is an entry of the store until it is made of something else. A killed build leaves
// nothing that Sweep does not remove.
func TestSystem(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	make := func(digest string) string {
		t.Helper()
		w, err := s.BeginSystem(t.Context(), "rescue")
		if err == nil {
			err = os.WriteFile(filepath.Join(w.Dir, "made of"), []byte(digest), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		dir, err := w.Keep(t.Context(), Root{Ref: "rescue system", Digest: digest})
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	if _, ok, err := s.System(t.Context(), "rescue", "sha256:1"); ok || err != nil {
		t.Errorf("a system that was not made: %v, %v", ok, err)
	}
	first := make("sha256:1")
	if dir, ok, err := s.System(t.Context(), "rescue", "sha256:1"); !ok || err != nil || dir != first {
		t.Errorf("%s, %v, %v", dir, ok, err)
	}
	if _, ok, err := s.System(t.Context(), "rescue", "sha256:2"); ok || err != nil {
		t.Errorf("a system of other packages was found: %v", err)
	}
	if second := make("sha256:2"); second != first {
		t.Errorf("two systems of one name: %s and %s", first, second)
	}
	if text, err := os.ReadFile(filepath.Join(first, "made of")); err != nil || string(text) != "sha256:2" {
		t.Errorf("%s, %v", text, err)
	}
	if all, err := s.Entries(); err != nil || len(all) != 1 || all[0].Kind != KindSystem || all[0].State != Complete {
		t.Errorf("%+v, %v", all, err)
	}
	w, err := s.BeginSystem(t.Context(), "rescue")
	if err != nil {
		t.Fatal(err)
	}
	if left, err := s.Sweep(t.Context(), false); err != nil || len(left) > 0 {
		t.Errorf("a build in progress was taken for a leftover: %v, %v", left, err)
	}
	w.held.Release() // as if its process had been killed
	if left, err := s.Sweep(t.Context(), false); err != nil || len(left) != 1 || exists(w.Dir) || !exists(first) {
		t.Errorf("%v, %v", left, err)
	}
}
