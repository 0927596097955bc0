package probe

import (
	"os"
	"path/filepath"
	"testing"

	"bakeoff/base/facts"
)

// tree is a folder of power caps: two packages, the first with a part that is
// not to be counted twice.
func tree(t *testing.T, first, second string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"intel-rapl/enabled":                 "1\n",
		"intel-rapl:0/energy_uj":             first,
		"intel-rapl:0/max_energy_range_uj":   "262143328850\n",
		"intel-rapl:0:0/energy_uj":           "77000000\n",
		"intel-rapl:0:0/max_energy_range_uj": "262143328850\n",
		"intel-rapl:1/energy_uj":             second,
		"intel-rapl:1/max_energy_range_uj":   "65532610987\n",
	} {
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

func TestReadEnergy(t *testing.T) {
	e := readEnergy(tree(t, "1500000\n", "2000000\n"))
	if len(e) != 2 || e[0].Zone != "intel-rapl:0" || e[0].Joules != 1.5 || e[0].Range < 262143 || e[1].Range > 65533 {
		t.Fatalf("%+v", e)
	}
	is(t, "sum", sumEnergy(e), 3.5)
	if e := readEnergy(tree(t, "1500000\n", "none\n")); e != nil {
		t.Errorf("a package that cannot be read left %+v", e)
	}
	if e := readEnergy(filepath.Join(t.TempDir(), "none")); e != nil || sumEnergy(e) != nil {
		t.Errorf("no folder gave %+v", e)
	}
}

// Two readings of real trees: one counter goes over its range in between.
func TestEnergyWraps(t *testing.T) {
	before := readEnergy(tree(t, "262143000000\n", "1000000\n"))
	after := readEnergy(tree(t, "671150\n", "3000000\n"))
	sum := func(e []facts.Energy) facts.Counters { return facts.Counters{Joules: sumEnergy(e), Energy: e} }
	d := sum(after).Since(sum(before))
	if d.Joules == nil || *d.Joules < 2.999 || *d.Joules > 3.001 {
		t.Errorf("0.32885 J to the range, 0.67115 after it and 2 of the other are %v, want 3", d.Joules)
	}
	if d.Energy != nil {
		t.Error("the levels of the counters are no difference")
	}
	// The sum alone, as in older journals, cannot be corrected.
	if d := (facts.Counters{Joules: sumEnergy(after)}).Since(facts.Counters{Joules: sumEnergy(before)}); d.Joules != nil {
		t.Errorf("a sum that went backwards became %g", *d.Joules)
	}
}
