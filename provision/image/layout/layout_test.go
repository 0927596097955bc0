package layout

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
)

func opened(t *testing.T) *Layout {
	t.Helper()
	l, err := Open(filepath.Join(t.TempDir(), "oci"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func blob(b string) v1.Descriptor {
	return v1.Descriptor{MediaType: types.OCILayer, Size: int64(len(b)), Digest: Digest([]byte(b))}
}

// left lists what is in the layout besides blobs.
func left(t *testing.T, l *Layout) []string {
	t.Helper()
	out, err := l.Partials()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestABlobAppearsOnlyVerified(t *testing.T) {
	l := opened(t)
	d := blob("content")
	for name, r := range map[string]io.Reader{"another content": strings.NewReader("CONTENT"),
		"too short": strings.NewReader("cont"), "too long": strings.NewReader("content and more"),
		"nothing": strings.NewReader("")} {
		if err := l.Put(t.Context(), d, r); !fault.Is(err, fault.Invalid) || l.Has(d) || len(left(t, l)) > 0 {
			t.Errorf("%s: %v; there: %v; left: %v", name, err, l.Has(d), left(t, l))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Put(ctx, d, strings.NewReader("content")); !errors.Is(err, context.Canceled) || l.Has(d) {
		t.Errorf("canceled: %v", err)
	}
	if err := l.Put(t.Context(), d, strings.NewReader("content")); err != nil || !l.Has(d) {
		t.Fatalf("%v", err)
	}
	if b, err := l.Read(d); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	if err := l.Put(t.Context(), d, strings.NewReader("is not read")); err != nil {
		t.Errorf("a blob that is there: %v", err)
	}
	if err := os.WriteFile(l.Blob(d.Digest), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(d); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged blob: %v", err)
	}
}

// A download that ended early is continued, also by another process.
func TestPartialBlobs(t *testing.T) {
	l := opened(t)
	d := blob("0123456789")
	write := func(p *Partial, s string) {
		t.Helper()
		if _, err := p.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	begin := func() *Partial {
		t.Helper()
		p, err := l.Begin(d)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := begin()
	write(p, "0123")
	if err := p.Keep(); err != nil {
		t.Fatal(err)
	}
	if p = begin(); p.Size() != 4 {
		t.Fatalf("%d bytes are there", p.Size())
	}
	write(p, "456789")
	if _, err := p.Write([]byte("x")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a byte too many: %v", err)
	}
	if err := errors.Join(p.Commit(), p.Keep(), p.Discard()); err != nil || !l.Has(d) || len(left(t, l)) > 0 {
		t.Errorf("%v; left: %v", err, left(t, l))
	}

	d = blob("abcdefghij")
	p = begin()
	write(p, "wrong")
	if err := p.Keep(); err != nil {
		t.Fatal(err)
	}
	p = begin()
	write(p, "fghij")
	if err := p.Commit(); !fault.Is(err, fault.Invalid) || l.Has(d) || len(left(t, l)) > 0 {
		t.Errorf("damaged bytes: %v; left: %v", err, left(t, l))
	}
	p = begin()
	write(p, "wrong")
	if err := p.Restart(); err != nil || p.Size() != 0 {
		t.Fatal(err)
	}
	write(p, "abcdefghij")
	if err := p.Commit(); err != nil || !l.Has(d) {
		t.Error(err)
	}

	d = blob("abc") // more bytes than the blob has
	if err := os.WriteFile(filepath.Join(l.Dir, partialDir, d.Digest.Hex), []byte("abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = begin()
	if err := p.Commit(); err != nil || p.Size() != 3 {
		t.Errorf("%d bytes, %v", p.Size(), err)
	}
	if _, err := l.Begin(v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: "../../x"}}); !fault.Is(err,
		fault.Invalid) {
		t.Errorf("a digest that is a path: %v", err)
	}
}

// image stores an image of one layer.
func image(t *testing.T, l *Layout, name, content string) Image {
	t.Helper()
	layer, err := l.PutBytes([]byte(content), types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := l.PutBytes([]byte(`{}`), types.OCIConfigJSON)
	if err != nil {
		t.Fatal(err)
	}
	manifest := `{"schemaVersion":2,"config":{"digest":"` + config.Digest.String() +
		`","size":2},"layers":[{"mediaType":"` +
		string(types.OCILayer) + `","digest":"` + layer.Digest.String() + `","size":` + itoa(layer.Size) + `}]}`
	d, err := l.PutBytes([]byte(manifest), types.OCIManifestSchema1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Name(name, d); err != nil {
		t.Fatal(err)
	}
	return Image{Name: name, Manifest: d}
}

func itoa(n int64) string { return string(append([]byte(nil), []byte{byte('0' + n)}...)) }

func TestNamesAndUnusedBlobs(t *testing.T) {
	l := opened(t)
	a, b := image(t, l, "a:1", "one"), image(t, l, "b:1", "two")
	if d, ok, err := l.Find("a:1"); err != nil || !ok || d.Digest != a.Manifest.Digest {
		t.Errorf("%v, %v, %v", d, ok, err)
	}
	if _, ok, err := l.Find("c:1"); err != nil || ok {
		t.Errorf("an image that is not there: %v, %v", ok, err)
	}
	if unused, err := l.Unused(); err != nil || len(unused) > 0 {
		t.Errorf("%v, %v", unused, err)
	}
	if err := l.Name("a:1", b.Manifest); err != nil { // the tag moved
		t.Fatal(err)
	}
	all, err := l.Images()
	if err != nil || len(all) != 2 || all[0].Manifest.Digest != b.Manifest.Digest {
		t.Errorf("%v, %v", all, err)
	}
	unused, err := l.Unused()
	if err != nil || len(unused) != 2 { // the manifest and the layer, but not the configuration
		t.Errorf("%v, %v", unused, err)
	}
	if err := l.Forget(func(Image) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if unused, err = l.Unused(); err != nil || len(unused) != 5 {
		t.Errorf("%v, %v", unused, err)
	}
	again, err := Open(l.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := again.Images(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if info, err := os.Stat(l.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can enter the layout: %v, %v", info.Mode(), err)
	}
	if parts, err := filepath.Glob(filepath.Join(l.Dir, ".*")); err != nil || len(parts) > 0 {
		t.Errorf("temporary files are left: %q, %v", parts, err)
	}
}

func TestDocuments(t *testing.T) {
	sum := Digest(nil).String()
	layer := func(more string) string {
		return `{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"` + sum + `","size":5` + more + `}`
	}
	manifest := func(layers ...string) string {
		return `{"schemaVersion":2,"config":{"digest":"` + sum + `","size":3},"layers":[` + strings.Join(layers, ",") + `]}`
	}
	if _, err := ParseManifest([]byte(manifest(layer("")))); err != nil {
		t.Error(err)
	}
	many := strings.Split(strings.Repeat(layer("")+"|", maxLayers+1), "|")
	for want, text := range map[string]string{
		"damaged":                          `{`,
		"version 1":                        `{"schemaVersion":1}`,
		"version 3":                        `{"schemaVersion":3}`,
		"not the manifest":                 `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json"}`,
		"1001 layers":                      manifest(many[:maxLayers+1]...),
		"not a tar file":                   manifest(strings.Replace(layer(""), "tar+gzip", "helm", 1)),
		"damaged: wrong":                   manifest(strings.Replace(layer(""), "sha256", "sha512", 1)),
		"damaged: cannot":                  manifest(strings.Replace(layer(""), sum, "sha256:../../etc/passwd", 1)),
		"has an impossible size: -5 bytes": manifest(strings.Replace(layer(""), `"size":5`, `"size":-5`, 1)),
		"more than 109951162":              manifest(strings.Replace(layer(""), `"size":5`, `"size":9223372036854775807`, 1)),
		"limit is 4194304":                 strings.Replace(manifest(), `"size":3`, `"size":5000000`, 1),
	} {
		_, err := ParseManifest([]byte(text))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(),
			strings.TrimSuffix(strings.TrimSuffix(want, ": cannot"), ": wrong")) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if _, err := ParseIndex(bytes.Repeat([]byte(" "), MaxDocument+1)); !fault.Is(err, fault.Invalid) {
		t.Errorf("a large index: %v", err)
	}
}

func TestPlatforms(t *testing.T) {
	one := func(os, arch string) v1.Descriptor {
		return v1.Descriptor{Digest: Digest([]byte(os + arch)), Platform: &v1.Platform{OS: os, Architecture: arch}}
	}
	x := v1.IndexManifest{Manifests: []v1.Descriptor{one("windows", "amd64"),
		one("unknown", "unknown"), one("linux", "arm64"),
		one("linux", "amd64")}}
	for _, arch := range []string{"amd64", "arm64"} {
		if d, err := For(x, arch); err != nil || d.Digest != one("linux", arch).Digest {
			t.Errorf("%s: %v, %v", arch, d, err)
		}
	}
	// A variant is for newer processors only.
	newer := one("linux", "amd64")
	newer.Platform.Variant, newer.Digest = "v3", Digest([]byte("v3"))
	x.Manifests = append([]v1.Descriptor{newer}, x.Manifests...)
	if d, err := For(x, "amd64"); err != nil || d.Digest != one("linux", "amd64").Digest {
		t.Errorf("amd64 beside amd64/v3: %v, %v", d, err)
	}
	if d, err := For(v1.IndexManifest{Manifests: x.Manifests[:2]}, "amd64"); err != nil || d.Digest != newer.Digest {
		t.Errorf("amd64/v3 alone: %v, %v", d, err)
	}
	_, err := For(x, "riscv64")
	const all = "linux/amd64, linux/amd64/v3, linux/arm64, windows/amd64"
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), all) {
		t.Errorf("%v", err)
	}
}

func TestConfigs(t *testing.T) {
	diff := Digest(nil).String()
	text := `{"os":"linux","architecture":"amd64","config":{"Entrypoint":["/e"],"Cmd":["c"],"Env":["A=b"],"User":"u:g",
		"WorkingDir":"/w"},"rootfs":{"type":"layers","diff_ids":["` + diff + `"]}}`
	c, ids, err := ParseConfig([]byte(text), "amd64", 1)
	if err != nil || len(ids) != 1 || ids[0] != diff || c.Entrypoint[0] != "/e" || c.Cmd[0] != "c" || c.Env[0] != "A=b" ||
		c.User != "u:g" || c.WorkingDir != "/w" {
		t.Errorf("%+v, %v, %v", c, ids, err)
	}
	if _, _, err := ParseConfig([]byte(text), "arm64", 1); !fault.Is(err, fault.Unsupported) {
		t.Errorf("another architecture: %v", err)
	}
	for want, change := range map[string][2]string{
		"lists 2":           {`["` + diff, `["` + diff + `","` + diff},
		"not a digest":      {diff, "x"},
		"not NAME=VALUE":    {"A=b", "Ab"},
		"is not absolute":   {`"/w"`, `"w"`},
		"a zero byte":       {"u:g", `u\u0000`},
		"is damaged":        {`"os"`, `os`},
		"not for linux/amd": {"linux", "plan9"},
	} {
		if _, _, err := ParseConfig([]byte(strings.Replace(text, change[0], change[1], 1)), "amd64", 1); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	sum := Digest(nil).String()
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"` + sum + `","size":3},"layers":[]}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"` + sum + `","size":3,"platform":{"os":"linux"}}]}`))
	f.Add([]byte(`{"os":"linux","architecture":"amd64","rootfs":{"diff_ids":["` + sum + `"]},"config":{"Env":["A=b"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := ParseManifest(b); err == nil {
			for _, d := range append(m.Layers, m.Config) {
				if filepath.Base(d.Digest.Hex) != d.Digest.Hex || d.Size < 0 {
					t.Fatalf("%+v", d)
				}
			}
		}
		if d, err := ParseArtifact(b); err == nil && (filepath.Base(d.Digest.Hex) != d.Digest.Hex || d.Size < 0) {
			t.Fatalf("%+v", d)
		}
		if x, err := ParseIndex(b); err == nil {
			_, _ = For(x, "amd64") // must not panic
		}
		if _, ids, err := ParseConfig(b, "amd64", 1); err == nil && len(ids) != 1 {
			t.Fatalf("%v", ids)
		}
	})
}

func TestNotesStayWithAnImage(t *testing.T) {
	l, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.PutBytes([]byte("{}"), types.OCIManifestSchema1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.NameWith("a", d, map[string]string{"source": "https://x"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Name("b", d); err != nil { // writes the index again
		t.Fatal(err)
	}
	all, err := l.Images()
	if err != nil || len(all) != 2 || all[0].Notes["source"] != "https://x" || len(all[1].Notes) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := l.Name("a", d); err != nil {
		t.Fatal(err)
	}
	if all, err := l.Images(); err != nil || len(all[0].Notes) > 0 {
		t.Errorf("another image kept the notes: %+v, %v", all, err)
	}
}

// An entry that cannot be read does not hide the others of an index.
func TestIndexWithOneOddEntry(t *testing.T) {
	good := `{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:` + strings.Repeat("1", 64) +
		`","size":7,"platform":{"os":"linux","architecture":"amd64"}}`
	for name, odd := range map[string]string{
		"digest":    strings.Replace(good, "sha256:", "sha512:", 1),
		"size":      strings.Replace(good, `"size":7`, `"size":"7"`, 1),
		"no object": `"x"`,
		"kind":      strings.Replace(good, "image.manifest", "sbom", 1),
	} {
		x, err := ParseIndex([]byte(`{"schemaVersion":2,"manifests":[` + odd + "," + good + `]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d, err := For(x, "amd64")
		if err != nil || d.Size != 7 || !d.MediaType.IsImage() {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		x, err = ParseIndex([]byte(`{"schemaVersion":2,"manifests":[` + odd + `]}`))
		if err == nil {
			_, err = For(x, "amd64")
		}
		if err == nil {
			t.Errorf("%s, alone: no error", name)
		}
	}
}
