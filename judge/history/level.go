package history

import (
	"math"

	"bakeoff/base/lists"
	"bakeoff/judge/stats"
)

// levels are the levels of the segments of a series, with runs as replicates.
type levels struct {
	segments []level
	between  float64 // variance between runs
	df       int     // runs that tell of it
	scale    float64 // of the variances: 1 where the runs scatter as expected
}

// level is a segment: the runs [from, to).
type level struct {
	from, to int
	mean     float64
	variance float64 // of mean, by the weights alone
}

// fitLevels estimates the levels between cuts. The variance between runs is the same in all
// segments, and that of a run is the sum of both parts. The weights are their
// inverses. The variances of the levels are scaled by how much runs scatter around
// their level, if that is more than the weights say, and by how much their correlation
// inflates it.
//
// Sources: DerSimonian and Laird, Controlled Clinical Trials 7 (1986) 177 (the variance
// between runs); Knapp and Hartung, Statistics in Medicine 22 (2003) 2693 (the scale);
// Kalibera and Jones, ISMM 2013 (the run is the replicate).
func (s series) fitLevels(cuts []cut) levels {
	out := levels{scale: 1, df: len(s.xs) - len(cuts) - 1}
	out.between = s.between(cuts)
	variances := make([]float64, len(s.xs))
	for i, w := range s.within {
		variances[i] = w + out.between
		if !(variances[i] > 0) {
			variances[i] = math.SmallestNonzeroFloat32
		}
	}
	squares := 0.0
	var residuals []float64
	forEachSegment(len(s.xs), cuts, func(from, to int) {
		l := level{from: from, to: to, mean: weighted(s.xs[from:to], variances[from:to])}
		weights := 0.0
		for i := from; i < to; i++ {
			weights += 1 / variances[i]
			squares += (s.xs[i] - l.mean) * (s.xs[i] - l.mean) / variances[i]
			residuals = append(residuals, (s.xs[i]-l.mean)/math.Sqrt(variances[i]))
		}
		l.variance = 1 / weights
		out.segments = append(out.segments, l)
	})
	if out.df > 0 {
		out.scale = max(1, squares/float64(out.df)) * inflation(residuals)
	}
	return out
}

// between estimates the variance between runs, by moments.
func (s series) between(cuts []cut) float64 {
	q, c, df := 0.0, 0.0, 0
	known := true
	forEachSegment(len(s.xs), cuts, func(from, to int) {
		var weights, squares float64
		for i := from; i < to; i++ {
			known = known && s.within[i] > 0
		}
		if !known {
			return
		}
		mean := weighted(s.xs[from:to], s.within[from:to])
		for i := from; i < to; i++ {
			w := 1 / s.within[i]
			weights += w
			squares += w * w
			q += w * (s.xs[i] - mean) * (s.xs[i] - mean)
		}
		c += weights - squares/weights
		df += to - from - 1
	})
	switch {
	case !known: // without noise inside runs, all scatter is between them
		return s.scatter(cuts)
	case df == 0 || !(c > 0):
		return 0
	}
	return max(0, (q-float64(df))/c)
}

// scatter is the variance of runs around their levels.
func (s series) scatter(cuts []cut) float64 {
	squares, df := 0.0, 0
	forEachSegment(len(s.xs), cuts, func(from, to int) {
		mean := lists.Sum(s.xs[from:to], func(x float64) float64 { return x / float64(to-from) })
		for _, x := range s.xs[from:to] {
			squares += (x - mean) * (x - mean)
		}
		df += to - from - 1
	})
	if df == 0 {
		return 0
	}
	return squares / float64(df)
}

// forEachSegment calls f for each segment between cuts.
func forEachSegment(n int, cuts []cut, f func(from, to int)) {
	forEachPart(n, placesOf(cuts), f)
}

// interval returns half of the interval of an estimate with this variance; +Inf where
// the spread between runs is unknown.
func (l levels) interval(variance, level float64) float64 {
	if l.df < 1 {
		return math.Inf(1)
	}
	return stats.StudentQuantile(level, float64(l.df)) * math.Sqrt(l.scale*variance)
}
