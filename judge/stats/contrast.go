package stats

import (
	"cmp"
	"math"
	"slices"
)

// Trials are the trials of two sides in the order in which they ran.
type Trials struct {
	// Value is what each trial gave, on a scale on which differences are
	// compared (logarithms for ratios). ±Inf is a failure: the worst value.
	Value []float64
	// Side is +1 for the tested side and −1 for the side it is compared with.
	// Every block has equally many of both.
	Side []int8
	// Start is where each block begins, ascending from 0.
	Start []int
}

// The smoother's and the weights' constants were chosen on simulated noise
// (docs/method/statistics.md). They affect only the power: the test is exact for any
// values.
const (
	stiffInside  = 5.0  // penalty on steps of the level inside a block, in variances of a trial
	stiffBetween = 1.25 // and from block to block
	biweight     = 5.0  // residuals beyond this many standard deviations have no weight
	reweightings = 3
	rescalings   = 2 // the first of them computes the scale again
)

// Contrast compares two sides block by block. Single disturbed trials have
// little influence on it.
//
// A smoother that ignores the sides follows the level of the machine through
// all trials. Trials far from that level lose weight (Tukey's biweight; the
// scale is the median absolute residual). A block's score is the weighted sum
// of the residuals of one side minus that of the other. Level and weights do
// not depend on the sides, so exchanging the sides of a block changes only the
// sign of its score. With orders drawn at random, the signed-rank test of the
// scores is therefore exact for identical sides, for any noise, drift or effect
// of a position. To test a shift, Contrast subtracts it first.
//
// Sources: randomization tests: Fisher 1935; Edgington and Onghena,
// Randomization Tests. Biweight: Mosteller and Tukey 1977. Local level as
// penalized least squares: Whittaker 1923.
type Contrast struct {
	t      Trials
	failed []float64 // of blocks with a failure: their score, ±Inf, or NaN for a tie
	broken []bool    // blocks with a failure
	absent []bool    // trials of such blocks: without the other side they are misleading
	level, residual, weight,
	size, up, rhs, shifted []float64
}

// NewContrast returns the contrast of t. It keeps t, which the caller must not
// modify afterwards.
func NewContrast(t Trials) *Contrast {
	n := len(t.Value)
	buf := make([]float64, 7*n)
	c := &Contrast{t: t, failed: make([]float64, len(t.Start)), broken: make([]bool, len(t.Start)),
		absent: make([]bool, n)}
	for i, p := range []*[]float64{&c.level, &c.residual, &c.weight, &c.size, &c.up, &c.rhs, &c.shifted} {
		*p = buf[i*n : (i+1)*n : (i+1)*n]
	}
	for b := range t.Start {
		from, to := c.blockBounds(b)
		var sum float64
		for i := from; i < to; i++ {
			if math.IsInf(t.Value[i], 0) {
				c.broken[b] = true
				sum += float64(t.Side[i]) * t.Value[i]
			}
		}
		c.failed[b] = sum
		for i := from; i < to; i++ {
			c.absent[i] = c.broken[b]
		}
	}
	return c
}

// blockBounds returns where block b begins and ends.
func (c *Contrast) blockBounds(b int) (from, to int) {
	if b+1 < len(c.t.Start) {
		return c.t.Start[b], c.t.Start[b+1]
	}
	return c.t.Start[b], len(c.t.Value)
}

// Scores returns the scores of the first n blocks, in block order and in the
// unit of the values, after subtracting shift from the difference of the sides.
// Blocks in which both sides failed are ties.
func (c *Contrast) Scores(n int, shift float64) []float64 {
	if n == 0 {
		return nil
	}
	_, end := c.blockBounds(n - 1)
	c.cleanResiduals(n, end, shift)
	out := make([]float64, n)
	for b := range out {
		from, to := c.blockBounds(b)
		if c.broken[b] {
			if out[b] = c.failed[b]; out[b] != out[b] {
				out[b] = -shift
			}
			continue
		}
		var sum float64
		for i := from; i < to; i++ {
			sum += float64(c.t.Side[i]) * c.weight[i] * c.residual[i]
		}
		if out[b] = 2 * sum / float64(to-from); out[b] != out[b] {
			out[b] = 0 // beyond the range of floats nothing is known
		}
	}
	return out
}

