package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Bootstrap resamples hierarchical data: groups (boots, blocks) of values
// (trials) that share their group's effect.
type Bootstrap struct {
	Groups    int // number of groups
	Resamples int
	Level     float64
	Rand      *rand.Rand
}

// fewGroups is where percentile intervals begin to cover too little.
const fewGroups = 15

// Interval returns the percentile interval of a statistic. statistic is given
// the indexes of the groups of a resample, which it must not keep; value is
// what it gives for all groups once each.
//
// Whole groups are drawn with replacement and their values kept as they are:
// for the variance of what is estimated from groups of trials this comes
// closer than to resample inside of them too.
//
// Assumption: groups are independent and of one distribution. With few groups
// the interval is too short; a warning says so. It is an approximation.
//
// Source: Davison and Hinkley, Bootstrap Methods and their Application, 3.8
// and 5.2.
func (b Bootstrap) Interval(statistic func(groups []int) float64) Estimate {
	e := Estimate{Value: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1), Level: b.Level, Actual: 1, N: b.Groups}
	if b.Groups < 2 || b.Resamples < 2 || !(b.Level > 0 && b.Level < 1) {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%d groups and %d resamples at level %v: at least 2 of each are needed", b.Groups, b.Resamples, b.Level))
		return e
	}
	pick := make([]int, b.Groups)
	for i := range pick {
		pick[i] = i
	}
	e.Value = statistic(pick)
	all := make([]float64, b.Resamples)
	for i := range all {
		for j := range pick {
			pick[j] = b.Rand.IntN(b.Groups)
		}
		all[i] = statistic(pick)
	}
	if hasNaN(all) || e.Value != e.Value {
		e.Warnings = append(e.Warnings, "the statistic does not exist for some resamples: no interval")
		return e
	}
	slices.Sort(all)
	k := int((1 - b.Level) / 2 * float64(b.Resamples+1))
	k = min(max(k, 1), b.Resamples)
	e.Lo, e.Hi, e.Actual = all[k-1], all[b.Resamples-k], b.Level
	if b.Groups < fewGroups {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%d groups: intervals from fewer than %d cover less than they say", b.Groups, fewGroups))
	}
	return e
}
