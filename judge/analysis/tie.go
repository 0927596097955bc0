package analysis

import (
	"fmt"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/judge/stats"
)

// PathUse is how a trial used the network path to its environment.
type PathUse struct {
	Rate  float64 // responses per second
	Share float64 // of what the path carries; 1: all
	Busy  float64 // share of the environment's CPUs, 0 to 1
}

// What makes equal rates suspicious.
const (
	tieWidth = 1.005 // the largest ratio of two rates that are equal
	tieShare = 0.5   // the least share of the path
	tieBusy  = 0.75  // the most that the CPUs are busy
)

// tieWarnings names the cells in which several contenders reach the same rate on the same
// path with idle CPUs. Then what they share may be the limit, also where each trial passes
// the gate path. The twin does not count as a contender here.
func (d *Data) tieWarnings() (out []string) {
	if !slices.ContainsFunc(d.Observations, func(o Observation) bool { return o.Path != nil }) {
		return nil
	}
	for _, cell := range d.Cells {
		var tied []PathUse
		for _, c := range d.Contenders {
			if use, ok := d.pathUse(c.Name, cell.Name); ok && c.Name != d.Twin && use.Share >= tieShare &&
				use.Busy <= tieBusy {
				tied = append(tied, use)
			}
		}
		if most := largestTie(tied); len(most) > 1 {
			m := medianUse(most)
			out = append(
				out,
				fmt.Sprintf("%s: %d contenders are within %.1f %% of each other at %.0f responses/s, which is %.0f %% "+
					"of what the network path carries, with %.0f %% of their CPUs idle. The path or the load generator may be "+
					"the limit, not the contenders.", cell.Name, len(most), 100*(tieWidth-1), m.Rate, 100*m.Share, 100*(1-m.Busy)),
			)
		}
	}
	return out
}

// pathUse returns the median use of the path in the trials of a contender.
func (d *Data) pathUse(contender, cell string) (PathUse, bool) {
	var uses []PathUse
	for _, o := range d.Observations {
		if o.Contender == contender && o.Cell == cell && o.Path != nil && !o.Failed {
			uses = append(uses, *o.Path)
		}
	}
	return medianUse(uses), len(uses) > 0
}

func medianUse(uses []PathUse) PathUse {
	of := func(f func(PathUse) float64) float64 { return stats.Median(lists.Map(uses, f)) }
	return PathUse{Rate: of(func(u PathUse) float64 { return u.Rate }),
		Share: of(func(u PathUse) float64 { return u.Share }), Busy: of(func(u PathUse) float64 { return u.Busy })}
}

// largestTie returns the largest group of equal rates, the first of several.
func largestTie(uses []PathUse) (most []PathUse) {
	for _, low := range uses {
		group := lists.Filter(uses, func(u PathUse) bool { return u.Rate >= low.Rate && u.Rate <= low.Rate*tieWidth })
		if len(group) > len(most) {
			most = group
		}
	}
	return most
}
