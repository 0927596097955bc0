package webroot

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bakeoff/base/fault"

	"golang.org/x/net/html"
)

// The site that results of different versions were measured with, and the
// page of 4 KiB.
const (
	exampleSum = "c1b2cbd1b30945fb68a887206546de91931067ca0b74f489342ada482ce7c07d"
	pageSum    = "ac51d98aebf8ec9db670ded64ac50b1fb47a68f0bc3d983c3c6712044ebaf400"
)

func TestExample(t *testing.T) {
	s := Example()
	if n := len(s.Files); n != 25 {
		t.Errorf("%d files", n)
	}
	if n := s.Bytes(); n < 173_000 || n > 175_000 {
		t.Errorf("%d bytes in all, and about 174 KB are stated", n)
	}
	if n := len(s.Home().Body); n != 4069 {
		t.Errorf("the home page has %d bytes", n)
	}
	if s.Sum() != exampleSum {
		t.Errorf("the site is another one: %s", s.Sum())
	}
}

var reference = regexp.MustCompile(`(?:href|src)="([^"]+)"|<loc>([^<]+)</loc>|<link>([^<]+)</link>`)

// Every link leads to a file of the site, and a reader who follows them from
// the home page comes to all pages, images and the style sheet.
func TestExampleLinks(t *testing.T) {
	s := Example()
	reached := map[string]bool{}
	todo := []string{"/" + Home}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		f, ok := s.ByURL(path)
		if !ok {
			t.Errorf("a link leads to %s, which is not there", path)
			continue
		}
		if reached[f.Name] {
			continue
		}
		reached[f.Name] = true
		for _, m := range reference.FindAllSubmatch(f.Body, -1) {
			todo = append(todo, string(bytes.Join(m[1:], nil)))
		}
	}
	for _, f := range s.Files {
		if !reached[f.Name] && f.Name != "robots.txt" {
			t.Errorf("nothing leads to %s", f.Name)
		}
	}
}

// Pages are well formed, and pictures are pictures.
func TestExampleIsValid(t *testing.T) {
	for _, f := range Example().Files {
		switch filepath.Ext(f.Name) {
		case ".png":
			if img, err := png.Decode(bytes.NewReader(f.Body)); err != nil || img.Bounds().Dx() != wide ||
				img.Bounds().Dy() != high {
				t.Errorf("%s: %v", f.Name, err)
			}
		case ".html":
			z := html.NewTokenizer(bytes.NewReader(f.Body))
			depth := 0
			for {
				kind := z.Next()
				if kind == html.ErrorToken {
					break
				}
				name, _ := z.TagName()
				if void := strings.Contains(" meta link img br ", " "+string(name)+" "); kind == html.StartTagToken && !void {
					depth++
				} else if kind == html.EndTagToken {
					depth--
				}
			}
			if depth != 0 {
				t.Errorf("%s: %d elements more begin than end", f.Name, depth)
			}
		}
	}
}

func TestShuffled(t *testing.T) {
	s := Example()
	a, b, c := s.Shuffled(1), s.Shuffled(1), s.Shuffled(2)
	seen, same := map[string]bool{}, true
	for i := range a {
		if a[i].Name != b[i].Name {
			t.Fatal("one seed, two orders")
		}
		seen[a[i].Name] = true
		same = same && a[i].Name == c[i].Name
	}
	if len(seen) != len(s.Files) || same {
		t.Errorf("%d of %d files; two seeds give one order: %v", len(seen), len(s.Files), same)
	}
}

func TestPage(t *testing.T) {
	for _, n := range []int64{MinPage, 4096, 100000} {
		p := Page(n).Home().Body
		if int64(len(p)) != n || !bytes.HasSuffix(p, []byte("</p>\n</body></html>\n")) || !bytes.Equal(p, pageOfSize(n)) {
			t.Errorf("the page of %d bytes has %d", n, len(p))
		}
	}
	if got := Page(4096).Home().Sum(); got != pageSum {
		t.Errorf("the page of 4 KiB is another one: %s", got)
	}
}

func TestByURL(t *testing.T) {
	s, err := New(File{Home, []byte("a")}, File{"sub/" + Home, []byte("b")}, File{"a b%.txt", []byte("c")})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/": "a", "/sub/": "b", "/sub/index.html": "b", "/a%20b%25.txt": "c"} {
		if f, ok := s.ByURL(path); !ok || string(f.Body) != want {
			t.Errorf("%s: %q, %v", path, f.Body, ok)
		}
	}
	for _, f := range s.Files {
		if g, ok := s.ByURL(f.URL()); !ok || g.Name != f.Name {
			t.Errorf("%s is not at %s", f.Name, f.URL())
		}
	}
	for _, path := range []string{"", "x", "/none", "/../index.html", "/%zz"} {
		if f, ok := s.ByURL(path); ok {
			t.Errorf("%s is %s", path, f.Name)
		}
	}
}

// writeSite makes a folder of these files.
func writeSite(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFolder(t *testing.T) {
	dir := writeSite(t, map[string]string{Home: "home", "sub/a.css": "css"})
	if err := os.Symlink("sub/a.css", filepath.Join(dir, "link.css")); err != nil {
		t.Fatal(err)
	}
	s, err := Folder(dir)
	if err != nil || len(s.Files) != 3 || string(s.Home().Body) != "home" {
		t.Fatalf("%+v, %v", s, err)
	}
	if f, ok := s.ByURL("/link.css"); !ok || string(f.Body) != "css" {
		t.Errorf("a link inside: %q, %v", f.Body, ok)
	}
}

func TestFoldersThatCannotBeServed(t *testing.T) {
	outside := writeSite(t, map[string]string{"secret": "x"})
	for want, dir := range map[string]func() string{
		"no such file":          func() string { return filepath.Join(outside, "none") },
		"index.html is missing": func() string { return writeSite(t, map[string]string{"a.html": "x"}) },
		"path escapes": func() string {
			d := writeSite(t, map[string]string{Home: "x"})
			link(t, outside+"/secret", d+"/leak")
			return d
		},
		"not a regular file": func() string {
			d := writeSite(t, map[string]string{Home: "x", "sub/y": "y"})
			link(t, "sub", d+"/loop")
			return d
		},
		"control characters": func() string { return writeSite(t, map[string]string{Home: "x", "a\nb": "x"}) },
		"more than 1000 bytes": func() string {
			return writeSite(t,
				map[string]string{Home: "x", "z": strings.Repeat("x", 1000)})
		},
		"not a directory": func() string { return filepath.Join(outside, "secret") },
		"more than 9 files": func() string {
			files := map[string]string{Home: "x"}
			for i := range 9 {
				files[strings.Repeat("n", 1+i)] = ""
			}
			return writeSite(t, files)
		},
	} {
		if _, err := readFolder(dir(), bounds{files: 9, bytes: 1000}); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}
