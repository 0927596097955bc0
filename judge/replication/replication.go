// Package replication judges whether the verdicts of a run hold in a second run of the same
// lab, elsewhere or later. It is pure.
//
// # What a verdict claims
//
// Better and worse claim a direction, equivalent claims a difference within the margin. Each
// primary comparison with a verdict in the first run has one outcome. The margin is that of
// the first run. Two intervals are apart if the gap between them is larger than the margin.
//
//   - Holds: the second run has the same verdict. The size may still be another one:
//     OtherSize says that the intervals are apart.
//   - Fails: the second run has the opposite direction. Or one run says equivalent and the
//     other a difference, and the difference lies beyond the margin or the intervals are
//     apart. Or the second run has no verdict, its interval includes no difference, and it
//     is apart from the first. Or the contender failed, which it did not in the first run.
//   - Inconclusive: everything else, and every comparison of which a check withheld the
//     verdict.
//
// A run whose twin differs from its baseline decides nothing.
package replication

import (
	"fmt"
	"math"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
)

// Outcome says whether something holds in the second run.
type Outcome string

// The outcomes.
const (
	Holds        Outcome = "holds"
	Fails        Outcome = "does not hold"
	Inconclusive Outcome = "inconclusive"
)

// Side is what one run says. An unknown value is null.
type Side struct {
	Verdict      analysis.Verdict `json:"verdict"`
	Ratio        *float64         `json:"ratio"`
	Low          *float64         `json:"low"`
	High         *float64         `json:"high"`
	BeyondMargin *bool            `json:"beyond_margin"`
	Blocks       int              `json:"blocks"`
}

// Comparison is a verdict of the first run, and what became of it in the second.
type Comparison struct {
	Contender string        `json:"contender"`
	Cell      string        `json:"cell"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    sample.Better `json:"better"`
	Scale     sample.Scale  `json:"scale"`
	There     Side          `json:"there"` // the first run
	Here      Side          `json:"here"`  // the second
	// Region is the margin: of the logarithm of ratios, else in the unit of the metric.
	Region float64 `json:"region"`
	// Withheld says why the second run says nothing, such as the checks that failed.
	Withheld string `json:"withheld,omitempty"`
	// Failed says that trials of the contender failed in the second run only.
	Failed  bool    `json:"failed,omitempty"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
	// OtherSize says that the verdict holds with an interval apart from the first.
	OtherSize bool `json:"other_size,omitempty"`
}

// Of judges the verdicts of the run there by the run here. An error is of kind
// fault.Invalid: there has no verdict that could be replicated.
func Of(there, here analysis.Results) ([]Comparison, error) {
	var out []Comparison
	for _, c := range Claims(there) {
		size := compare.Size(there, compare.Relative, c.Contender, c.Cell, c.Metric)
		r := Comparison{Contender: c.Contender, Cell: c.Cell, Metric: c.Metric, Unit: c.Unit, Better: c.Better,
			Scale: c.Scale, There: sideOf(c), Region: float64(analysis.NewRegion(there.Margin, c.Scale, size))}
		r.fillFrom(there, here)
		r.Judge()
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "run %s has no verdict that could be replicated", there.Run)
	}
	return out, nil
}

// Claims are the verdicts of a run that can be replicated.
func Claims(r analysis.Results) []analysis.Comparison {
	return lists.Filter(r.Comparisons, func(c analysis.Comparison) bool { return isClaim(r, c) })
}

func isClaim(r analysis.Results, c analysis.Comparison) bool {
	_, twin := lists.Find(r.Contenders, func(x analysis.Contender) bool {
		return x.Name == c.Contender && x.TwinOf != ""
	})
	return c.Primary && !twin && decided(c.Verdict) && (r.Twin == nil || !r.Twin.Different)
}

func decided(v analysis.Verdict) bool {
	return v == analysis.Better || v == analysis.Worse || v == analysis.Equivalent
}

func sideOf(c analysis.Comparison) Side {
	return Side{Verdict: c.Verdict, Ratio: c.Ratio, Low: c.CI[0], High: c.CI[1], BeyondMargin: c.BeyondMargin,
		Blocks: c.Blocks}
}

