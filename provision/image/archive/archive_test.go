package archive

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/registry/registrytest"
)

func sample(t testing.TB) registrytest.Image {
	return registrytest.Build(t, map[string]any{"Env": []string{"A=b"}}, registrytest.Tar(t, map[string]string{"f": "1"}),
		registrytest.Tar(t, map[string]string{"f": "2"}))
}

// blob is the path of a blob in a layout.
func blob(b []byte) string {
	return "blobs/sha256/" + strings.TrimPrefix(registrytest.Digest(b), "sha256:")
}

// inLayout are the files of a layout with an image, by their paths.
func inLayout(i registrytest.Image, tags ...string) map[string]string {
	files := map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`, blob(i.Config): string(i.Config),
		blob(i.Manifest): string(i.Manifest)}
	for _, l := range i.Layers {
		files[blob(l)] = string(l)
	}
	var all []string
	for _, tag := range tags {
		all = append(all, fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":%d,`+
			`"annotations":{"org.opencontainers.image.ref.name":%q}}`, i.Digest(), len(i.Manifest), tag))
	}
	files["index.json"] = `{"schemaVersion":2,"manifests":[` + strings.Join(all, ",") + `]}`
	return files
}

// listed is an entry of the index of a layout: an image with a tag and an architecture, both of which may be "".
func listed(i registrytest.Image, tag, arch string) string {
	platform := ""
	switch arch {
	case "":
	case "unknown":
		platform = `,"platform":{"os":"unknown","architecture":"unknown"}`
	default:
		platform = fmt.Sprintf(`,"platform":{"os":"linux","architecture":%q}`, arch)
	}
	return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":%d,`+
		`"annotations":{"org.opencontainers.image.ref.name":%q}%s}`, i.Digest(), len(i.Manifest), tag, platform)
}

// withIndex are the files of a layout with images and these entries of the index.
func withIndex(images []registrytest.Image, entries ...string) map[string]string {
	files := map[string]string{}
	for _, i := range images {
		maps.Copy(files, inLayout(i))
	}
	files["index.json"] = `{"schemaVersion":2,"manifests":[` + strings.Join(entries, ",") + `]}`
	return files
}

// inDocker are the files of docker save.
func inDocker(t testing.TB, i registrytest.Image) map[string]string {
	files := map[string]string{"config.json": string(i.Config)}
	s := saved{Config: "config.json", RepoTags: []string{"app:1"}}
	for n, l := range i.Layers {
		name := fmt.Sprintf("%d/layer.tar", n)
		files[name] = string(l)
		s.Layers = append(s.Layers, name)
	}
	b, err := json.Marshal([]saved{s})
	if err != nil {
		t.Fatal(err)
	}
	files["manifest.json"] = string(b)
	return files
}

