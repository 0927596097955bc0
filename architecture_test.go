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

// TestArchitectureIsTrue compares ARCHITECTURE.md with the code: its table of wings is
// the one that the imports are checked against, and every folder, function and type that
// it names exists. What every import of a module is for is in docs/method/libraries.md.
func TestArchitectureIsTrue(t *testing.T) {
	text := readText(t, "ARCHITECTURE.md")
	const most = 12_000
	if len(text) > most {
		t.Errorf("ARCHITECTURE.md has %d bytes; keep it below %d and move details into docs", len(text), most)
	}
	if shown := shownWings(text); !reflect.DeepEqual(shown, wings) {
		t.Errorf("ARCHITECTURE.md shows the wings %v, the test checks %v", shown, wings)
	}
	names := codeName.FindAllStringSubmatch(text, -1)
	if len(names) < 20 {
		t.Fatalf("found %d names of code in ARCHITECTURE.md: the test saw nothing", len(names))
	}
	for _, n := range names {
		if !declared(t, n[1], n[2], n[3]) {
			t.Errorf("ARCHITECTURE.md names %s, which no package %s declares", strings.Trim(n[0], "`"), n[1])
		}
	}
	for _, n := range codePath.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(n[1]); err != nil && !strings.HasSuffix(n[1], "/NAME") {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", n[1])
		}
	}
	libraries := readText(t, "docs/method/libraries.md")
	for _, module := range imported(t) {
		if !strings.Contains(libraries, "`"+module+"`") {
			t.Errorf("docs/method/libraries.md does not say what %s is for; add a row", module)
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// codePath is a folder or file of a wing.
var codePath = regexp.MustCompile("`((?:base|reach|provision|measure|judge|lab|publish|cmd)/[A-Za-z/._-]+)`")

// codeName is `package.Name` or `package.Type.Method`.
var codeName = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z]*)(?:\\.([A-Z][A-Za-z]*))?`")

// declared reports whether a package with this last element of its path declares a name
// and, if one is given, that method of it.
func declared(t *testing.T, pkg, name, method string) bool {
	want := "(?m)^(func|type|var|const) " + name + `\b`
	if method != "" { // of a type, or in the body of an interface
		want = `(?m)^func \(\w+ \*?` + name + `\) ` + method + `\(` +
			`|^type ` + name + ` interface \{\n((\t.*)?\n)*\t` + method + `\(`
	}
	for _, pattern := range []string{"*/" + pkg + "/*.go", "*/*/" + pkg + "/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if regexp.MustCompile(want).MatchString(readText(t, f)) {
				return true
			}
		}
	}
	return false
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
