package image

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/image/registry/registrytest"
)

// A plan registers what a tag means. The run takes that image, wherever the tag has
// moved.
func TestAPinnedTag(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	base := registrytest.Tar(t, map[string]string{"f": strings.Repeat("x", 1000)})
	one := registrytest.Build(t, nil, base)
	r.Push("app", "1", one)
	ref := r.Host + "/app:1"
	s := &Store{Dir: t.TempDir(), wait: func(context.Context, time.Duration) error { return nil }}
	got, err := s.Resolve(t.Context(), ref, "")
	size := int64(len(one.Layers[0]) + len(one.Config))
	want := Stored{Ref: ref, Digest: one.Digest(), Size: size, Missing: size}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
		t.Errorf("Resolve wrote %v", left)
	}

	two := registrytest.Build(t, nil, base, registrytest.Tar(t, map[string]string{"f": "two"}))
	r.Push("app", "1", two)
	pinned := Request{Ref: ref, Digest: one.Digest()}
	if s.Cached(pinned) {
		t.Error("an image that was not pulled is there")
	}
	img, err := s.Get(t.Context(), pinned)
	if err != nil || img.Digest != one.Digest() || len(contentOf(t, img, "f")) != 1000 {
		t.Fatalf("%+v, %v", img, err)
	}
	if !s.Cached(pinned) || s.Root(pinned) != img.Dir {
		t.Error("the image is not in the store")
	}
	got, err = s.Resolve(t.Context(), ref, "")
	missing := int64(len(two.Layers[1]) + len(two.Config))
	if err != nil || got.Digest != two.Digest() || got.Missing != missing ||
		got.Size != missing+int64(len(two.Layers[0])) {
		t.Errorf("%+v, %v", got, err)
	}

	// Without the registry, a tag means the image that it named last.
	r.Kill()
	got, err = s.Resolve(t.Context(), ref, "")
	if err != nil || got.Digest != one.Digest() || got.Missing != 0 || !strings.Contains(got.Note, r.Host) {
		t.Errorf("%+v, %v", got, err)
	}
	if again, err := s.Get(t.Context(), pinned); err != nil || again.Dir != img.Dir {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := s.Resolve(t.Context(), r.Host+"/app:2", ""); !fault.Is(err, fault.Lab) || fault.Fix(err) == "" {
		t.Errorf("%v", err)
	}
}

// A name with a digest needs no registry once its image is there.
func TestADigestThatIsThere(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	image := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "x"}))
	r.Push("app", "1", image)
	s := &Store{Dir: t.TempDir()}
	get(t, s, r.Host+"/app@"+image.Digest())
	r.Kill()
	got, err := s.Resolve(t.Context(), r.Host+"/app@"+image.Digest(), "")
	if err != nil || got.Digest != image.Digest() || got.Missing != 0 || got.Note != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Paths are relative to the folder of the lab file.
func TestPathsOfImages(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "root/bin/sh"), "x")
	s := &Store{Dir: filepath.Join(dir, "store")}
	for ref, want := range map[string]string{
		"debian:bookworm": "", "rootfs:root": "rootfs:" + dir + "/root", "rootfs:./root/../root": "rootfs:" + dir + "/root",
		"oci:root:1.2": "oci:" + dir + "/root:1.2", "rootfs:" + dir + "/root": "rootfs:" + dir + "/root",
		"docker-archive:root/bin/sh": "docker-archive:" + dir + "/root/bin/sh",
		"disk:root/bin/sh":           "disk:" + dir + "/root/bin/sh",
	} {
		if got, err := s.Resolve(t.Context(), ref, dir); err != nil || got.Ref != want || got.Digest != "" {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	_, err := s.Resolve(t.Context(), "rootfs:none", dir)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), filepath.Join(dir, "none")) {
		t.Errorf("%v", err)
	}
}