// Weights returns the weights in [0, 1] of the trials of the first n blocks
// at a shift; NaN in blocks with a failure, whose scores use none.
func (c *Contrast) Weights(n int, shift float64) []float64 {
	if n == 0 {
		return nil
	}
	_, end := c.blockBounds(n - 1)
	c.cleanResiduals(n, end, shift)
	out := slices.Clone(c.weight[:end])
	for i := range out {
		if c.absent[i] {
			out[i] = math.NaN()
		}
	}
	return out
}

// cleanResiduals fills level, residual and weight for the first n blocks, of which
// the last ends before end.
func (c *Contrast) cleanResiduals(n, end int, shift float64) {
	y := c.shifted[:end]
	for i, v := range c.t.Value[:end] {
		y[i] = v - float64(c.t.Side[i])*shift/2
	}
	c.beginLevels(n, y)
	var scale float64
	for i := range reweightings {
		if i < rescalings {
			scale = c.residualScale(y)
		}
		if scale == 0 {
			break
		}
		c.reweigh(y, scale)
		c.smoothLevels(n, y)
	}
	for i, v := range y {
		c.residual[i] = v - c.level[i]
	}
}

// beginLevels sets the level of each block to its median, or to the level of the
// preceding block if it has no values.
func (c *Contrast) beginLevels(n int, y []float64) {
	for i := range y {
		c.weight[i] = 1
		if c.absent[i] {
			c.weight[i] = 0
		}
	}
	before := math.NaN()
	for b := range n {
		from, to := c.blockBounds(b)
		to = min(to, len(y))
		part := c.size[:0]
		if !c.broken[b] {
			part = append(part, y[from:to]...)
		}
		if len(part) > 0 {
			slices.Sort(part)
			before = sortedMedian(part)
		}
		for i := from; i < to; i++ {
			c.level[i] = before
		}
	}
	for i := len(y) - 2; i >= 0; i-- { // blocks before the first that has something
		if c.level[i] != c.level[i] {
			c.level[i] = c.level[i+1]
		}
	}
}

// residualScale is the standard deviation of the undisturbed residuals: their median
// size, made consistent for the normal distribution. It is 0 when most
// residuals are the same and there is nothing to judge by.
func (c *Contrast) residualScale(y []float64) float64 {
	sizes := c.size[:0]
	for i, v := range y {
		if !c.absent[i] {
			sizes = append(sizes, math.Abs(v-c.level[i]))
		}
	}
	if len(sizes) == 0 {
		return 0
	}
	s := 1.4826 * selectKth(sizes, len(sizes)/2)
	if !(s > 0) || math.IsInf(s, 0) {
		return 0
	}
	return s
}

// reweigh sets the weights from the residuals.
func (c *Contrast) reweigh(y []float64, scale float64) {
	inverse := 1 / (biweight * scale)
	for i, v := range y {
		c.weight[i] = 0
		if c.absent[i] {
			continue
		}
		if x := (v - c.level[i]) * inverse; math.Abs(x) < 1 {
			c.weight[i] = (1 - x*x) * (1 - x*x)
		}
	}
}

// smoothLevels finds the levels m that minimize Σ w(y−m)² + Σ stiff·(step of m)²:
// a tridiagonal system, solved forwards and backwards.
func (c *Contrast) smoothLevels(n int, y []float64) {
	stiff, last := 0.0, len(y)-1
	b := 1
	for i, v := range y {
		next := stiffInside
		switch {
		case i == last:
			next = 0
		case b < n && i+1 == c.t.Start[b]:
			next = stiffBetween
			b++
		}
		w := c.weight[i] + 1e-9 // keeps the system regular where nothing has weight
		if c.absent[i] {
			v = 0
			w = 1e-9
		}
		den, rhs := w+stiff+next, w*v
		if i > 0 {
			den -= stiff * c.up[i-1]
			rhs += stiff * c.rhs[i-1]
		}
		den = 1 / den
		c.up[i], c.rhs[i] = next*den, rhs*den
		stiff = next
	}
	c.level[last] = c.rhs[last]
	for i := last - 1; i >= 0; i-- {
		c.level[i] = c.rhs[i] + c.up[i]*c.level[i+1]
	}
}

