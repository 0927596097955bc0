package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/stats"
)

// draft is a comparison in progress.
type draft struct {
	Comparison
	metric   sample.Metric
	blocks   []block
	trials   stats.Trials
	contrast *stats.Contrast
	margin   float64
	region   Region
	us, them series // trials of contender and baseline
	gates    bool   // whether any trial of the run failed a gate
	family   int    // comparisons that share the level of the tests of steadiness
	left     int    // blocks until the last look; −1 if nobody knows how many will come
	// elsewhere: nobody knows whether orders were random.
	elsewhere bool
	repeats   int // trials of a side that must agree, for an exact metric

	look    int                // index of the last look reached, −1 before the first
	marks   [3]*stats.Standing // of −region, 0 and region at this look, once asked for
	level   float64            // error level of the interval that is shown
	shown   stats.Estimate
	closed  bool // it has a verdict and is frozen
	differs bool // the interval at the level of differences excludes no difference
	held    []Gate
	checked int    // number of blocks that moving is of; 0: none
	moving  []Gate // see unsteady
}

func (d *Data) newDraft(t *table, contender, baseline, cell int, m sample.Metric) *draft {
	c := &draft{metric: m, us: t.series[contender][cell], them: t.series[baseline][cell], gates: t.gates, look: -1,
		family: 1, elsewhere: d.Elsewhere, repeats: d.repeats()}
	c.left = -1
	if l := d.spendingLooks(); len(l) > 0 && !d.Elsewhere {
		c.left = max(0, l[len(l)-1]-len(t.blocks))
	}
	k := d.Cells[cell]
	c.Comparison = Comparison{
		Contender: d.Contenders[contender].Name, Baseline: d.Contenders[baseline].Name,
		Cell: k.Name, Workload: k.Workload, Metric: m.Name, Unit: m.Unit, Better: m.Better,
		Scale: m.Scale, Primary: m.Primary, Scope: d.scopeOf(k), Gates: []Gate{},
		Factors:     d.Factors[d.Contenders[contender].Name][k.Name],
		Confounders: d.confounders(d.Contenders[contender].Name, d.Contenders[baseline].Name, m),
	}
	c.blocks, c.trials = pairBlocks(c.us, c.them, m, d.Trials)
	if d.Elsewhere { // bakeoff itself counts only complete blocks, and knows what failed
		c.noteIncomplete()
	}
	c.contrast = stats.NewContrast(c.trials)
	c.margin, c.region = d.Margin, RatioRegion(d.Margin)
	return c
}

// noteIncomplete counts the blocks in which a side lacks trials. They do not count, so the
// others may be a selection.
func (c *draft) noteIncomplete() {
	in := [2]map[int]bool{{}, {}}
	all := map[int]bool{}
	for i, s := range [2]series{c.us, c.them} {
		for _, o := range s {
			if !readMetric(o, c.metric).lacks {
				in[i][o.Block], all[o.Block] = true, true
			}
		}
	}
	if c.Incomplete = len(all) - len(c.blocks); c.Incomplete == 0 {
		return
	}
	what := "trials of a side"
	switch {
	case len(in[0]) == len(c.blocks) && len(in[1]) == len(all):
		what = c.Contender
	case len(in[1]) == len(c.blocks) && len(in[0]) == len(all):
		what = c.Baseline
	}
	rest := "the other blocks may be a biased selection"
	if len(c.blocks) == 0 {
		rest = "no block is left"
	}
	c.Warnings = append(c.Warnings, fmt.Sprintf("%d of %d blocks lack %s and do not count; %s. Write a failed trial as "+
		"\"failed\".", c.Incomplete, len(all), what, rest))
}

// performLook performs the look at n blocks.
func (c *draft) performLook(look, n int) {
	c.look, c.Look, c.Blocks = look, n, n
	c.marks = [3]*stats.Standing{}
	if c.metric.Scale == sample.Difference {
		// Without a ratio, the margin is a share of the baseline's size so far.
		size := c.them.through(c.blocks[n-1].index).medianSize(c.metric)
		c.region = NewRegion(c.margin, sample.Difference, size)
	}
	c.noteFailedGates(n)
}

// noteFailedGates notes which gates the trials of the first n blocks failed.
func (c *draft) noteFailedGates(n int) {
	if c.gates && n > 0 {
		last := c.blocks[n-1].index
		us, them := c.us.through(last), c.them.through(last)
		c.held = failedGates(us, them, c.metric)
		if !c.metric.Exact {
			c.held = append(c.held, driftGates(us, them, c.metric)...)
		}
		slices.SortFunc(c.held, func(a, b Gate) int { return strings.Compare(a.Name, b.Name) })
	}
}

// estimate returns the interval at a level of error at the look.
func (c *draft) estimate(alpha float64) stats.Estimate {
	return c.contrast.Estimate(c.Blocks, 1-alpha, -float64(c.region), 0, float64(c.region))
}

