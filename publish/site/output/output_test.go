package output

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

// large is a page that compression makes smaller.
var large = bytes.Repeat([]byte("<p>The tide turns twice a day.</p>\n"), 100)

func open(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// build writes files as a build does: those that are fresh are not written. It returns
// the state for the next build.
func build(t *testing.T, root *os.Root, last map[string]Entry, pack bool, files map[string][]byte) (map[string]Entry,
	Count) {
	t.Helper()
	f := Open(root, last, pack)
	for name, content := range files {
		key := string(content)
		if f.Fresh(name, key) {
			continue
		}
		if err := f.Write(name, key, content); err != nil {
			t.Fatal(err)
		}
	}
	state, count, err := f.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return state, count
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Compressed versions decode to the file. Small files and those that are compressed
// already have none.
func TestCompressedVersionsDecodeToTheFile(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"a/index.html": large, "feed.xml": large[:leastPacked], "small.css": large[:leastPacked-1],
		"image.png": large, "data.json": large, "none": large}
	build(t, open(t, dir), nil, true, files)
	want := []string{"a/index.html", "a/index.html.br", "a/index.html.gz", "data.json", "data.json.br", "data.json.gz",
		"feed.xml", "feed.xml.br", "feed.xml.gz", "image.png", "none", "small.css"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Fatalf("files %q, want %q", got, want)
	}
	for name, content := range files {
		for suffix, decode := range map[string]func(io.Reader) (io.Reader, error){
			".gz": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
			".br": func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
		} {
			packed, err := os.ReadFile(filepath.Join(dir, name+suffix))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := decode(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s%s decodes to %d bytes, want %d: %v", name, suffix, len(got), len(content), err)
			}
			if len(packed) >= len(content) {
				t.Errorf("%s%s has %d bytes, the file %d", name, suffix, len(packed), len(content))
			}
		}
	}
}

// Compressed versions come, stay and go with the file.
func TestCompressedVersionsFollowTheFile(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	files := map[string][]byte{"index.html": large}
	state, _ := build(t, root, nil, true, files)
	if _, count := build(t, root, state, true, files); count != (Count{Kept: 1}) {
		t.Errorf("a second build: %+v", count)
	}
	// A version that somebody removed is made again.
	if err := os.Remove(filepath.Join(dir, "index.html.br")); err != nil {
		t.Fatal(err)
	}
	state, count := build(t, root, state, true, files)
	if count.Written != 1 || len(names(t, dir)) != 3 {
		t.Errorf("%+v, files %q", count, names(t, dir))
	}
	// A file that became small has none.
	state, _ = build(t, root, state, true, map[string][]byte{"index.html": []byte("short")})
	if got := names(t, dir); !slices.Equal(got, []string{"index.html"}) {
		t.Errorf("files %q", got)
	}
	state, _ = build(t, root, state, true, files)
	// Without the setting they go.
	state, count = build(t, root, state, false, files)
	if got := names(t, dir); count.Written != 1 || !slices.Equal(got, []string{"index.html"}) {
		t.Errorf("%+v, files %q", count, got)
	}
	state, _ = build(t, root, state, true, files)
	state, count = build(t, root, state, true, nil)
	if got := names(t, dir); count.Removed != 1 || len(got) > 0 || len(state) > 0 {
		t.Errorf("%+v, files %q", count, got)
	}
}

// A build removes what it wrote itself and nothing else, and follows no link.
func TestNothingElseIsTouched(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "output")
	for _, folder := range []string{dir, filepath.Join(base, "elsewhere")} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"secret": "secret", "output/CNAME": "example.com"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"index.html": "../secret", "posts": "../elsewhere"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	root := open(t, dir)
	state, _ := build(t, root, nil, false, map[string][]byte{"index.html": large, "posts/a/index.html": large})
	text, err := os.ReadFile(filepath.Join(base, "secret"))
	if err != nil || string(text) != "secret" || len(names(t, filepath.Join(base, "elsewhere"))) > 0 {
		t.Errorf("a link was followed: %q, %v", text, err)
	}
	// A damaged state names files that no build wrote.
	for _, name := range []string{"../secret", "/etc/passwd", "", "."} {
		state[name] = Entry{}
	}
	build(t, root, state, false, nil)
	if got := names(t, dir); !slices.Equal(got, []string{"CNAME"}) {
		t.Errorf("files %q", got)
	}
	if _, err := os.Stat(filepath.Join(base, "secret")); err != nil {
		t.Error(err)
	}
	f := Open(root, nil, false)
	for _, name := range []string{"../x", "/x", "", ".", "a/../../x", "a//b"} {
		if f.Write(name, "", nil) == nil {
			t.Errorf("a file %q was written", name)
		}
	}
}

// A file with another key, size or time is made again; one that is as it was is not.
func TestFreshFiles(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	files := map[string][]byte{"a": []byte("one"), "b": []byte("two")}
	state, count := build(t, root, nil, false, files)
	if count.Written != 2 {
		t.Fatalf("%+v", count)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("odd"), 0o644); err != nil {
		t.Fatal(err)
	}
	e := state["a"]
	e.Nanos-- // the same size, another time
	changed := maps.Clone(state)
	changed["a"] = e
	if _, count = build(t, root, changed, false, files); count != (Count{Written: 1, Kept: 1}) {
		t.Errorf("%+v", count)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a")); string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
	files["b"] = []byte(strings.ToUpper("two"))
	if _, count = build(t, root, state, false, files); count.Written < 1 {
		t.Errorf("%+v", count)
	}
}