// aboveBelow counts the pairwise averages of scores above and below zero: the
// signed-rank statistics with ties counted against both. It sorts scores.
func aboveBelow(scores []float64) (above, below int) {
	slices.SortFunc(scores, func(a, b float64) int {
		return cmp.Compare(math.Abs(a), math.Abs(b))
	})
	for i := 0; i < len(scores); {
		j, plus, minus := i, 0, 0
		for ; j < len(scores) && math.Abs(scores[j]) == math.Abs(scores[i]); j++ {
			if scores[j] > 0 {
				plus++
			} else if scores[j] < 0 {
				minus++
			}
		}
		above += plus*i + plus*(plus+1)/2
		below += minus*i + minus*(minus+1)/2
		i = j
	}
	return above, below
}

// Standing is the test of a difference against the scores of some blocks. It
// tells for every level on which side of the interval the difference lies.
type Standing struct{ n, above, below int }

// Stand tests the difference shift over the first n blocks.
func (c *Contrast) Stand(n int, shift float64) Standing {
	above, below := aboveBelow(c.Scores(n, shift))
	return Standing{n, above, below}
}

// rounding is the share of a value that is taken for a rounding error.
const rounding = 1e-9

// Beyond returns the first difference on a side of shift, −1 for below and 1 for above, that differs from it by more
// than the rounding of the values of the first n blocks.
func (c *Contrast) Beyond(n int, shift float64, side int) float64 {
	if n == 0 {
		return shift
	}
	_, end := c.blockBounds(n - 1)
	var largest float64
	for _, v := range c.t.Value[:end] {
		if !math.IsInf(v, 0) {
			largest = max(largest, math.Abs(v))
		}
	}
	if largest == 0 {
		largest = 1
	}
	return shift + float64(side)*rounding*largest
}

// At returns where the difference lies relative to the interval of a level in
// (0, 1): −1 below it, 0 within, +1 above.
func (s Standing) At(level float64) int {
	k, _, _ := walshRank(s.n, (1-level)/2)
	return s.rankAt(k)
}

// rankAt is At for the interval between the kth pairwise averages.
func (s Standing) rankAt(k int) int {
	edge := s.n*(s.n+1)/2 - k + 1
	switch {
	case k == 0:
		return 0
	case s.above >= edge:
		return -1
	case s.below >= edge:
		return 1
	}
	return 0
}

// Test tests whether the difference of the sides over the first n blocks is
// shift: the signed-rank test of their scores.
func (c *Contrast) Test(n int, shift float64) SignedRank {
	return SignedRankTest(c.Scores(n, shift))
}

// Estimate returns the estimated difference of the sides over the first n
// blocks with the interval of at least the given level: all differences that
// the two-sided signed-rank test of the scores does not reject.
//
// The bounds are found to a hundredth of the width. For the differences in
// marks, the side of each bound on which they lie is exact. Up to
// ExactSignedRank blocks each difference is tested separately, with its own
// level and weights; above, the scores at the estimate are shifted as a whole,
// which is an approximation.
//
// Assumption: orders of blocks were drawn at random, and the sides differ by
// a constant. When n is too small, the interval is ±Inf and a warning says
// how many blocks are needed.
func (c *Contrast) Estimate(n int, level float64, marks ...float64) Estimate {
	quick := c.Quick(n, level)
	if quick.Value != quick.Value || quick.Actual == 1 || n > ExactSignedRank || quick.Lo == quick.Hi {
		return quick
	}
	k, p, _ := walshRank(n, (1-level)/2)
	e := quick
	e.Actual, e.Exact = 1-2*p, true
	e.Lo = c.findBound(n, k, -1, quick.Value, quick.Lo, marks)
	e.Hi = c.findBound(n, k, 1, quick.Value, quick.Hi, marks)
	e.Value = min(max(e.Value, e.Lo), e.Hi)
	return e
}

