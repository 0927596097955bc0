package probe

import (
	"os"
	"path/filepath"
	"strings"
)

// Energy is one energy counter of the hardware.
type Energy struct {
	Zone   string  `json:"zone"` // intel-rapl:0
	Joules float64 `json:"joules"`
	// Range is where the counter wraps to 0, in joules; 0 if unknown.
	Range float64 `json:"range_joules,omitempty"`
}

// powercap is the directory of the counters on Linux
// (Documentation/power/powercap).
const powercap = "/sys/class/powercap"

// readEnergy returns the counters of all packages in a folder like powercap;
// nil if there are none or one cannot be read.
func readEnergy(dir string) []Energy {
	// intel-rapl:0 is a package, on AMD processors too; intel-rapl:0:0 is
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

// microjoules reads a file with one number; nil if it has none.
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

// joules is the sum of all counters; nil if there are none.
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

// energySpent returns the energy between two readings of the same counters; nil
// if unknown. A counter that is lower afterwards has wrapped once: at 200 W the
// usual 262 kJ take 20 minutes, so a trial sees at most one wrap.
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
		// A foreign journal may contain any value.
		if !(d >= 0 && d < 1e18) || a.Range > 0 && b.Joules > a.Range {
			return nil
		}
		sum += d
	}
	return &sum
}
