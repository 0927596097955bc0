package analysis

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/stats"
)

// WorseThanMargin is the condition that no primary comparison is worse than the baseline
// by more than the margin.
const WorseThanMargin = "worse-than-margin"

// Limit is a condition with a tolerance: WorseThanMargin, or a metric with a share, such
// as cpu>+5%.
type Limit struct {
	Condition string
	// Name is a metric, or a cell or workload, whose primary metrics are meant. "" means
	// all primary metrics.
	Name string
	// More tells that values above the limit exceed it. Of WorseThanMargin it depends on
	// the metric.
	More bool
	// Share is the tolerance, 0.05 for 5 %. Of WorseThanMargin it is the margin.
	Share float64
}

// limitForm has a name in front, such as sec/op or that of a cell. A comma separates conditions.
var limitForm = lazy.Compile(`^([^\s,](?:[^,]*[^\s,])?)(>\+?|<[-−])([0-9]+(?:\.[0-9]+)?) ?%$`)

// ParseLimit reads a condition; false if it has no tolerance.
func ParseLimit(condition string, margin float64) (Limit, bool) {
	if condition == WorseThanMargin {
		return Limit{Condition: condition, Share: margin}, true
	}
	m := limitForm.FindStringSubmatch(condition)
	if m == nil {
		return Limit{}, false
	}
	share, err := strconv.ParseFloat(m[3], 64)
	l := Limit{Condition: condition, Name: m[1], More: strings.HasPrefix(m[2], ">"), Share: share / 100}
	return l, err == nil && (l.More || l.Share < 1)
}

// HasLimit reports whether one of the conditions has a tolerance.
func HasLimit(conditions []string) bool {
	return slices.ContainsFunc(conditions, func(c string) bool { _, ok := ParseLimit(c, 0); return ok })
}

// Concerns reports whether the limit is for a metric of a cell.
func (l Limit) Concerns(cell, workload string, m sample.Metric) bool {
	return l.Name == "" && m.Primary || l.Name != "" && m.Name == l.Name ||
		m.Primary && (cell == l.Name || workload == l.Name)
}

// limitAndSide returns the limit on the scale of differences, and whether larger differences
// exceed it. size is the typical size of the baseline's values, for metrics of scale
// difference.
func (l Limit) limitAndSide(m sample.Metric, size float64) (at float64, more bool) {
	sign := 1.0
	if more = l.More || l.Name == "" && m.Better == sample.Lower; !more {
		sign = -1
	}
	switch {
	case m.Scale == sample.Difference:
		return sign * l.Share * size, more
	case l.Name == "":
		return sign * float64(RatioRegion(l.Share)), more
	}
	return math.Log1p(sign * l.Share), more
}

// Outcome is the answer to the question of a limit.
type Outcome string

// The outcomes. Undecided has the word of a verdict without a decision.
const (
	Exceeded  Outcome = "exceeded"
	Kept      Outcome = "kept"
	Undecided Outcome = Outcome(Inconclusive)
)

// Outcome reads the answer from an interval of the difference: Exceeded if the whole
// interval is beyond the limit, Kept if the limit contains it. size is as for NewRegion.
func (l Limit) Outcome(lo, hi float64, m sample.Metric, size float64) Outcome {
	at, more := l.limitAndSide(m, size)
	if !more {
		at, lo, hi = -at, -hi, -lo
	}
	switch {
	case at != at:
		return Undecided
	case lo > at:
		return Exceeded
	case hi <= at:
		return Kept
	}
	return Undecided
}

// Limited is the answer to the question of a limit for one comparison.
type Limited struct {
	Condition string `json:"condition"` // of --fail-on
	Contender string `json:"contender"`
	Cell      string `json:"cell"`
	Metric    string `json:"metric"`
	// Limit is the ratio, or the difference, that must not be exceeded; null if it is
	// unknown.
	Limit   *float64 `json:"limit"`
	Outcome Outcome  `json:"outcome"`
	// CI is the interval that the outcome is read from, at the look that decided or at
	// the last one so far. Each of its bounds errs with at most Alpha.
	CI     Interval `json:"ci"`
	Alpha  *float64 `json:"alpha"`
	Blocks int      `json:"blocks"` // that entered
	// Reason says why the outcome is inconclusive.
	Reason string `json:"reason,omitempty"`
	// MoreBlocks estimates how many more blocks decide it with a probability of 80 %.
	MoreBlocks *int `json:"more_blocks"`
	hopeless   bool // no look that is left can decide it
}

