package bakeoff

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestArchitectureIsTrue compares ARCHITECTURE.md with the code: its table of
// wings is the one that the imports are checked against, its table of packages
// has every package of every wing, and its table of dependencies has every
// module that is imported.
func TestArchitectureIsTrue(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := shownWings(string(text))
	if !reflect.DeepEqual(shown, wings) {
		t.Errorf("ARCHITECTURE.md shows the wings %v, the test checks %v", shown, wings)
	}
	packages, err := filepath.Glob("*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		wing, name := filepath.Dir(p), filepath.Base(p)
		if _, ok := wings[wing]; !ok || wing == "bench" {
			continue
		}
		row := regexp.MustCompile("(?m)^\\| `" + wing + "` \\| .*`" + name + "`.* \\|$")
		if !row.Match(text) {
			t.Errorf("ARCHITECTURE.md does not name the package %s in the row of its wing", p)
		}
	}
	for _, module := range imported(t) {
		if !strings.Contains(string(text), "`"+module+"`") {
			t.Errorf("ARCHITECTURE.md does not say what %s is for", module)
		}
	}
}

// TestLinesAreShort holds code to lines of 120 characters; a tab is one.
func TestLinesAreShort(t *testing.T) {
	const most = 120
	out, err := exec.Command("git", "ls-files", "-z", "*.go", "*.sh", "*.js", "*.css", "Makefile").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	if len(files) == 0 {
		t.Fatal("git lists no files")
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			at++
			if n := utf8.RuneCountInString(line); n > most {
				t.Errorf("%s:%d has %d characters; wrap it at %d", name, at, n, most)
			}
		}
	}
}

var (
	wingRow = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|[^|]*\\| ([^|]*) \\|$")
	quoted  = regexp.MustCompile("`([a-z/]+)`")
)

// shownWings reads the rows "| `wing` | what | `wing`, … |".
func shownWings(text string) map[string][]string {
	out := map[string][]string{}
	for _, row := range wingRow.FindAllStringSubmatch(text, -1) {
		out[row[1]] = []string{}
		for _, name := range quoted.FindAllStringSubmatch(row[2], -1) {
			out[row[1]] = append(out[row[1]], name[1])
		}
	}
	return out
}

// imported lists the modules whose packages this one imports, tests included.
func imported(t *testing.T) []string {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}{{"\n"}}{{join .TestImports `+
		`"\n"}}{{"\n"}}{{join .XTestImports "\n"}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	// Not "go list -m all", which downloads the go.mod of modules that nothing here imports.
	mods, err := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var found []string
	for module := range strings.FieldsSeq(string(mods)) {
		for pkg := range strings.FieldsSeq(string(out)) {
			if module != "bakeoff" && !seen[module] && (pkg == module || strings.HasPrefix(pkg, module+"/")) {
				seen[module] = true
				found = append(found, module)
			}
		}
	}
	if len(found) < 5 {
		t.Fatalf("go list named %d modules: the test saw nothing", len(found))
	}
	return found
}
