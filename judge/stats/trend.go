package stats

import (
	"math"
	"slices"
)

// Trend is the result of a test for a monotonic trend.
type Trend struct {
	N int
	// S is the number of rising pairs less that of falling ones.
	S int
	// P is two-sided.
	P float64
	// Slope is the median of all pairwise slopes, in the unit of the values a
	// step; NaN where there are fewer than two.
	Slope    float64
	Exact    bool
	Warnings []string
}

// maxTrend bounds the number of values whose pairwise slopes are listed.
const maxTrend = 2000

// TrendTest tests whether xs, in the order in which they came, rise or fall
// (Mann and Kendall), and estimates the slope (Theil and Sen).
//
// xs are at equal steps, finite or ±Inf, and not modified. Without ties the
// distribution is exact up to 60 values; otherwise it is normal with the
// variance for ties and a continuity correction. Above 2,000 values the slope
// is that of evenly spaced ones.
//
// Assumption: without a trend the values are exchangeable. Autocorrelated
// values seem to have trends; see Autocorrelation.
//
// Sources: Mann, Econometrica 13 (1945) 245; Kendall, Rank Correlation
// Methods, 5; Sen, JASA 63 (1968) 1379.
func TrendTest(xs []float64) Trend {
	n := len(xs)
	r := Trend{N: n, P: 1, Slope: math.NaN()}
	if hasNaN(xs) || n < 2 {
		r.Warnings = append(r.Warnings, "fewer than two values, or one is not a number: nothing was tested")
		return r
	}
	ties := tieSizes(xs)
	r.Exact = n <= ExactSignedRank && len(ties) == 0
	r.S = 2*rising(xs) - n*(n-1)/2 + tiedPairs(ties)
	if r.Exact {
		r.P = kendallP(n, r.S)
	} else {
		f := float64(n)
		v := f * (f - 1) * (2*f + 5)
		for _, t := range ties {
			v -= float64(t) * float64(t-1) * float64(2*t+5)
		}
		if v > 0 {
			z := max(0, math.Abs(float64(r.S))-1) / math.Sqrt(v/18)
			r.P = min(1, 2*normalCDF(-z))
		}
	}
	r.Slope = theilSen(xs)
	return r
}

// tieSizes returns how many values share each value that is there more than
// once.
func tieSizes(xs []float64) []int {
	s := slices.Clone(xs)
	slices.Sort(s)
	var out []int
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		if j-i > 1 {
			out = append(out, j-i)
		}
		i = j
	}
	return out
}

func tiedPairs(ties []int) int {
	n := 0
	for _, t := range ties {
		n += t * (t - 1) / 2
	}
	return n
}

// rising counts the pairs in which the later value is larger, by merging.
func rising(xs []float64) int {
	a, b := slices.Clone(xs), make([]float64, len(xs))
	count := 0
	for width := 1; width < len(a); width *= 2 {
		for lo := 0; lo < len(a); lo += 2 * width {
			mid, hi := min(lo+width, len(a)), min(lo+2*width, len(a))
			i, j := lo, mid
			for k := lo; k < hi; k++ {
				if j >= hi || i < mid && a[i] < a[j] {
					count += hi - j // every later value that is left is larger
					b[k] = a[i]
					i++
				} else {
					b[k] = a[j]
					j++
				}
			}
		}
		a, b = b, a
	}
	return count
}

// kendallP is P(|S| ≥ |s|) for n untied values: S counts inversions, whose
// numbers are those of a product of 1 + x + … + xᵏ.
func kendallP(n, s int) float64 {
	m := n * (n - 1) / 2
	p := make([]float64, m+1)
	p[0] = 1
	for k, reach := 1, 0; k < n; k++ {
		reach += k
		next := make([]float64, m+1)
		sum := 0.0
		for i := 0; i <= reach; i++ {
			sum += p[i]
			if i > k {
				sum -= p[i-k-1]
			}
			next[i] = sum / float64(k+1)
		}
		p = next
	}
	if s < 0 {
		s = -s
	}
	inversions := (m - s) / 2
	var tail float64
	for _, v := range p[:inversions+1] {
		tail += v
	}
	return min(1, 2*tail)
}

func theilSen(xs []float64) float64 {
	step := (len(xs)-1)/maxTrend + 1
	var slopes []float64
	for i := 0; i < len(xs); i += step {
		for j := i + step; j < len(xs); j += step {
			if s := (xs[j] - xs[i]) / float64(j-i); s == s {
				slopes = append(slopes, s)
			}
		}
	}
	if len(slopes) == 0 {
		return math.NaN()
	}
	slices.Sort(slopes)
	return sortedMedian(slopes)
}
