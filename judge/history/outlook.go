package history

import (
	"math"
	"slices"

	"bakeoff/judge/stats"
)

// mostOutlook bounds the runs that an outlook looks ahead.
const mostOutlook = 20

// powerDeviate is the normal deviate of the probability 0.8 with which a step of the size
// of an outlook is found.
const powerDeviate = 0.8416

// outlook says which steps more runs after the last cut could show, the smallest number of
// runs first, and whether the newest runs may be one. level is the error rate of a reading that has all of it.
func (m *maker) outlook(s series, from int, level float64) {
	n := len(s.xs)
	v := s.variances()
	xs, v, within := s.xs[from:], v[from:], s.within[from:]
	if len(xs) < 3 {
		return
	}
	typical := 1 / weights(v) * float64(len(v)) // variance of a run by the weights
	known := stats.Median(within) / typical
	found := func(size, scale float64, old, now int) bool {
		k := now - (len(xs) - old) // runs to come
		p := clearPlaces(old+now, old) * stats.StudentP(size/deviation(scale*typical, old, now), float64(old+now-2))
		return ordered(old, now) && p <= level*shareOfReading(n+k)*shareOfShift*float64(old+now)/float64(n+k)
	}
	scale := max(known, residualScale(xs, v, len(xs)))
	for k := leastShift; k <= mostOutlook; k++ {
		if !ordered(len(xs), k) {
			continue
		}
		share := level * shareOfReading(n+k) * shareOfShift * float64(len(xs)+k) / float64(n+k)
		share /= clearPlaces(len(xs)+k, len(xs))
		t := stats.StudentQuantile(1-share, float64(len(xs)+k-2))
		size := (t + powerDeviate) * deviation(scale*typical, len(xs), k)
		m.out.Outlook = append(m.out.Outlook, Outlook{Runs: k, Size: m.showValue(size)})
	}
	best := chanceOfSuspect
	for j := 1; j <= 3 && len(xs)-j >= 3; j++ {
		old := len(xs) - j
		size := weighted(xs[old:], v[old:]) - weighted(xs[:old], v[:old])
		scale := max(known, residualScale(xs, v, old))
		p := stats.StudentP(size/deviation(scale*typical, old, j), float64(len(xs)-2))
		if p > best || !sideAgrees(xs, old, size) {
			continue
		}
		clear := j == 1 && old >= leastBefore && p <= level*shareOfReading(n)*shareOfClear && standsOut(xs)
		for k := 1; k <= mostOutlook; k++ {
			if found(math.Abs(size), scale, old, j+k) {
				best = p
				m.out.Suspect = &Suspect{At: from + old, Run: m.out.Estimates[from+old].Run, Ratio: m.showValue(size), Runs: k,
					P: p, Clear: clear}
				break
			}
		}
	}
}

// standsOut reports whether the newest run is farther from the level before than any other.
func standsOut(xs []float64) bool {
	last := len(xs) - 1
	level := stats.Median(xs[:last])
	return !slices.ContainsFunc(xs[:last], func(x float64) bool {
		return math.Abs(x-level) >= math.Abs(xs[last]-level)
	})
}

// A clear suspect is the newest run behind at least leastBefore others. This part of the
// error rate is added to that of the steps for it: a history may be read after every run.
const (
	leastBefore  = 5
	shareOfClear = 0.004
)

// chanceOfSuspect is the largest p-value of newest runs that an outlook names.
const chanceOfSuspect = 0.005

// deviation is that of the difference between the means of a and b runs.
func deviation(variance float64, a, b int) float64 {
	return math.Sqrt(variance * (1/float64(a) + 1/float64(b)))
}

// residualScale is the variance of runs around their levels before and from at on, in units
// of their variances.
func residualScale(xs, variances []float64, at int) float64 {
	squares, df := 0.0, 0
	forEachPart(len(xs), []int{at}, func(from, to int) {
		if from == to {
			return
		}
		level := weighted(xs[from:to], variances[from:to])
		for i := from; i < to; i++ {
			squares += (xs[i] - level) * (xs[i] - level) / variances[i]
		}
		df += to - from - 1
	})
	return squares / float64(df)
}