// question is a limit for one comparison, in progress.
type question struct {
	Limited
	limit Limit
	c     *draft          // a copy of the comparison; nil without a value
	mark  *stats.Standing // of the limit at this look, once asked for
	past  *stats.Standing // of the first difference that exceeds it
}

// answerLimits answers the questions of all limits (see the package comment). drafts are the
// comparisons of the contenders. What is missing has no question.
func (d *Data) answerLimits(drafts []*draft, missing []Missing) (out []Limited) {
	var all []*question
	for _, text := range d.FailOn {
		l, ok := ParseLimit(text, d.Margin)
		if !ok {
			continue
		}
		for c, contender := range d.Contenders {
			if contender.Name == d.Baseline || d.familyOf(c) == 1 {
				continue
			}
			for _, cell := range d.Cells {
				if slices.ContainsFunc(missing, func(x Missing) bool {
					return x.Cell == cell.Name && (x.Contender == contender.Name || x.Contender == d.Baseline)
				}) {
					continue
				}
				for _, m := range cell.Metrics {
					if l.Concerns(cell.Name, cell.Workload, m) {
						q := &question{limit: l, Limited: Limited{Condition: text, Contender: contender.Name, Cell: cell.Name,
							Metric: m.Name, Outcome: Undecided}}
						q.copyComparison(drafts)
						all = append(all, q)
					}
				}
			}
		}
	}
	d.answerQuestions(all)
	for _, q := range all {
		q.finishAnswer(d)
		out = append(out, q.Limited)
	}
	return out
}

// copyComparison gives the question a copy of its comparison, before its first look.
func (q *question) copyComparison(drafts []*draft) {
	for _, c := range drafts {
		if c.Contender != q.Contender || c.Cell != q.Cell || c.Comparison.Metric != q.Metric {
			continue
		}
		x := *c
		x.look, x.Look, x.Blocks, x.closed, x.Exact = -1, 0, 0, false, nil
		x.held, x.checked, x.moving = nil, 0, nil
		if x.metric.Scale == sample.Difference {
			x.margin = q.limit.Share // of which reach makes the region
		}
		q.c = &x
	}
}

// answerQuestions performs the looks of all questions in the order of the blocks.
func (d *Data) answerQuestions(all []*question) {
	looks := d.spendingLooks()
	var moments []int
	for _, q := range all {
		if q.c == nil {
			continue
		}
		q.c.family = len(all)
		if q.c.exactly() {
			q.c.noteFailedGates(q.c.Blocks)
			if len(q.c.held) == 0 {
				size := q.c.them.medianSize(q.c.metric)
				q.Outcome = q.limit.Outcome(q.c.shown.Lo, q.c.shown.Hi, q.c.metric, size)
			}
			continue
		}
		for _, l := range looks {
			if l > 0 && l <= len(q.c.blocks) {
				moments = append(moments, q.c.blocks[l-1].index)
			}
		}
	}
	slices.Sort(moments)
	exceeded := 0
	keeps := d.lookLevels(looks, 0.5)
	for _, now := range slices.Compact(moments) {
		for _, q := range all {
			if q.c != nil && !q.c.closed {
				before := q.c.look
				if q.c.advance(looks, now); q.c.look != before {
					q.mark = nil
				}
			}
		}
		// Each limit that is exceeded raises the level of the others.
		for again := true; again; {
			again = false
			exceeds := d.lookLevels(looks, float64(len(all)-exceeded)/2)
			for _, q := range all {
				if q.c == nil || q.c.closed || q.c.look < 0 || !q.decideAtLevels(exceeds[q.c.look], keeps[q.c.look]) {
					continue
				}
				if q.Outcome == Exceeded {
					exceeded++
					again = true
				}
			}
		}
	}
}