// findBound finds where shifts begin to be rejected on one side of the middle,
// starting from a guess.
func (c *Contrast) findBound(n, k, side int, middle, guess float64, marks []float64) float64 {
	out := func(shift float64) bool { return c.Stand(n, shift).rankAt(k) == side }
	far := math.Inf(side)
	in, rejected := middle, far
	if math.IsInf(middle, 0) {
		in = -far
	}
	note := func(shift float64) {
		if (shift-in)*float64(side) <= 0 || (shift-rejected)*float64(side) >= 0 || math.IsInf(shift, 0) {
			return // already known
		}
		if out(shift) {
			rejected = shift
		} else {
			in = shift
		}
	}
	for _, m := range marks {
		note(m)
	}
	note(guess)
	step := math.Abs(guess - middle)
	if !(step > 0) || math.IsInf(step, 0) {
		step = math.Max(math.Abs(middle), 1e-3)
		if math.IsInf(step, 0) {
			step = 1
		}
	}
	precision := step / 40
	for reach := step / 20; math.IsInf(rejected, 0) || math.IsInf(in, 0); reach *= 2 {
		if reach > 1e6*step {
			break // nothing is rejected on this side, or everything is
		}
		if math.IsInf(rejected, 0) {
			from := in
			if math.IsInf(from, 0) {
				from = 0
			}
			note(from + float64(side)*reach)
		} else {
			note(rejected - float64(side)*reach)
		}
	}
	switch {
	case math.IsInf(rejected, 0):
		return far
	case math.IsInf(in, 0):
		return rejected
	}
	for math.Abs(rejected-in) > precision {
		mid := in + (rejected-in)/2
		if mid == in || mid == rejected {
			break
		}
		note(mid)
	}
	return in + (rejected-in)/2
}

// Quick is Estimate from the scores at the estimate alone.
func (c *Contrast) Quick(n int, level float64) Estimate {
	d := c.blockDifferences(n)
	rounds := 2
	if n > ExactSignedRank {
		rounds = 1
	}
	for range rounds {
		m := NewWalsh(d).Median()
		if math.IsInf(m, 0) || m != m {
			return NewWalsh(d).Interval(level)
		}
		d = c.Scores(n, m)
		slope := c.scoreSlope(n)
		for i := range d {
			d[i] = m + d[i]/slope
		}
	}
	return NewWalsh(d).Interval(level)
}

// blockDifferences are the differences of the sides' means in each block.
func (c *Contrast) blockDifferences(n int) []float64 {
	out := make([]float64, n)
	for b := range out {
		from, to := c.blockBounds(b)
		if c.broken[b] {
			if out[b] = c.failed[b]; out[b] != out[b] {
				out[b] = 0
			}
			continue
		}
		for i := from; i < to; i++ {
			out[b] += 2 * float64(c.t.Side[i]) * c.t.Value[i] / float64(to-from)
		}
	}
	return out
}

// scoreSlope is how much of a small shift arrives in a score, on average over the
// blocks that were cleaned last.
func (c *Contrast) scoreSlope(n int) float64 {
	_, end := c.blockBounds(n - 1)
	// The smoother follows a part of the pattern of the sides.
	y := c.shifted[:end]
	kept := slices.Clone(c.level[:end])
	for i := range y {
		y[i] = float64(c.t.Side[i]) / 2
	}
	c.smoothLevels(n, y)
	var sum, count float64
	for i := range y {
		if !c.absent[i] {
			// Moving a residual r moves w(r)·r by its derivative, which in terms
			// of the biweight's w is √w(5√w − 4).
			root := math.Sqrt(c.weight[i])
			sum += 2 * float64(c.t.Side[i]) * root * (5*root - 4) * (y[i] - c.level[i])
			count++
		}
	}
	copy(c.level, kept)
	if count == 0 || !(sum > 0) {
		return 1
	}
	return sum / count
}

// Side is the side of a trial, +1 or −1.
func (c *Contrast) Side(i int) int { return int(c.t.Side[i]) }