// folderOf writes files below a new folder.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tarOf writes a tar file of files and of links.
func tarOf(t *testing.T, files map[string]string, links ...[2]string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range links {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: l[0], Linkname: l[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// compressed compresses a file as the program does.
func compressed(t *testing.T, program, file string) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "image."+program))
	if err != nil {
		t.Fatal(err)
	}
	var w io.WriteCloser
	switch program {
	case "gzip":
		w = gzip.NewWriter(out)
	case "zstd":
		w, err = zstd.NewWriter(out)
	case "xz":
		w, err = xz.NewWriter(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

// flip changes one byte of a file.
func flip(t *testing.T, file string, at int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0xff
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// imported imports an image into a new layout.
func imported(t *testing.T, text string) (*layout.Layout, string, error) {
	t.Helper()
	l, err := layout.Open(filepath.Join(t.TempDir(), "oci"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := reference.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Import(t.Context(), r, runtime.GOARCH, l)
	return l, d.Digest.String(), err
}

func TestImport(t *testing.T) {
	i := sample(t)
	links := inDocker(t, i)
	delete(links, "1/layer.tar")
	links["manifest.json"] = strings.Replace(links["manifest.json"], "1/layer.tar", "2/layer.tar", 1)
	links["1/layer.tar"] = string(i.Layers[1])
	index := inLayout(i, "v1")
	nested := fmt.Sprintf(`{"schemaVersion":2,`+
		`"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,`+
		`"size":%d,"platform":{"os":"linux","architecture":%q}}]}`, i.Digest(), len(i.Manifest), runtime.GOARCH)
	index[blob([]byte(nested))] = nested
	index["index.json"] = fmt.Sprintf(`{"schemaVersion":2,`+
		`"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json",`+
		`"digest":%q,"size":%d}]}`, registrytest.Digest([]byte(nested)), len(nested))
	other := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "3"}))
	both := []registrytest.Image{i, other}
	twice := inDocker(t, i)
	twice["manifest.json"] = strings.Replace(twice["manifest.json"], "]}]", `]},`+twice["manifest.json"][1:], 1)
	for name, text := range map[string]string{
		"two names of an image": "oci-archive:" + tarOf(t, inLayout(i, "v0", "v1")),
		"tag of an archive": "oci-archive:" + tarOf(t, withIndex(both, listed(other, "v0", runtime.GOARCH),
			listed(i, "v1", runtime.GOARCH))) + ":v1",
		"tag of an image for two architectures": "oci:" + folderOf(t, withIndex(both, listed(other, "v1", "vax"),
			listed(i, "v1", runtime.GOARCH))) + ":v1",
		"after an attestation":     "oci:" + folderOf(t, withIndex(both, listed(other, "", "unknown"), listed(i, "", ""))),
		"two names in docker save": "docker-archive:" + tarOf(t, twice),
		"layout":                   "oci:" + folderOf(t, inLayout(i, "v1")),
		"tag":                      "oci:" + folderOf(t, inLayout(i, "v0", "v1")) + ":v1",
		"tag of a full name":       "oci:" + folderOf(t, inLayout(i, "docker.io/library/app:v1", "x")) + ":v1",
		"index in the index":       "oci:" + folderOf(t, index),
		"archive":                  "oci-archive:" + tarOf(t, inLayout(i, "v1")),
		"archive of docker":        "docker-archive:" + tarOf(t, inDocker(t, i)),
		"gzip":                     "docker-archive:" + compressed(t, "gzip", tarOf(t, inDocker(t, i))),
		"xz":                       "docker-archive:" + compressed(t, "xz", tarOf(t, inDocker(t, i))),
		"zstd":                     "docker-archive:" + compressed(t, "zstd", tarOf(t, inDocker(t, i))),
		"archive in gzip":          "oci-archive:" + compressed(t, "gzip", tarOf(t, inLayout(i, "v1"))),
		"archive in zstd":          "oci-archive:" + compressed(t, "zstd", tarOf(t, inLayout(i, "v1"))),
		"links between layers":     "docker-archive:" + tarOf(t, links, [2]string{"2/layer.tar", "../1/layer.tar"}),
	} {
		t.Run(name, func(t *testing.T) {
			l, digest, err := imported(t, text)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(text, "docker-archive:") && digest != i.Digest() {
				t.Errorf("%s, want %s", digest, i.Digest())
			}
			images, err := l.Images()
			if err != nil || len(images) != 1 || images[0].Name != text {
				t.Fatalf("%v, %v", images, err)
			}
			blobs, err := l.Blobs(images[0])
			if err != nil || len(blobs) != 4 {
				t.Fatalf("%v, %v", blobs, err)
			}
			for _, b := range blobs {
				if !l.Has(b) {
					t.Errorf("blob %s is not there", b.Digest)
				}
				if b.MediaType == types.OCIUncompressedLayer {
					t.Errorf("layer %s is compressed, and its type is %s", b.Digest, b.MediaType)
				}
			}
			if left, err := l.Partials(); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			ref, err := reference.Parse(text)
			if err == nil && ref.Kind != reference.Layout {
				err = Check(t.Context(), ref, runtime.GOARCH)
			}
			if err != nil {
				t.Errorf("Check refuses what Import takes: %v", err)
			}
		})
	}
}

// Before a run starts, Check refuses an archive with an image for another platform, also a compressed one.
func TestCheckRefusesAnotherPlatform(t *testing.T) {
	i := sample(t)
	for kind, files := range map[string]map[string]string{"docker-archive:": inDocker(t, i),
		"oci-archive:": inLayout(i, "v1")} {
		for _, file := range []string{tarOf(t, files), compressed(t, "gzip", tarOf(t, files))} {
			for arch, want := range map[string]string{runtime.GOARCH: "",
				"vax": "the image is for \"linux/" + runtime.GOARCH + "\", and not for linux/vax"} {
				ref, err := reference.Parse(kind + file)
				if err == nil {
					err = Check(t.Context(), ref, arch)
				}
				if (want == "") != (err == nil) || want != "" && (!fault.Is(err, fault.Unsupported) ||
					!strings.Contains(err.Error(), want)) {
					t.Errorf("%s%s on %s: %v, want %q", kind, filepath.Base(file), arch, err, want)
				}
			}
		}
	}
}

func TestRefused(t *testing.T) {
	i := sample(t)
	change := func(files map[string]string, name, text string) map[string]string {
		files = maps.Clone(files)
		files[name] = text
		return files
	}
	without := func(files map[string]string, name string) map[string]string {
		files = maps.Clone(files)
		delete(files, name)
		return files
	}
	good, docker := inLayout(i, "v1"), inDocker(t, i)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, i.Layers[0], 0o600); err != nil {
		t.Fatal(err)
	}
	linked := folderOf(t, without(good, blob(i.Layers[0])))
	if err := os.Symlink(secret, filepath.Join(linked, blob(i.Layers[0]))); err != nil {
		t.Fatal(err)
	}
	short := tarOf(t, good)
	if err := os.Truncate(short, 1000); err != nil {
		t.Fatal(err)
	}
	cut := compressed(t, "gzip", tarOf(t, docker))
	if err := os.Truncate(cut, 400); err != nil {
		t.Fatal(err)
	}
	changed := compressed(t, "gzip", tarOf(t, docker))
	flip(t, changed, 200)
	half := tarOf(t, map[string]string{"a": "1", "b": strings.Repeat("x", 10000)})
	if err := os.Truncate(half, 5000); err != nil {
		t.Fatal(err)
	}
	both, arch := []registrytest.Image{i, registrytest.Build(t, nil, registrytest.Tar(t, nil))}, runtime.GOARCH
	partlyNamed := folderOf(t, withIndex(both, listed(i, "x/app:a", arch), listed(both[1], "", arch)))
	named := tarOf(t, withIndex(both, listed(i, "x/app:a", arch), listed(both[1], "b", arch)))
	for name, c := range map[string]struct{ text, want string }{
		"truncated":  {"docker-archive:" + half, "the archive is truncated"},
		"no folder":  {"oci:/nonexistent", "no such file"},
		"no file":    {"oci-archive:/nonexistent", "no such file"},
		"a folder":   {"docker-archive:" + t.TempDir(), "write oci:"},
		"a file":     {"oci:" + os.Args[0], "write oci-archive:"},
		"a device":   {"docker-archive:" + os.DevNull, "write the archive to a file first"},
		"no layout":  {"oci:" + t.TempDir(), "name an OCI image layout"},
		"no image":   {"oci:" + folderOf(t, inLayout(i)), "holds no image"},
		"two images": {"oci:" + partlyNamed, "holds 2 images; write oci:" + partlyNamed + `:TAG with one of "a"`},
		"two images with names": {"oci-archive:" + named, "holds 2 images; write oci-archive:" + named +
			`:TAG with one of "a", "b"`},
		"images without names": {"oci:" + folderOf(t, withIndex(both, listed(i, "", ""), listed(both[1], "", ""))),
			"2 images that neither a name nor a platform distinguishes; write each"},
		"two images for one platform": {"oci:" + folderOf(t, withIndex(both, listed(i, "a", arch),
			listed(both[1], "a", arch))),
			"several images for linux/" + arch},
		"no tags":            {"oci:" + folderOf(t, inLayout(i, "")) + ":v2", `no tags; remove the tag "v2"`},
		"unknown tag":        {"oci:" + folderOf(t, good) + ":v2", `no image with the tag "v2"; use one of "v1"`},
		"changed layer":      {"oci:" + folderOf(t, change(good, blob(i.Layers[0]), "x")), "was changed or is damaged"},
		"changed manifest":   {"oci:" + folderOf(t, change(good, blob(i.Manifest), "{}")), "was changed or is damaged"},
		"missing layer":      {"oci:" + folderOf(t, without(good, blob(i.Layers[0]))), "no such file"},
		"link out":           {"oci:" + linked, "escapes"},
		"missing in archive": {"oci-archive:" + tarOf(t, without(good, blob(i.Layers[0]))), "has no file"},
		"end of archive":     {"oci-archive:" + short, "has no file"},
		"cut":                {"docker-archive:" + cut, "the archive is truncated"},
		"changed":            {"docker-archive:" + changed, "the compressed archive is damaged"},
		"compressed layer": {"oci-archive:" + compressed(t, "xz", tarOf(t, map[string]string{"f": "1"})),
			"name an OCI image layout"},
		"docker as oci": {"oci-archive:" + tarOf(t, docker), "use docker-archive:"},
		"oci as docker": {"docker-archive:" + tarOf(t, good), "use oci-archive:"},
		"two saved": {"docker-archive:" + tarOf(t,
			change(docker, "manifest.json", `[{"Config":"a"},{"Config":"b"}]`)), "holds 2 images"},
		"none saved":    {"docker-archive:" + tarOf(t, change(docker, "manifest.json", `[]`)), "holds no image"},
		"damaged list":  {"docker-archive:" + tarOf(t, change(docker, "manifest.json", `{`)), "damaged"},
		"missing saved": {"docker-archive:" + tarOf(t, without(docker, "0/layer.tar")), "has no file"},
		"path out": {"docker-archive:" + tarOf(t, change(docker, "manifest.json", `[{"Config":"../../etc/passwd"}]`)),
			"has no file"},
		"links in a circle": {"docker-archive:" + tarOf(t, without(docker, "0/layer.tar"), [2]string{"0/layer.tar", "../a"},
			[2]string{"a", "0/layer.tar"}), "has no file"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, err := imported(t, c.text)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
			images, ierr := l.Images()
			partial, perr := l.Partials()
			if ierr != nil || perr != nil || len(images)+len(partial) > 0 {
				t.Errorf("left: %v, %v", images, partial)
			}
		})
	}
}

func FuzzSaved(f *testing.F) {
	f.Add([]byte(`[{"Config":"a","RepoTags":["b:c"],"Layers":["d"]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSaved(b); err == nil && (s.Config == "" || len(s.Layers) > maxSaved) {
			t.Fatalf("%+v", s)
		}
	})
}
