package inputs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/provision/image"
)

// Images of files are named once, in the order of the contenders, and by absolute paths:
// a plan is run from any folder.
func TestPin(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one.tar", "two.tar"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lab := &manifest.Lab{Path: filepath.Join(dir, "bakeoff.yaml"), Contenders: []manifest.Contender{
		{Name: "host"}, {Name: "a", Image: "rootfs:two.tar"}, {Name: "built", Image: "debian:bookworm"},
		{Name: "b", Image: "rootfs:one.tar"}, {Name: "again", Image: "rootfs:two.tar"}, {Name: "folder", Image: "/srv"},
	}}
	got, err := Pin(t.Context(), &image.Store{Dir: t.TempDir()}, lab, nil)
	if want := []Source{{Image: "rootfs:two.tar"}, {Image: "rootfs:one.tar"}}; err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if want := map[string]manifest.Pinned{
		"rootfs:one.tar": {Reference: "rootfs:" + filepath.Join(dir, "one.tar")},
		"rootfs:two.tar": {Reference: "rootfs:" + filepath.Join(dir, "two.tar")},
	}; !reflect.DeepEqual(lab.Pinned, want) {
		t.Errorf("pinned %+v, want %+v", lab.Pinned, want)
	}
}

// Every image that is not there has an error with its place, and nothing is pinned.
func TestPinTellsWhatIsNotThere(t *testing.T) {
	lab := &manifest.Lab{Path: filepath.Join(t.TempDir(), "bakeoff.yaml"), Contenders: []manifest.Contender{
		{Name: "a", Image: "rootfs:none.tar", Where: map[string]string{"image": "bakeoff.yaml:4:20"}},
		{Name: "b", Image: "oci:nowhere", Where: map[string]string{"image": "bakeoff.yaml:5:20"}},
		{Name: "c", Image: "debian:bookworm", Where: map[string]string{"image": "bakeoff.yaml:6:20"}},
	}}
	_, err := Pin(t.Context(), &image.Store{Dir: t.TempDir()}, lab, nil)
	if !fault.Is(err, fault.Invalid) || fault.Fix(err) == "" {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"bakeoff.yaml:4:20", "bakeoff.yaml:5:20", "none.tar", "nowhere"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "bakeoff.yaml:6") || lab.Pinned != nil {
		t.Errorf("%v, pinned %+v", err, lab.Pinned)
	}
}
