package analysis

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/stats"
)

// Bounds of the gates order and change. A difference that fails them is not
// described by one number.
const (
	// steadyAlpha is the level of each of the two tests, shared by the
	// comparisons of a family.
	steadyAlpha = 0.02
	// permutations of the test of a change; its smallest p-value is
	// 1/(permutations+1).
	permutations = 9999
	// settling permutations are enough for most comparisons.
	settling = 199
	// fixedBlocks in one order are not chance: random orders do that once in
	// 128 runs.
	fixedBlocks = 8
	// stepOfLevel is the smallest change of both sides together that gets a
	// warning: other users of a machine cause smaller ones.
	stepOfLevel = 0.20
	// orderMoves is the largest effect that an order can plausibly have. A larger
	// difference gets a warning and keeps its verdict.
	orderMoves = 0.20
)

// The gates that check a comparison as a whole.
const (
	OrderGate  = "order"
	ChangeGate = "change"
)

// visit describes how the trials of one block depend on their order.
type visit struct {
	difference  float64 // of the sides' means
	first, last float64 // of the sides' first trials, and of their last ones
	warm        float64 // of first trials from last ones, both sides together
	level       float64 // the mean of all
}

// blockVisits reads the first n blocks, except those with a failure.
func (c *draft) blockVisits(n int) []visit {
	t := c.trials
	var out []visit
	for b := range c.blocks[:n] {
		from, to := t.Start[b], len(t.Value)
		if b+1 < len(t.Start) {
			to = t.Start[b+1]
		}
		if v, ok := readVisit(t.Value[from:to], t.Side[from:to]); ok {
			out = append(out, v)
		}
	}
	return out
}

// readVisit reads one block; false if one of its values is not finite.
func readVisit(values []float64, sides []int8) (visit, bool) {
	var v visit
	half := float64(len(values)) / 2
	var first, last [2]float64 // of the side in question and of the other
	var seen [2]bool
	for i, x := range values {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return v, false
		}
		v.difference += float64(sides[i]) * x / half
		v.level += x / (2 * half)
		k := (1 - int(sides[i])) / 2
		if !seen[k] {
			seen[k], first[k] = true, x
		}
		last[k] = x
	}
	v.first, v.last = first[0]-first[1], last[0]-last[1]
	v.warm = (first[0] + first[1] - last[0] - last[1]) / 2
	return v, true
}

// earlierSide tells whose trials ran earlier in a block: the side that is ahead in
// more of them, 0 where neither is.
func earlierSide(sides []int8) int8 {
	sum := 0
	for i, s := range sides {
		sum -= int(s) * i
	}
	return int8(cmp.Compare(sum, 0))
}

// unsteady returns the gates that the entered blocks fail together: that one
// number stands for differences that are several.
//
// Both tests are exact where nothing is unsteady: exchanging the sides of a
// block, whose order was drawn, changes the sign of what the order gate ranks;
// and differences of blocks are exchangeable. A test of chance alone would
// find what nobody minds, so the two parts must also call for two verdicts.
func (c *draft) unsteady() []Gate {
	if c.checked == c.Blocks {
		return c.moving
	}
	c.checked, c.moving = c.Blocks, nil
	add := func(name, reason string) {
		all := lists.Sum(c.blocks[:c.Blocks], func(b block) int { return 2 * b.failed.Of })
		if reason != "" {
			c.moving = append(c.moving, Gate{Name: name, Reason: reason, Trials: all, Of: all})
		}
	}
	vs := c.blockVisits(c.Blocks)
	add(ChangeGate, c.changed(vs))
	if reason := c.oneOrder(); reason != "" {
		add(OrderGate, reason)
	} else {
		add(OrderGate, c.byVisit(vs))
	}
	return c.moving
}

// oneOrder says that no order was drawn: one side's trials came first in every
// block of data whose orders nobody vouches for. Orders in which neither side
// is ahead (ABBA in every block) get a warning instead.
func (c *draft) oneOrder() string {
	if !c.elsewhere || c.Blocks < fixedBlocks || !(math.Abs(c.shown.Value) <= math.Log1p(orderMoves)) {
		return ""
	}
	ahead, behind, always := c.sideAhead(func(b block) int8 { return b.turn })
	if !always {
		return ""
	}
	return fmt.Sprintf("%s ran before %s in all %d blocks, so an effect of the order cannot be distinguished from a "+
		"difference: run each block in a random order", ahead, behind, c.Blocks)
}

