package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/registry/registrytest"
	"bakeoff/provision/image/unpack"
)

func TestImportAndPush(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	tar := registrytest.Tar(t, map[string]string{"bin/sh": "shell"})
	one := registrytest.Build(t, nil, tar)
	r.Push("team/app", "1", one)
	s := &Store{Dir: t.TempDir()}
	counted := false
	s.Count = func(_ string, done, all int64) { counted = counted || done == all }
	h, err := s.Import(t.Context(), r.Host+"/team/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if h.Digest != one.Digest() || h.State != stateComplete || h.Version != "1" || h.Source != r.Host || !counted {
		t.Errorf("%+v, counted %v", h, counted)
	}
	if !s.Cached(Request{Ref: r.Host + "/team/app:1"}) {
		t.Error("a run would unpack the image again")
	}

	// An image that was made here is the same one after push and import.
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := s.Make(t.Context(), Stored{Name: "made", Version: "1", Origin: h.Digest, OriginName: h.Ref},
		folderLayers(files))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time everything is there
		if err := s.Push(t.Context(), made, r.Host+"/team/made:1"); err != nil {
			t.Fatal(err)
		}
	}
	other := &Store{Dir: t.TempDir()}
	back, err := other.Import(t.Context(), r.Host+"/team/made:1")
	if err != nil || back.Digest != made.Digest || len(back.Layers) != 2 || back.Origin != h.Digest {
		t.Errorf("%+v, %v", back, err)
	}
	img := get(t, s, "store:made:1")
	if img.Digest != made.Digest || contentOf(t, img, "f") != "x" || contentOf(t, img, "bin/sh") != "shell" {
		t.Errorf("%+v", img)
	}
	c, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	if tags, err := c.Tags(t.Context(), r.Host, "team/made"); err != nil || strings.Join(tags, " ") != "1" {
		t.Errorf("tags %v, %v", tags, err)
	}
	repos, err := c.Repositories(t.Context(), r.Host)
	if err != nil || strings.Join(repos, " ") != "team/app team/made" {
		t.Errorf("repositories %v, %v", repos, err)
	}
}

func TestRefusedImportsChangeNothing(t *testing.T) {
	needsRoot(t)
	r := registrytest.Start(t, false)
	r.Push("app", "1", registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "good"})))
	s := &Store{Dir: t.TempDir()}
	had, err := s.Import(t.Context(), r.Host+"/app:1")
	if err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, s.Dir)
	r.Push("app", "1", registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"../../f": "evil"})))
	if _, err := s.Import(t.Context(), r.Host+"/app:1"); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "may leave the image") {
		t.Errorf("%v", err)
	}
	all, err := s.Stored()
	if err != nil || len(all) != 1 || all[0].Digest != had.Digest {
		t.Errorf("%+v, %v", all, err)
	}
	if after := filesOf(t, s.Dir); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("files\n%s\ninstead of\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	if _, err := s.Import(t.Context(), r.Host+"/none:1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an image that the registry lacks: %v", err)
	}
}

// folderLayers are the files of a folder as a layer.
func folderLayers(dir string) []unpack.Layer {
	return []unpack.Layer{{Name: dir, Size: -1, Plain: true,
		Open: func() (io.ReadCloser, error) { return unpack.Folder(dir), nil }}}
}

// filesOf lists the files of the layout.
func filesOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		found, err := filepath.Glob(filepath.Join(dir, layoutDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

func TestPushToAPrivateRegistry(t *testing.T) {
	r := registrytest.Start(t, true)
	s := &Store{Dir: t.TempDir()}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := s.Make(t.Context(), Stored{Name: "app", Version: "1"}, folderLayers(dir))
	if err != nil {
		t.Fatal(err)
	}
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	if err := s.Push(t.Context(), h, r.Host+"/app:1"); !fault.Is(err, fault.Unsupported) {
		t.Errorf("without a password: %v", err)
	}
	auth := `{"auths":{"` + r.Host + `":{"username":"` + r.User + `","password":"` + r.Password + `"}}}`
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(auth), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Push(t.Context(), h, r.Host+"/app:1"); err != nil {
		t.Error(err)
	}
	if err := s.Push(t.Context(), h, r.Host+"/app@"+h.Digest); !fault.Is(err, fault.Invalid) {
		t.Errorf("a push without a tag: %v", err)
	}
}

func TestStoredImagesOfAPlan(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	if _, err := s.Resolve(t.Context(), "store:app:1", "."); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(fault.Fix(err), "image import") {
		t.Errorf("%v", err)
	}
	dir := t.TempDir()
	_, err := s.Make(t.Context(), Stored{Name: "team/app", Version: "1"}, folderLayers(dir))
	if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error()+fault.Fix(err), "store:") ||
		!strings.Contains(fault.Fix(err), "write NAME:VERSION, such as app:1") {
		t.Errorf("%v", err)
	}
	var made []Stored
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := s.Make(t.Context(), Stored{Name: "app", Version: text}, folderLayers(dir))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, h)
	}
	r, err := s.Resolve(t.Context(), "store:app:one", ".")
	if err != nil || r.Digest != made[0].Digest || r.Ref != "store:app:one" {
		t.Errorf("%+v, %v", r, err)
	}
	// The digest of a plan counts, whatever has the name now.
	l := &layout.Layout{Dir: filepath.Join(s.Dir, layoutDir)}
	one, _, err := l.Find("store:app:one")
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := l.Find("store:app:two")
	if err = errors.Join(err, l.Name("store:app:old", one), l.Name("store:app:one", two)); err != nil {
		t.Fatal(err)
	}
	needsRoot(t)
	img, err := s.Get(t.Context(), Request{Ref: "store:app:one", Digest: made[0].Digest})
	if err != nil || contentOf(t, img, "f") != "one" {
		t.Errorf("%+v, %v", img, err)
	}
}

// An image for another platform can be stored, for instance to send it elsewhere. Import says that it cannot run here.
func TestImportOfAnotherPlatform(t *testing.T) {
	needsRoot(t)
	layer := registrytest.Tar(t, map[string]string{"f": "1"})
	for arch, foreign := range map[string]bool{runtime.GOARCH: false, "vax": true} {
		file := filepath.Join(t.TempDir(), "image.tar")
		config := fmt.Sprintf(`{"os":"linux","architecture":%q,"config":{},"rootfs":{"type":"layers","diff_ids":[%q]}}`, arch,
			registrytest.Digest(layer))
		archive := registrytest.Tar(t, map[string]string{"config.json": config, "l/layer.tar": string(layer),
			"manifest.json": `[{"Config":"config.json","RepoTags":["a:1"],"Layers":["l/layer.tar"]}]`})
		if err := os.WriteFile(file, archive, 0o600); err != nil {
			t.Fatal(err)
		}
		said := ""
		s := &Store{Dir: t.TempDir(), Progress: func(text string) { said += text + "\n" }}
		h, err := s.Import(t.Context(), "docker-archive:"+file)
		if err != nil || h.Arch != arch {
			t.Errorf("%s: %+v, %v", arch, h, err)
		}
		want := `is for "linux/` + arch + `", and this machine for linux/` + runtime.GOARCH
		if strings.Contains(said, want) != foreign {
			t.Errorf("%s: import said %q", arch, said)
		}
	}
}
