package profile

import (
	"cmp"
	"math"
	"slices"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/judge/stats"
)

// Level is the confidence of the interval of each difference. The intervals are not
// adjusted for their number: of a hundred differences of paths that are the same, five are
// expected to lie beside zero.
const Level = 0.95

// Order says how the boots of two sides were measured.
type Order string

// The orders.
const (
	// Paired boots took turns: boot i of both sides belongs to the same block.
	Paired Order = "paired"
	// Apart boots were measured in an order that is unknown. Whatever else changed
	// between the sides is part of the difference.
	Apart Order = "apart"
)

// Comparison is two sides of boots, path by path.
type Comparison struct {
	Tree  *Tree
	Order Order
	Boots [2]int
	// Deterministic: each side has several boots, which took exactly the same time in every
	// path. The differences then are exact.
	Deterministic bool
	// Interval is the part of the boots that is compared.
	Interval Interval
	// Length is that of the interval in the boots; Rows are the paths whose time in it differs,
	// the largest difference first.
	Length Change
	Rows   []Change
	Same   int // paths that took the same time in all boots
}

// Change is the self time of a path within the interval on both sides, in nanoseconds or ticks.
type Change struct {
	Node  int // of the tree; -1 for the whole
	A, B  float64
	Spans [2]float64 // median number of spans in a boot
	// Diff is B − A: the estimate of the difference, and Lo and Hi its interval. They
	// are infinite where there are too few boots for one, and where all differences are
	// equal although the boots are not deterministic.
	Diff, Lo, Hi float64
	Exact        bool // the difference is exact, and needs no interval
	// Agree: several boots of each side gave the same difference, which is not an interval: it
	// does not show how much further boots would vary.
	Agree bool
	// Only names the side whose boots alone have the path: 0 is A, 1 is B; -1 is both.
	Only int
}

// Clear reports whether the interval excludes zero.
func (r Change) Clear() bool { return r.Exact && r.Diff != 0 || r.Lo > 0 || r.Hi < 0 }

// Compare compares the boots b with the boots a. With Paired both have the same number. All
// must have clocks of known frequency, or none, and all or none count instructions: anything else is an error of kind
// fault.Invalid.
func Compare(a, b []bootmodel.Recording, order Order) (Comparison, error) {
	c := Comparison{Tree: NewTree(), Order: order, Boots: [2]int{len(a), len(b)}}
	if len(a) == 0 || len(b) == 0 {
		return c, fault.New(fault.Invalid, "one side of the comparison has no boots")
	}
	if order == Paired && len(a) != len(b) {
		return c, fault.New(fault.Invalid, "the two sides have different numbers of boots: %d and %d", len(a), len(b))
	}
	var costs [2][][]Cost
	var lengths [2][]float64
	known := inSeconds(a[0])
	c.Interval = commonInterval(slices.Concat(a, b))
	for side, boots := range [][]bootmodel.Recording{a, b} {
		for i := range boots {
			if inSeconds(boots[i]) != known || boots[i].CountsInstructions() != a[0].CountsInstructions() {
				return c, fault.New(fault.Invalid, "some boots have times in seconds, others in instructions or in "+
					"ticks of unknown frequency; compare boots of one clock")
			}
			from, to := c.Interval.boundsOf(boots[i])
			cost, _ := c.Tree.addWithin(&boots[i], from, to)
			costs[side] = append(costs[side], cost)
			lengths[side] = append(lengths[side], to-from)
		}
	}
	c.Length = estimateSides(lengths, order)
	c.Length.Node, c.Length.Only = -1, -1
	c.Deterministic = len(a) > 1 && len(b) > 1 && constant(lengths)
	for n := range c.Tree.Nodes {
		var self, spans [2][]float64
		for side := range costs {
			for _, cost := range costs[side] {
				var x Cost
				if n < len(cost) {
					x = cost[n]
				}
				self[side], spans[side] = append(self[side], x.Within+x.WaitWithin), append(spans[side], float64(x.Count))
			}
		}
		c.Deterministic = c.Deterministic && constant(self)
		if sameConstant(self) && sameConstant(spans) {
			c.Same++
			continue
		}
		r := estimateSides(self, order)
		r.Node, r.Only = n, onlySide(spans)
		r.Spans = [2]float64{stats.Median(spans[0]), stats.Median(spans[1])}
		c.Rows = append(c.Rows, r)
	}
	for i := range c.Rows {
		c.Rows[i] = c.Rows[i].exactly(c.Deterministic)
	}
	c.Length = c.Length.exactly(c.Deterministic)
	slices.SortStableFunc(c.Rows, func(x, y Change) int { return cmp.Compare(math.Abs(y.Diff), math.Abs(x.Diff)) })
	return c, nil
}

// inSeconds reports whether the times of a boot are known in seconds.
func inSeconds(r bootmodel.Recording) bool { return len(r.Clocks) > 0 && r.Clocks[0].Known() }

// estimateSides estimates the difference of two sides.
func estimateSides(v [2][]float64, order Order) Change {
	r := Change{A: stats.Median(v[0]), B: stats.Median(v[1]), Lo: math.Inf(-1), Hi: math.Inf(1)}
	r.Diff = r.B - r.A
	if order == Paired {
		diffs := make([]float64, len(v[0]))
		for i := range diffs {
			diffs[i] = v[1][i] - v[0][i]
		}
		e := stats.HodgesLehmann(diffs, Level)
		if r.Diff = e.Value; e.Lo < e.Hi {
			r.Lo, r.Hi = e.Lo, e.Hi
		}
		r.Agree = len(diffs) > 1 && slices.Min(diffs) == slices.Max(diffs)
		return r
	}
	if len(v[0]) > 1 && len(v[1]) > 1 {
		r.Diff, r.Lo, r.Hi = welchInterval(v[0], v[1])
		r.Agree = constant(v)
	}
	return r
}

// welchInterval is the difference of two means with its interval.
//
// Source: B. L. Welch, Biometrika 34 (1947), with the degrees of freedom of Satterthwaite.
func welchInterval(a, b []float64) (diff, lo, hi float64) {
	ma, va := moments(a)
	mb, vb := moments(b)
	diff = mb - ma
	sa, sb := va/float64(len(a)), vb/float64(len(b))
	if sa+sb == 0 { // see Change.Agree
		return diff, math.Inf(-1), math.Inf(1)
	}
	df := (sa + sb) * (sa + sb) / (sa*sa/float64(len(a)-1) + sb*sb/float64(len(b)-1))
	half := stats.StudentQuantile(Level, df) * math.Sqrt(sa+sb)
	return diff, diff - half, diff + half
}

// moments are the mean and the variance.
func moments(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		variance += (x - mean) * (x - mean) / float64(len(xs)-1)
	}
	return mean, variance
}

// exactly replaces the interval of a difference between sides that do not vary.
func (r Change) exactly(deterministic bool) Change {
	if deterministic {
		r.Diff, r.Exact, r.Agree = r.B-r.A, true, false
		r.Lo, r.Hi = r.Diff, r.Diff
	}
	return r
}

// constant reports whether each side has one value.
func constant(v [2][]float64) bool {
	return slices.Min(v[0]) == slices.Max(v[0]) && slices.Min(v[1]) == slices.Max(v[1])
}

// sameConstant reports whether both sides have the same one value.
func sameConstant(v [2][]float64) bool { return constant(v) && v[0][0] == v[1][0] }

// onlySide is the side whose boots alone have spans of a path.
func onlySide(spans [2][]float64) int {
	switch {
	case slices.Max(spans[0]) == 0:
		return 1
	case slices.Max(spans[1]) == 0:
		return 0
	}
	return -1
}
