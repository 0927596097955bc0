package analysis

import (
	"fmt"
	"math"

	"bakeoff/base/sample"
	"bakeoff/judge/stats"
)

// Exact is the difference of a metric that repeats itself exactly: all trials of each
// side gave the same value, so it has no error. Only metrics that are meant to do so
// (sample.Metric.Exact) have it, and only if every side was measured at least twice.
type Exact struct {
	Contender float64 `json:"contender"`
	Baseline  float64 `json:"baseline"`
	// Difference is Contender − Baseline, in the metric's unit.
	Difference float64 `json:"difference"`
	Trials     int     `json:"trials"` // of both sides, that agree
}

// agreedValue returns the value that all trials of s with block numbers up to last gave, and
// how many there are; 0 if one failed or gave another value.
func (s series) agreedValue(m sample.Metric, last int) (value float64, n int) {
	for _, o := range s.through(last) {
		r := readMetric(o, m)
		switch {
		case r.lacks:
			continue
		case r.failed, n > 0 && r.value != value:
			return 0, 0
		}
		value = r.value
		n++
	}
	return value, n
}

// Repeats is the least number of trials of a side that can agree.
const Repeats = 2

// repeats is the number of trials of a side that must agree in this run.
func (d *Data) repeats() int { return max(d.ExactTrials, Repeats) }

// exactly decides a comparison without error if its metric is exact and the trials of
// each side agree, at the first block with which each side has Data.ExactTrials. It
// reports whether it did.
//
// The verdict is from an interval without width. There is nothing to test, so the
// comparison spends none of the error of its family, and waits for no look.
func (c *draft) exactly() bool {
	if !c.metric.Exact {
		return false
	}
	for i, b := range c.blocks {
		us, n := c.us.agreedValue(c.metric, b.index)
		them, k := c.them.agreedValue(c.metric, b.index)
		if n == 0 || k == 0 {
			return false // the trials do not agree, and more of them cannot change that
		}
		if min(n, k) < c.repeats {
			continue
		}
		c.Blocks, c.Look = i+1, i+1
		d := math.Log(us / them)
		if us == them {
			d = 0
		}
		c.shown, c.closed, c.differs = stats.Estimate{Value: d, Lo: d, Hi: d}, true, d != 0
		c.Exact = &Exact{Contender: us, Baseline: them, Difference: us - them, Trials: n + k}
		return true
	}
	return false
}

// finishExactly fills in the fields of a comparison that exactly decided.
func (c *draft) finishExactly() {
	c.noteFailedGates(c.Blocks)
	c.Gates = append(c.Gates, c.held...)
	c.showEstimate(c.shown)
	c.Unused = len(c.blocks) - c.Blocks
	if c.Primary {
		c.Verdict = c.judgeEstimate(c.shown)
		if len(c.Gates) > 0 {
			c.Verdict = Inconclusive
		}
		c.BeyondMargin = c.region.Beyond(c.Verdict, c.shown.Lo, c.shown.Hi)
	}
	// Later blocks do not change a verdict, but they change the words about it.
	last := c.blocks[len(c.blocks)-1].index
	_, n := c.us.agreedValue(c.metric, last)
	_, k := c.them.agreedValue(c.metric, last)
	if n == 0 || k == 0 {
		c.Exact = nil
		c.Warnings = append(c.Warnings, fmt.Sprintf("not deterministic: the trials of the first %d blocks agreed, and "+
			"those of later ones do not", c.Blocks))
		return
	}
	c.Exact.Trials = n + k
}

// variationWarning returns a warning if trials of an exact metric do not agree.
func (c *draft) variationWarning() string {
	if !c.metric.Exact || len(c.blocks) == 0 {
		return ""
	}
	last := c.blocks[len(c.blocks)-1].index
	for _, side := range []struct {
		name string
		of   series
	}{{c.Contender, c.us}, {c.Baseline, c.them}} {
		var lo, hi float64
		n := 0
		for _, o := range side.of.through(last) {
			if r := readMetric(o, c.metric); !r.lacks && !r.failed {
				if n++; n == 1 {
					lo, hi = r.value, r.value
				}
				lo, hi = min(lo, r.value), max(hi, r.value)
			}
		}
		if lo != hi {
			return fmt.Sprintf("not deterministic: the %d trials of %s differ by up to %.0f %s", n, side.name, hi-lo,
				c.metric.Unit)
		}
	}
	return ""
}