// limitAt is the limit on the scale of differences, and whether larger ones exceed it.
func (q *question) limitAt() (float64, bool) {
	at, more := q.limit.limitAndSide(q.c.metric, 1)
	if q.c.metric.Scale == sample.Difference {
		at = math.Copysign(float64(q.c.region), at)
	}
	return at, more
}

// decideAtLevels reports whether the look decides the question at the two levels: of a limit that
// is exceeded and of one that is kept.
func (q *question) decideAtLevels(exceeds, keeps float64) bool {
	at, more := q.limitAt()
	beyond := -1 // the limit is below the interval
	if !more {
		beyond = 1
	}
	if q.mark == nil {
		q.mark = new(q.c.contrast.Stand(q.c.Blocks, at))
		// What equals the limit keeps it: all that is beyond it must be rejected, and not the limit.
		q.past = new(q.c.contrast.Stand(q.c.Blocks, q.c.contrast.Beyond(q.c.Blocks, at, -beyond)))
	}
	var out Outcome
	switch {
	case q.mark.At(1-exceeds) == beyond:
		out, q.c.level = Exceeded, exceeds
	case q.past.At(1-keeps) == -beyond:
		out, q.c.level = Kept, keeps
	default:
		q.c.level = exceeds
		return false
	}
	q.c.shown = q.c.contrast.Quick(q.c.Blocks, 1-q.c.level)
	if len(q.c.held) > 0 || len(q.c.unsteady()) > 0 {
		return false
	}
	q.Outcome, q.c.closed = out, true
	return true
}

// finishAnswer fills in the rest of the answer.
func (q *question) finishAnswer(d *Data) {
	c := q.c
	if c == nil {
		started := len(d.spendingLooks()) == 0 || d.counted() >= d.spendingLooks()[0]
		q.Reason, q.hopeless = "no trial of both sides has a value of "+q.Metric, started && !d.Elsewhere
		return
	}
	at, more := q.limitAt()
	q.Limit, q.Blocks = Shown(at, c.metric.Scale), c.Blocks
	switch {
	case c.closed && c.metric.Exact && c.look < 0: // exactly
		q.CI = c.interval(c.shown.Lo, c.shown.Hi)
	case c.look < 0:
		q.Blocks = len(c.blocks)
	default:
		e := c.contrast.Estimate(c.Blocks, 1-c.level, at)
		switch { // above stats.ExactSignedRank blocks the bounds are approximations
		case q.Outcome == Exceeded && more:
			e.Lo = max(e.Lo, at)
		case q.Outcome == Exceeded:
			e.Hi = min(e.Hi, at)
		case q.Outcome == Kept && more:
			e.Hi = min(e.Hi, at)
		case q.Outcome == Kept:
			e.Lo = max(e.Lo, at)
		}
		q.CI, q.Alpha = c.interval(e.Lo, e.Hi), new(c.level/2)
	}
	if q.Outcome != Undecided {
		return
	}
	gates := c.held
	if !c.closed && c.look >= 0 {
		gates = append(slices.Clone(gates), c.unsteady()...)
	}
	looks := d.spendingLooks()
	switch {
	case len(gates) > 0:
		q.Reason = fmt.Sprintf("check %s failed: %s", gates[0].Name, gates[0].Reason)
	case len(looks) == 0:
		q.Reason = "the design has no look"
	case c.look < 0:
		q.Reason = fmt.Sprintf("the first look is after %d blocks", looks[0])
	default:
		q.Reason = "the interval contains the limit"
	}
	q.hopeless = c.closed || c.left >= 0 && c.cannotDecide(d) || slices.ContainsFunc(gates, Gate.failsComparison)
	if !c.closed && len(looks) > 0 {
		alpha := 2 * d.Alphas[0]
		if c.look >= 0 {
			alpha = c.level
		}
		q.MoreBlocks = c.blocksUntil(d, at, 0, alpha)
	}
}

// counted is the number of blocks with an observation.
func (d *Data) counted() int {
	seen := lists.Set(d.Observations, func(o Observation) int { return o.Block })
	return len(seen)
}

// Pending reports whether further blocks could still decide the question.
func (l Limited) Pending() bool { return l.Outcome == Undecided && !l.hopeless }
