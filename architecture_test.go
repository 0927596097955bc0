package bakeoff

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestArchitectureIsTrue holds ARCHITECTURE.md to the code: its table of
// floors shows every package that exists on its floor, and its table of
// dependencies has every module that is imported.
func TestArchitectureIsTrue(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := shownFloors(string(text))
	for name, floor := range layers {
		if _, err := os.Stat(strings.TrimSuffix(name, "/*")); err != nil {
			continue // planned; it has a floor before it has code
		}
		if n, ok := shown[name]; !ok {
			t.Errorf("ARCHITECTURE.md does not show %s, which stands on floor %d", name, floor)
		} else if n != floor {
			t.Errorf("ARCHITECTURE.md shows %s on floor %d, it stands on %d", name, n, floor)
		}
	}
	for name := range shown {
		if _, ok := layers[name]; !ok {
			t.Errorf("ARCHITECTURE.md shows %s, which is in no layer", name)
		}
	}
	for _, module := range imported(t) {
		if !strings.Contains(string(text), "`"+module+"`") {
			t.Errorf("ARCHITECTURE.md does not say what %s is for", module)
		}
	}
}

var floorRow = regexp.MustCompile("(?m)^\\| (\\d+) \\| (`[^|]*) \\|")

// shownFloors reads the rows "| floor | `package`, … | what |".
func shownFloors(text string) map[string]int {
	out := map[string]int{}
	for _, m := range floorRow.FindAllStringSubmatch(text, -1) {
		floor, err := strconv.Atoi(m[1])
		if err != nil {
			continue // the pattern has digits only
		}
		for name := range strings.SplitSeq(m[2], ",") {
			out[strings.Trim(name, " `")] = floor
		}
	}
	return out
}

// imported lists the modules whose packages this one imports, tests included.
func imported(t *testing.T) []string {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}{{"\n"}}{{join .TestImports "\n"}}{{"\n"}}{{join .XTestImports "\n"}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	mods, err := exec.Command("go", "list", "-m", "-f", "{{.Path}}", "all").Output()
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
