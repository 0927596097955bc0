package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"bakeoff/judge/analysis"
	formatall "bakeoff/judge/format/all"
	workloadall "bakeoff/measure/workload/all"
	driverall "bakeoff/provision/driver/all"
	systemall "bakeoff/reach/system/all"
)

// TestReferenceIsFresh fails when docs/reference is not what `make docs`
// would write, beside the pages that people write.
func TestReferenceIsFresh(t *testing.T) {
	want := referencePages(newApp(io.Discard, "").rootCommand())
	dir := filepath.Join("..", "..", "docs", "reference")
	for name, text := range want {
		have, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Errorf("%v: run make docs", err)
		} else if !bytes.Equal(have, text) {
			t.Errorf("%s is stale: run make docs", name)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		written := name == "gates.md" || name == "results.md"
		if _, ok := want[filepath.ToSlash(name)]; err == nil && !ok && !written {
			t.Errorf("%s is of nothing that exists: remove it", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDocsDriversNames fails when docs/guides/drivers.md does not name every driver,
// workload, tool, system and format, or docs/special/analyse.md not every format.
func TestDocsDriversNames(t *testing.T) {
	names := func(page string) func(kind, name string) {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		return func(kind, name string) {
			if !bytes.Contains(text, []byte("`"+name+"`")) {
				t.Errorf("docs/%s does not name the %s `%s`: add it", page, kind, name)
			}
		}
	}
	named := names("guides/drivers.md")
	for _, d := range driverall.Drivers() {
		named("driver", d.Doc().Name)
	}
	for _, w := range workloadall.Parsers() {
		if name := w.Doc().Name; name != "calibrate" { // the command calibrate has its own
			named("workload or tool", name)
		}
	}
	for _, s := range systemall.Systems() {
		named("system", s.Doc().Name)
	}
	for _, f := range formatall.Formats() {
		named("format", f.Doc().Name)
		names("special/analyse.md")("format", f.Doc().Name)
	}
}

// TestDocsResultsNames fails when docs/reference/results.md lacks a field of results.json.
func TestDocsResultsNames(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(of.Elem())
		case reflect.Struct:
			for i := 0; i < of.NumField() && !seen[of]; i++ {
				name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				if name == "" || name == "-" {
					continue
				}
				if !regexp.MustCompile("`" + name + `(\[\])?` + "`").Match(page) {
					t.Errorf("docs/reference/results.md does not name %s of %s: add it", name, of)
				}
				defer visit(of.Field(i).Type)
			}
			seen[of] = true
		}
	}
	visit(reflect.TypeFor[analysis.Results]())
	if len(seen) < 10 {
		t.Errorf("the test saw %d types of results.json", len(seen))
	}
}

// TestDocsAnalyseOutput fails when docs/special/analyse.md shows another output than the one
// that a script compares.
func TestDocsAnalyseOutput(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "special", "analyse.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := txtar.ParseFile("testdata/script/foreign.txtar")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(script.Files, func(f txtar.File) bool { return f.Name == "two.out" })
	if i < 0 || !bytes.Contains(page, script.Files[i].Data) {
		t.Errorf("docs/special/analyse.md does not show two.out of the script")
	}
}

// TestDocsLinksResolve fails when a hand-written page links to a file or a
// heading that does not exist.
func TestDocsLinksResolve(t *testing.T) {
	root := filepath.Join("..", "..")
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md", "bench/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^():]*)\)|src="([^":]*)"`).FindAllSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(string(link[1])+string(link[2]), "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			body := []byte(nil)
			if info, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, link[0], err)
				continue
			} else if !info.IsDir() {
				if body, err = os.ReadFile(target); err != nil {
					t.Fatal(err)
				}
			}
			if anchor != "" && !headings(body)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, link[0])
			}
		}
	}
}

// TestDocsCommandsExist fails when a page shows a test or a program that does
// not exist.
func TestDocsCommandsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	var pages []string
	for _, pattern := range []string{"docs/*/*.md", "bench/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	tests, programs := 0, 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("go test (\\./[^ ]+) -run (?:\"([^\"]+)\"|([^ `]+))").FindAllSubmatch(text, -1) {
			tests++
			name := regexp.MustCompile(`(?m)^func Test\w*(` + strings.ReplaceAll(string(m[2])+string(m[3]), `\|`, "|") + `)`)
			files, err := filepath.Glob(filepath.Join(root, string(m[1]), "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(file string) bool {
				code, err := os.ReadFile(file)
				return err == nil && name.Match(code)
			}) {
				t.Errorf("%s shows %q, and there is no such test", page, m[0])
			}
		}
		for _, m := range regexp.MustCompile(`go run (\./[a-z/]+)`).FindAllSubmatch(text, -1) {
			programs++
			if _, err := os.Stat(filepath.Join(root, string(m[1]), "main.go")); err != nil {
				t.Errorf("%s shows %q: %v", page, m[0], err)
			}
		}
	}
	if tests < 20 || programs < 4 {
		t.Errorf("the pages show %d tests and %d programs: the patterns match too little", tests, programs)
	}
}

// headings lists the anchors of a page's headings, as GitHub makes them.
func headings(page []byte) map[string]bool {
	out := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllSubmatch(page, -1) {
		name := strings.ToLower(string(line[1]))
		name = regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(name, "")
		out[strings.ReplaceAll(name, " ", "-")] = true
	}
	return out
}
