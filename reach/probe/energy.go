package probe

import (
	"os"
	"path/filepath"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/lists"
)

// powercap is the directory of the counters on Linux
// (Documentation/power/powercap).
const powercap = "/sys/class/powercap"

// readEnergy returns the counters of all packages in a folder like powercap;
// nil if there are none or one cannot be read.
func readEnergy(dir string) []facts.Energy {
	// intel-rapl:0 is a package, on AMD processors too; intel-rapl:0:0 is
	// part of it.
	found, _ := filepath.Glob(filepath.Join(dir, "intel-rapl:*"))
	var out []facts.Energy
	for _, at := range found {
		if strings.Count(filepath.Base(at), ":") != 1 {
			continue
		}
		uj := microjoules(filepath.Join(at, "energy_uj"))
		if uj == nil {
			return nil
		}
		e := facts.Energy{Zone: filepath.Base(at), Joules: *uj / 1e6}
		if most := microjoules(filepath.Join(at, "max_energy_range_uj")); most != nil {
			e.Range = *most / 1e6
		}
		out = append(out, e)
	}
	return out
}

// microjoules reads a file with one number; nil if it has none.
func microjoules(file string) *float64 {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 32)
	n, _ := f.Read(b)
	return parseCount(string(b[:n]))
}

// sumEnergy is the sum of all counters; nil if there are none.
func sumEnergy(counters []facts.Energy) *float64 {
	if len(counters) == 0 {
		return nil
	}
	return new(lists.Sum(counters, func(e facts.Energy) float64 { return e.Joules }))
}
