package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
)

// Commands and levels are compared inside the environments of one driver: each
// contender runs its own, the page states the factor, and only a sweep has a
// curve. Two blocks decide nothing, so noise decides nothing here.
func TestExamplesOfVariants(t *testing.T) {
	e2e.NeedsRoot(t)
	for name, want := range map[string]struct {
		contenders []string
		factor     string
		comparison int
		curves     bool
	}{
		"commands": {[]string{"sha256", "sha512", "blake2", "sha256~twin"}, "b2sum data", 2, false},
		"sweep": {[]string{"gzip-level-1", "gzip-level-3", "gzip-level-5", "gzip-level-7", "gzip-level-9",
			"gzip-level-1~twin"}, "gzip -9 -c log | wc -c", 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := e2e.New(t)
			lab, err := filepath.Abs("../../../../examples/" + name)
			if err != nil {
				t.Fatal(err)
			}
			r, code := h.Example(t, lab, "--profile", "ci", "--seed", "3")
			for _, m := range r.Missing {
				t.Errorf("%s at %s: %s", m.Contender, m.Cell, m.Reason)
			}
			var contenders []string
			for _, c := range r.Contenders {
				contenders = append(contenders, c.Name)
			}
			if code != 0 || r.Blocks == 0 || strings.Join(contenders, " ") != strings.Join(want.contenders, " ") {
				t.Fatalf("exit code %d, %d blocks, contenders %v", code, r.Blocks, contenders)
			}
			primary, stated := 0, false
			for _, c := range r.Comparisons {
				if !c.Primary {
					continue
				}
				primary++
				if len(c.Factors) != 1 || c.Factors[0].Name != "params.argv" {
					t.Errorf("%s: factors %v", c.Contender, c.Factors)
					continue
				}
				stated = stated || strings.Contains(c.Factors[0].Contender, want.factor)
			}
			if primary != want.comparison || !stated {
				t.Errorf("%d comparisons, factor stated: %v", primary, stated)
			}
			folder := r.Folder
			if !filepath.IsAbs(folder) {
				folder = filepath.Join(h.Dir, folder)
			}
			h.Holds(t, folder)
			page, err := os.ReadFile(filepath.Join(folder, "report", "index.html"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(page), `id="curves"`) != want.curves ||
				!strings.Contains(string(page), `id="factors"`) {
				t.Errorf("the page has curves or no factors: curves %v", !want.curves)
			}
			h.LeavesNothing(t)
		})
	}
}
