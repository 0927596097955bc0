package probe

import (
	"os"
	"path/filepath"
	"strings"
)

// Energy is one counter of energy of the hardware.
type Energy struct {
	Zone   string  `json:"zone"` // intel-rapl:0
	Joules float64 `json:"joules"`
	// Range is where the counter begins again at 0, in joules; 0 is not known.
	Range float64 `json:"range_joules,omitempty"`
}

// powercap is where Linux has the counters (Documentation/power/powercap).
const powercap = "/sys/class/powercap"

// readEnergy returns the counters of all packages of a folder like powercap;
// nil where there are none, or one of them cannot be read.
func readEnergy(dir string) []Energy {
	// intel-rapl:0 is a package, on processors of AMD too; intel-rapl:0:0 is a
	// part of it.
	found, _ := filepath.Glob(filepath.Join(dir, "intel-rapl:*"))
	var out []Energy
	for _, at := range found {
		if strings.Count(filepath.Base(at), ":") != 1 {
			continue
		}
		uj := microjoules(filepath.Join(at, "energy_uj"))
		if uj == nil {
			return nil
		}
		e := Energy{Zone: filepath.Base(at), Joules: *uj / 1e6}
		if most := microjoules(filepath.Join(at, "max_energy_range_uj")); most != nil {
			e.Range = *most / 1e6
		}
		out = append(out, e)
	}
	return out
}

// microjoules reads a file with one number; nil where it is none.
func microjoules(file string) *float64 {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 32)
	n, _ := f.Read(b)
	return count(string(b[:n]))
}

// joules is the sum of all counters; nil where there are none.
func joules(counters []Energy) *float64 {
	if len(counters) == 0 {
		return nil
	}
	var sum float64
	for _, e := range counters {
		sum += e.Joules
	}
	return &sum
}

// energySpent is what was spent between two readings of the same counters. One
// that is lower afterwards has reached its range once and begun again: at 200 W
// the usual 262 kJ take 20 minutes, so that a trial does not see it twice.
// Where it cannot be told, it is nil.
func energySpent(before, after []Energy) *float64 {
	if len(before) == 0 || len(before) != len(after) {
		return nil
	}
	var sum float64
	for i, a := range after {
		b := before[i]
		if a.Zone != b.Zone || a.Range != b.Range {
			return nil
		}
		d := a.Joules - b.Joules
		if d < 0 {
			d += a.Range
		}
		// A stranger's journal may hold anything.
		if !(d >= 0 && d < 1e18) || a.Range > 0 && b.Joules > a.Range {
			return nil
		}
		sum += d
	}
	return &sum
}