// decidesNothing reports, without computing the interval, that it decides nothing.
func (c *draft) decidesNothing(alpha float64) bool {
	at := func(i int) int {
		if c.marks[i] == nil {
			c.marks[i] = new(c.contrast.Stand(c.Blocks, float64(i-1)*float64(c.region)))
		}
		return c.marks[i].At(1 - alpha)
	}
	return c.region > 0 && at(1) == 0 && (at(0) == 0 || at(2) == 0)
}

// judgeEstimate reads a verdict from an interval alone.
func (c *draft) judgeEstimate(e stats.Estimate) Verdict {
	return c.region.Verdict(e.Lo, e.Hi, c.metric.Better)
}

// verdictAtLevels returns the verdict at the two levels of the family at this look: that of
// differences and that of equivalences (see the package comment).
func (c *draft) verdictAtLevels(differ, equal float64) Verdict {
	c.level = differ
	if c.decidesNothing(max(differ, equal)) {
		return Inconclusive
	}
	d := c.estimate(differ)
	e := d
	if differ != equal {
		e = c.estimate(equal)
	}
	v, ve := c.judgeEstimate(d), c.judgeEstimate(e)
	c.differs = d.Lo > 0 || d.Hi < 0
	c.shown = d
	// An equivalence needs its own level. A difference inside the margin is
	// decided at the level at which its interval still lies inside.
	if ve == Equivalent || v == Equivalent {
		c.shown, c.level, v = e, equal, ve
	}
	if v != Inconclusive || c.differs {
		if len(c.held) > 0 || len(c.unsteady()) > 0 {
			c.differs = false
			return Inconclusive
		}
	}
	return v
}

// fillComparison fills in the fields of the Comparison.
func (c *draft) fillComparison(d *Data) {
	if c.Exact != nil {
		c.finishExactly()
		return
	}
	n := len(c.blocks)
	switch {
	case c.look < 0:
		c.Blocks = n
		c.shown = c.contrast.Quick(n, 0.95)
		c.shown.Lo, c.shown.Hi, c.shown.Warnings = math.Inf(-1), math.Inf(1), nil
		c.noteFailedGates(n)
	case !c.closed:
		c.shown = c.estimate(c.level)
		fallthrough
	default:
		c.Alpha = &c.level
	}
	c.Gates = append(c.Gates, c.held...)
	if !c.closed && c.look >= 0 {
		c.Gates = append(c.Gates, c.unsteady()...)
	}
	c.showEstimate(c.shown)
	c.Warnings = append(c.Warnings, c.shown.Warnings...)
	for _, w := range append([]string{c.variationWarning(), c.lopsided(), c.undrawn()}, c.unrestWarnings()...) {
		if w != "" {
			c.Warnings = append(c.Warnings, w)
		}
	}
	if c.closed || c.look >= 0 && c.look == len(d.spendingLooks())-1 {
		c.Unused = n - c.Blocks
	}
	if c.closed {
		c.BeyondMargin = c.region.Beyond(c.Verdict, c.shown.Lo, c.shown.Hi)
	} else {
		c.Verdict = Inconclusive
		if n > c.Look {
			e := c.contrast.Quick(n, 0.95)
			c.Interim = c.interval(e.Lo, e.Hi)
		}
		c.hopeless = c.Primary && c.left >= 0 && c.cannotDecide(d)
		c.MoreBlocks = c.moreBlocks(d)
	}
	if n == 0 && len(c.us) > 0 && len(c.them) > 0 {
		c.Warnings = append(c.Warnings, "no block has this metric in all trials of both sides")
	}
}

// describe fills in a comparison that gets no verdict: an interval at 95 %.
func (c *draft) describe() {
	if c.exactly() {
		c.finishExactly()
		return
	}
	n := len(c.blocks)
	e := c.contrast.Quick(n, 0.95)
	c.Blocks = n
	if n > 0 {
		c.Alpha = new(MaxAlpha)
		c.noteFailedGates(n)
		c.Gates = append(c.Gates, c.held...)
	}
	c.showEstimate(e)
	c.Warnings = append(c.Warnings, e.Warnings...)
	if w := c.variationWarning(); w != "" {
		c.Warnings = append(c.Warnings, w)
	}
}

// lopsided returns a warning if the trials without weight are mostly of one side:
// then the tails differ, and a verdict on the typical trial does not show it.
func (c *draft) lopsided() string {
	if c.Blocks == 0 || math.IsInf(c.shown.Value, 0) || c.shown.Value != c.shown.Value {
		return ""
	}
	var out [2]int
	for i, w := range c.contrast.Weights(c.Blocks, c.shown.Value) {
		if w < 0.1 {
			out[(1-c.contrast.Side(i))/2]++
		}
	}
	if stats.SignTest(out[0], out[1]) > 0.01 {
		return ""
	}
	return fmt.Sprintf("the tails differ: %d trials of %s and %d of %s are outliers and have no weight in this verdict, "+
		"which describes the typical trial",
		out[0], c.Contender, out[1], c.Baseline)
}