// fillFrom sets what the second run says.
func (r *Comparison) fillFrom(there, here analysis.Results) {
	c, ok := lists.Find(here.Comparisons, func(x analysis.Comparison) bool {
		return x.Contender == r.Contender && x.Cell == r.Cell && x.Metric == r.Metric
	})
	if !ok {
		r.Withheld = "it was not measured"
		return
	}
	r.Here = sideOf(c)
	r.Failed = c.Failures.Contender > 0 && c.Failures.Baseline == 0 &&
		compare.Failures(there, r.Contender, r.Cell, r.Metric) == 0
	other := compare.OtherWork(there, here, compare.Relative, r.Contender, r.Cell, r.Metric)
	switch {
	case here.Twin != nil && here.Twin.Different:
		r.Withheld = "the twin differs from the baseline"
	case len(other) > 0:
		r.Withheld = "other work: " + other[0]
	case c.Verdict == analysis.Inconclusive && len(c.Gates) > 0:
		r.Withheld = "check " + c.Gates[0].Name + ": " + c.Gates[0].Reason
	}
}

// Judge sets Outcome, Reason and OtherSize by the other fields.
func (r *Comparison) Judge() {
	r.OtherSize = false
	gap, known := r.distance()
	apart := known && gap > r.Region
	there, here := r.There.Verdict, r.Here.Verdict
	switch {
	case r.Failed && !decided(here):
		r.Outcome, r.Reason = Fails, "the contender failed"
	case r.Withheld != "":
		r.Outcome, r.Reason = Inconclusive, r.Withheld
	case there == here:
		r.Outcome, r.Reason = Holds, ""
		if r.OtherSize = apart; apart {
			r.Reason = "another size: the intervals are further apart than the margin"
		}
	case !decided(here):
		r.Outcome, r.Reason = Inconclusive, "no verdict"
		if apart {
			r.Outcome, r.Reason = Fails, "the interval includes no difference, and is further away than the margin"
		}
	case there != analysis.Equivalent && here != analysis.Equivalent:
		r.Outcome, r.Reason = Fails, "it is "+string(here)
	case apart || isTrue(r.There.BeyondMargin) || isTrue(r.Here.BeyondMargin):
		r.Outcome, r.Reason = Fails, "it is "+string(here)
	default:
		r.Outcome, r.Reason = Inconclusive, "it is "+string(here)+", but the difference may be smaller than the margin"
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

// distance is the distance of the intervals on the scale of Region; 0 or less if they overlap.
func (r *Comparison) distance() (float64, bool) {
	var ends [4]float64
	for i, v := range []*float64{r.There.Low, r.There.High, r.Here.Low, r.Here.High} {
		if v == nil {
			return 0, false
		}
		if ends[i] = *v; r.Scale != sample.Difference {
			ends[i] = math.Log(*v)
		}
		if math.IsNaN(ends[i]) || math.IsInf(ends[i], 0) {
			return 0, false
		}
	}
	return max(ends[0]-ends[3], ends[2]-ends[1]), true
}

// Summary counts the outcomes of comparisons.
type Summary struct {
	Outcome      Outcome `json:"outcome"`
	Holds        int     `json:"holds"`
	Fails        int     `json:"does_not_hold"`
	Inconclusive int     `json:"inconclusive"`
	OtherSize    int     `json:"other_size"` // of Holds
}

// Summarize returns the outcome of a run: it fails if one verdict fails, and holds if all
// hold.
func Summarize(all []Comparison) (s Summary) {
	for _, c := range all {
		switch c.Outcome {
		case Holds:
			s.Holds++
		case Fails:
			s.Fails++
		default:
			s.Inconclusive++
		}
		if c.OtherSize {
			s.OtherSize++
		}
	}
	switch {
	case s.Fails > 0:
		s.Outcome = Fails
	case s.Holds > 0 && s.Inconclusive == 0:
		s.Outcome = Holds
	default:
		s.Outcome = Inconclusive
	}
	return s
}

// String says it in one line.
func (s Summary) String() string {
	text := fmt.Sprintf("%s: %s (holds: %d, does not hold: %d, inconclusive: %d", s.Outcome,
		unit.Count(s.Holds+s.Fails+s.Inconclusive, "verdict"), s.Holds, s.Fails, s.Inconclusive)
	if s.OtherSize > 0 {
		text += fmt.Sprintf(", holds with another size: %d", s.OtherSize)
	}
	return text + ")"
}
