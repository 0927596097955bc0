package format

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/safetext"
	"bakeoff/judge/stats"
)

// maxRounding is how far a statistic may lie from that of the values, as a share of the
// largest of them: programs round what they write.
const maxRounding = 0.001

// CompareStats warns if statistics of a file contradict the values beside them. what
// names the record. Only mean, median, min and max are compared.
func (p *Problems) CompareStats(f *File, line int, what string, s Stats, values []float64) {
	if len(values) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, v := range sorted {
		sum += v / float64(len(sorted))
	}
	tolerance := maxRounding * max(math.Abs(sorted[0]), math.Abs(sorted[len(sorted)-1]))
	var wrong []string
	for _, x := range []struct {
		name     string
		file     *float64
		computed float64
	}{
		{"mean", s.Mean, sum},
		{"median", s.Median, stats.Median(sorted)},
		{"min", s.Min, sorted[0]},
		{"max", s.Max, sorted[len(sorted)-1]},
	} {
		if x.file != nil && math.Abs(*x.file-x.computed) > tolerance {
			wrong = append(wrong, fmt.Sprintf("%s is %.6g in the file, but its values give "+
				"%.6g", x.name, *x.file, x.computed))
		}
	}
	if len(wrong) > 0 {
		f.Warnings = append(f.Warnings, safetext.Line(fmt.Sprintf("%s:%d: %s: the %s. The file was changed, or the "+
			"program that wrote it has an error; bakeoff uses the values.", p.name, line, what, strings.Join(wrong, ", "+
			"the "))))
	}
}

// Compare warns if a number of a file lies further from what other numbers of the file give than slack, in its
// unit. from names these numbers, and uses what bakeoff uses: "" is these numbers.
func (p *Problems) Compare(line int, what string, stated, computed, slack float64, from, uses string) {
	if math.Abs(stated-computed) > slack {
		p.Warn(line, "%s is %.6g in the file, which contradicts %s: %.6g. The file was changed, or the program that wrote "+
			"it has an error; bakeoff uses %s.", what, stated, from, computed, cmp.Or(uses, from))
	}
}

// LessRounded returns the less rounded one of two numbers: of the one that a file has as word, with one of units, and
// of computed, which numbers that from names give. It warns if they lie further apart than a share. rounding is the
// share by which the rounding of those numbers can have changed computed.
func (p *Problems) LessRounded(line int, what, word string, units map[string]float64, computed, rounding, share float64,
	from string) float64 {
	stated, err := labeled.Quantity(word, units)
	if err != nil {
		return computed
	}
	used, uses := computed, ""
	if labeled.Rounding(word) < rounding {
		used, uses = stated, what
	}
	const least = 0.01 // as rates have two decimals
	p.Compare(line, what, stated, computed, least+share*computed, from, uses)
	return used
}

// CompareOrder warns if a metric of a record is larger than a later one of names, such as a percentile larger than
// the maximum: by more than a share, and more than a resolution in the unit of the metrics.
func (p *Problems) CompareOrder(r *Record, share, resolution float64, names ...string) {
	before, least := "", 0.0
	for _, name := range names {
		i := slices.IndexFunc(r.Series, func(s Series) bool { return s.Metric.Name == name && len(s.Values) == 1 })
		if i < 0 {
			continue
		}
		v := r.Series[i].Values[0]
		if v*(1+share)+resolution < least {
			p.Warn(r.Line, "%s is %.6g, which is less than %s, which is %.6g. The file was changed, or the program that wrote "+
				"it has an error.", name, v, before, least)
			return
		}
		if v > least {
			before, least = name, v
		}
	}
}

// maxText is how far a statistic may lie outside the range of others, as a share: texts have three digits.
const maxText = 0.02

// compareOwn warns if statistics without values contradict each other: a mean or median outside the range, or a mean
// and a median that lie further apart than the standard deviation, which no values do (Hotelling and Solomons, The
// limits of a measure of skewness, 1932).
func (p *Problems) compareOwn(r Record) {
	for _, s := range r.Series {
		if s.Stats == nil || len(s.Values) > 0 {
			continue
		}
		warn := func(text string, values ...any) {
			p.Warn(r.Line, s.Metric.Name+": "+text+". The file was changed, or the program that wrote it has an error.",
				values...)
		}
		for _, x := range []struct {
			name  string
			value *float64
		}{{"mean", s.Stats.Mean}, {"median", s.Stats.Median}} {
			if x.value == nil {
				continue
			}
			v, slack := *x.value, maxText*math.Abs(*x.value)
			if s.Stats.Min != nil && v+slack < *s.Stats.Min {
				warn("the %s is %.6g, and the minimum is %.6g", x.name, v, *s.Stats.Min)
			}
			if s.Stats.Max != nil && v-slack > *s.Stats.Max {
				warn("the %s is %.6g, and the maximum is %.6g", x.name, v, *s.Stats.Max)
			}
		}
		if mean, median, d := s.Stats.Mean, s.Stats.Median, s.Stats.Stddev; mean != nil && median != nil && d != nil &&
			math.Abs(*mean-*median) > *d*(1+maxText)+maxText*max(math.Abs(*mean), math.Abs(*median)) {
			warn("the mean is %.6g and the median %.6g, which lie further apart than the standard deviation %.6g", *mean,
				*median, *d)
		}
	}
}