// undrawn returns a warning if one side ran first in every block. With random
// orders that happens in one run of 2,048 from twelve blocks on.
func (c *draft) undrawn() string {
	first, _, always := c.sideAhead(func(b block) int8 { return b.first })
	if c.Blocks < 12 || !always {
		return ""
	}
	return fmt.Sprintf("%s ran first in all %d blocks: without random orders, an effect of the order cannot be "+
		"distinguished from a difference", first, c.Blocks)
}

// sideAhead returns the side that of names for most blocks, and the other one, and
// whether it names it for all.
func (c *draft) sideAhead(of func(block) int8) (ahead, behind string, always bool) {
	sum := lists.Sum(c.blocks[:c.Blocks], func(b block) int { return int(of(b)) })
	if sum < 0 {
		return c.Baseline, c.Contender, -sum == c.Blocks
	}
	return c.Contender, c.Baseline, sum == c.Blocks
}

func (c *draft) showEstimate(e stats.Estimate) {
	v := e.Value
	if c.metric.Scale != sample.Difference {
		v = math.Exp(v)
		if v == 0 {
			v = math.Inf(-1)
		}
	}
	c.Ratio = sample.Finite(v)
	c.CI = c.interval(e.Lo, e.Hi)
	for _, b := range c.blocks[:c.Blocks] {
		c.Failures.Contender += b.failed.Contender
		c.Failures.Baseline += b.failed.Baseline
		c.Failures.Of += b.failed.Of
	}
	if f := c.Failures; f.Contender+f.Baseline > 0 {
		c.Warnings = append(c.Warnings,
			fmt.Sprintf("failed trials: %d of %d of %s, %d of %d of %s; each counts as the worst possible value",
				f.Contender, f.Of, c.Contender, f.Baseline, f.Of, c.Baseline))
	}
}

// interval turns bounds on the scale of differences into bounds of the ratio.
func (c *draft) interval(lo, hi float64) Interval {
	return Interval{Shown(lo, c.metric.Scale), Shown(hi, c.metric.Scale)}
}

// Shown returns what is shown of a difference on a scale: the ratio of which it
// is the logarithm, or itself; nil if that is not finite.
func Shown(v float64, scale sample.Scale) *float64 {
	if scale != sample.Difference && !math.IsInf(v, 0) {
		v = math.Exp(v)
	}
	return sample.Finite(v)
}

// moreBlocks estimates how many more blocks a pending comparison needs, from its
// estimate and the width of its interval now: that many decide it with the
// probability stats.Likely if the estimate is true. The plan says the same for a
// wanted difference.
func (c *draft) moreBlocks(d *Data) *int {
	if len(d.spendingLooks()) == 0 {
		return nil
	}
	alpha := d.Alphas[min(max(c.look, 0), len(d.spendingLooks())-1)]
	if c.Alpha != nil {
		alpha = *c.Alpha
	}
	return c.blocksUntil(d, 0, c.region, alpha)
}

// blocksUntil is moreBlocks for an interval with the error alpha that must exclude the
// difference from, or lie within the region around it.
func (c *draft) blocksUntil(d *Data, from float64, around Region, alpha float64) *int {
	n := len(c.blocks)
	looks := d.spendingLooks()
	if n < 4 || len(looks) == 0 || c.isStuck() {
		return nil
	}
	// The width at a level that n blocks can reach gives the standard error.
	level := max(alpha, math.Ldexp(2, -n))
	e := c.contrast.Quick(n, 1-level)
	se := (e.Hi - e.Lo) / 2 / stats.NormalTail(level/2)
	growth := stats.Growth(e.Value-from, se, float64(around), alpha)
	if math.IsInf(se, 0) || growth != growth || math.IsInf(growth, 0) {
		return nil
	}
	need := math.Ceil(float64(n) * growth)
	need = max(need, float64(n+1), float64(stats.SignedRankNeeds(alpha)))
	for _, l := range looks {
		if float64(l) >= need {
			need = float64(l) // decisions fall at looks
			break
		}
	}
	if need > 100_000 {
		return nil
	}
	return new(int(need) - n)
}

// isStuck reports that no number of further blocks can decide the comparison.
func (c *draft) isStuck() bool {
	return slices.ContainsFunc(c.held, Gate.failsComparison)
}

// cannotDecide reports that no look that is left can bring a verdict, whatever the trials of
// the blocks that are left give: the comparison lacks blocks for another look, or at
// the last look a gate still has mostly of the trials of a side, even if no further
// trial fails it. It reads no value of a metric, so it selects no result.
func (c *draft) cannotDecide(d *Data) bool {
	looks := d.spendingLooks()
	if c.look+1 >= len(looks) || len(c.blocks)+c.left < looks[c.look+1] {
		return true
	}
	if d.Trials <= 0 {
		return false
	}
	for _, s := range [2]series{c.us, c.them} {
		failed := map[string]int{}
		for _, o := range s {
			for name := range o.Gates {
				if failed[name]++; !gateSpares(name, c.metric) && shareOf(failed[name], len(s)+c.left*d.Trials) >= mostly {
					return true
				}
			}
		}
	}
	return false
}
