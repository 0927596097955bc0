package main

import (
	"fmt"
	"math"

	"bakeoff/judge/stats"
)

// The target: at most this many times the bare command, or this many milliseconds
// more.
const (
	mostTimes = 1.2
	mostMore  = 20.0
)

// printReport prints, for each technology, every way and the intervals of ratio and
// difference of its pairs.
func printReport(there []*technology) {
	fmt.Printf("\nfrom the request for an environment until its first process has ended, medians in ms, with 95 %% " +
		"intervals\n\n")
	fmt.Printf("%-8s %-22s %-22s %-22s %-24s %s\n", "", "", "compared with", "ratio", "difference, ms",
		"target: 1.2×, or 20 ms more")
	for _, t := range there {
		name := t.name
		for _, p := range t.allPairs() {
			r, d := compare(t.times[p.through], t.times[p.with])
			fmt.Printf("%-8s %-22s %-22s %-22s %-24s %s\n", name, wayText(p.through, t.times), wayText(p.with, t.times),
				fmt.Sprintf("%.2f (%.2f to %.2f)", r.Value, r.Lo, r.Hi), fmt.Sprintf("%.1f (%.1f to %.1f)", d.Value, d.Lo, d.Hi),
				verdict(r, d))
			name = ""
		}
	}
}

// wayText formats the median of one way.
func wayText(w way, times map[way][]float64) string {
	return fmt.Sprintf("%s %.1f", w, stats.Median(times[w]))
}

// reportDown prints the times of teardown.
func reportDown(there []*technology) {
	fmt.Printf("\nteardown, medians in ms, with their number\n\n%-8s %-16s %s\n", "", "closed", "reaped")
	for _, t := range there {
		fmt.Printf("%-8s %-16s %s\n", t.name, medianText(t.closed), medianText(t.reaped))
	}
}

func medianText(ms []float64) string {
	if len(ms) == 0 {
		return "unavailable"
	}
	return fmt.Sprintf("%.1f (n=%d)", stats.Median(ms), len(ms))
}

// compare estimates the ratio and the difference of pairs.
func compare(through, bare []float64) (ratio, difference stats.Estimate) {
	var logs, diffs []float64
	for i := range through {
		logs = append(logs, math.Log(through[i]/bare[i]))
		diffs = append(diffs, through[i]-bare[i])
	}
	ratio = stats.HodgesLehmann(logs, 0.95)
	ratio.Value, ratio.Lo, ratio.Hi = math.Exp(ratio.Value), math.Exp(ratio.Lo), math.Exp(ratio.Hi)
	return ratio, stats.HodgesLehmann(diffs, 0.95)
}

// verdict says, from the intervals alone, whether the target is met.
func verdict(r, d stats.Estimate) string {
	switch {
	case r.Hi <= mostTimes || d.Hi <= mostMore:
		return "met"
	case r.Lo > mostTimes && d.Lo > mostMore:
		return "not met"
	}
	return "inconclusive"
}