// byVisit returns a reason if the first trials of a block give another difference
// than the last ones: one side was still warming up, or the effects of one side
// help or hinder the other.
func (c *draft) byVisit(vs []visit) string {
	first, last, gap := make([]float64, len(vs)), make([]float64, len(vs)), make([]float64, len(vs))
	for i, v := range vs {
		first[i], last[i], gap[i] = v.first, v.last, v.first-v.last
	}
	if !c.hasDrawnOrders() || len(vs) < 2 {
		return ""
	}
	a, b := stats.NewWalsh(first).Median(), stats.NewWalsh(last).Median()
	if !c.verdictsDiffer(a, b) || stats.SignedRankTest(gap).P > steadyAlpha/float64(c.family) {
		return ""
	}
	return fmt.Sprintf("the difference is %s between the first trials of a block and %s between the last trials",
		c.differenceText(a), c.differenceText(b))
}

// hasDrawnOrders reports that not all blocks have the same order.
func (c *draft) hasDrawnOrders() bool {
	return slices.ContainsFunc(c.blocks[:c.Blocks], func(b block) bool { return b.first != c.blocks[0].first })
}

// changed returns a reason if the difference changed from some block on.
func (c *draft) changed(vs []visit) string {
	d := make([]float64, len(vs))
	for i, v := range vs {
		d[i] = v.difference
	}
	at, before, after := c.levelStep(d, c.verdictsDiffer)
	if at == 0 {
		return ""
	}
	return fmt.Sprintf("the difference is %s before block %d of %d, and %s from that block on", c.differenceText(before),
		at+1,
		len(d), c.differenceText(after))
}

// levelStep returns the index at which the level of xs changed and the medians before
// and after it; 0 if it did not change or if matters returns false for them.
func (c *draft) levelStep(xs []float64, matters func(before, after float64) bool) (at int, before, after float64) {
	p := stats.ScanPoint(xs)
	if !matters(p.Before, p.After) {
		return 0, 0, 0
	}
	r := c.permutationSource(xs)
	// Skipping the first order keeps the results of earlier versions.
	rand.New(r).Shuffle(len(xs), func(int, int) {})
	if !stats.ScanWithin(xs, settling, r, 2*steadyAlpha) || !stats.ScanWithin(xs, permutations, c.permutationSource(xs),
		steadyAlpha/float64(c.family)) {
		return 0, 0, 0
	}
	return p.At, p.Before, p.After
}

// permutationSource returns the generator of the permutations, the same for the same comparison.
func (c *draft) permutationSource(xs []float64) *rand.PCG {
	return rand.NewPCG(c.seedOfNames(), uint64(len(xs)))
}

// seedOfNames is derived from the names of a comparison.
func (c *draft) seedOfNames() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q", c.Contender, c.Cell, c.metric.Name)
	return h.Sum64()
}

// verdictsDiffer reports that two differences would get different verdicts and are further
// apart than the margin.
func (c *draft) verdictsDiffer(a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) || math.Abs(a-b) <= float64(c.region) {
		return false
	}
	return c.region.Verdict(a, a, c.metric.Better) != c.region.Verdict(b, b, c.metric.Better)
}

// differenceText returns a difference as text.
func (c *draft) differenceText(d float64) string {
	if c.metric.Scale == sample.Difference {
		return unit.Signed(d, -1) + " " + c.metric.Unit
	}
	return unit.Signed(100*math.Expm1(d), 1) + " %"
}

// unrestWarnings returns warnings about changes that affect both sides equally. Comparisons
// are made within blocks and visits and remain valid, but the machine was not
// steady.
func (c *draft) unrestWarnings() []string {
	if c.Blocks == 0 || c.metric.Scale == sample.Difference {
		return nil
	}
	vs := c.blockVisits(c.Blocks)
	level, warm := make([]float64, len(vs)), make([]float64, len(vs))
	for i, v := range vs {
		level[i], warm[i] = v.level, v.warm
	}
	large := math.Log1p(stepOfLevel)
	var out []string
	if at, before, after := c.levelStep(level, func(a, b float64) bool { return math.Abs(a-b) >= large }); at > 0 {
		out = append(out, fmt.Sprintf("the values of both sides changed by %s from block %d on: the machine changed. "+
			"Comparisons within a block remain valid", c.differenceText(after-before), at+1))
	}
	if len(vs) < 2 || !c.hasDrawnOrders() {
		return out
	}
	if m := stats.NewWalsh(warm).Median(); math.Abs(m) >= large && stats.SignedRankTest(warm).P <= steadyAlpha {
		out = append(out, fmt.Sprintf("the first trials of a block gave %s of what the last ones gave, on both sides: they "+
			"were still warming up", c.differenceText(m)))
	}
	return out
}
