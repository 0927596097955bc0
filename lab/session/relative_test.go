package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
)

const guests = `schema: bakeoff/lab/v1
name: guests
contenders: [{name: one, driver: vm, manifest: guest.json}, {name: two, driver: vm, manifest: guest.json}]
baseline: one
cells: [{name: sha, workload: crypto, primary: true}]
`

// A run continues with the manifest beside its lab file, wherever it is continued from, unless
// the manifest has changed.
func TestResumeWithManifest(t *testing.T) {
	folder, out := t.TempDir(), t.TempDir()
	file := filepath.Join(folder, "guest.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"brand": "docker", "image": "a"}`)
	t.Chdir(folder) // the lab file is named without its folder
	l, err := manifest.Parse("bakeoff.yaml", []byte(guests), Catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(l, 7, "test", out)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.create(); err != nil {
		t.Fatal(err)
	}
	if err := s.run.Close(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(out)
	again, err := Resume(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.named.Folder != folder || len(again.named.SHA256) != 1 {
		t.Errorf("it remembers %+v", again.named)
	}
	if err := again.run.Close(); err != nil {
		t.Fatal(err)
	}
	write(`{"brand": "docker", "image": "b"}`)
	refused := func(why, says string) {
		t.Helper()
		_, err := Resume(s.Dir)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) || fault.Fix(err) == "" {
			t.Errorf("%s: %v", why, err)
		}
	}
	refused("a changed manifest", file+" changed since this run started")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused("a manifest that is gone", "guest.json")
	if err := os.Symlink("/dev/null", file); err != nil {
		t.Fatal(err)
	}
	refused("a device", file+" is not a regular file")
}
