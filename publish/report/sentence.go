package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
	"bakeoff/publish/chart"
	"bakeoff/publish/difference"
)

// sentence is a comparison in words. Its parts make a whole sentence: "crun
// is equivalent to host", " at sha256-16k throughput on this machine" and
// "0.2 % faster (95 % CI 0.6 % slower to 0.9 % faster), 26 blocks".
type sentence struct {
	Contender string
	Mark      chart.Mark
	Word      string // one of words
	Claim     string
	Where     string // with a space before it
	Failed    []failedCheck
	Evidence  string
	Short     string // the difference in a column of a table: "−94.8 %"
}

// checkFailed is the word for a comparison without a verdict because a check
// failed, whatever the numbers are.
const checkFailed = "inconclusive (check failed)"

// words are those that verdicts are counted by, in the order of the tally.
var words = []string{"better", "worse", "equivalent", "inconclusive", checkFailed, "missing"}

// failedCheck is a check that withheld a verdict. Why is the reason: " (the load
// generator was 97 % busy; 24 of 48 trials)". ID is its explanation's place, or "".
type failedCheck struct{ ID, Name, Why string }

// String is the whole sentence.
func (s sentence) String() string {
	parts := lists.Map(s.Failed, func(f failedCheck) string { return f.Name + f.Why })
	if s.Evidence != "" {
		parts = append(parts, s.Evidence)
	}
	if len(parts) == 0 {
		return s.Claim + s.Where + "."
	}
	return s.Claim + s.Where + ": " + strings.Join(parts, "; ") + "."
}

func significant(v float64, n int) string {
	if v >= 1e6 {
		return strconv.FormatFloat(v, 'g', n+1, 64)
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', n, 64), 64)
	if v >= 100 {
		f = math.Round(v)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// boundsToShow returns the interval to show: the one that decided or that of the last
// look, or the interim one before the first look.
func boundsToShow(c analysis.Comparison) (lo, hi *float64) {
	ci := c.CI
	if interim(c) {
		ci = c.Interim
	}
	return usableOrNil(ci[0], c.Scale), usableOrNil(ci[1], c.Scale)
}

// interim reports whether the interval to be shown is the unadjusted one.
func interim(c analysis.Comparison) bool { return c.CI[0] == nil && c.CI[1] == nil }

// usableOrNil returns v where it can be shown on its scale.
func usableOrNil(v *float64, scale sample.Scale) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || scale != sample.Difference && *v <= 0 {
		return nil
	}
	return v
}

func scopeWords(s analysis.Scope) string {
	switch s {
	case analysis.ScopeMachine:
		return " on this machine"
	case analysis.ScopeInstance:
		return " for these instances"
	}
	return ""
}

// markAndWord is the mark and the word of a comparison.
func markAndWord(c analysis.Comparison) (chart.Mark, string) {
	switch {
	case len(c.Gates) > 0 && c.Primary:
		return chart.Open, checkFailed
	case c.Verdict == analysis.Equivalent:
		return chart.Same, "equivalent"
	case c.Verdict == analysis.Better:
		return chart.Better, "better"
	case c.Verdict == analysis.Worse:
		return chart.Worse, "worse"
	case c.Verdict == "":
		return chart.Plain, "no verdict"
	}
	return chart.Open, "inconclusive"
}

// sayComparison puts a comparison into words. margin is that of the run, level the coverage
// of the interval, "95 % "; medians introduce the difference, "host 23.8 ms, crun
// 24.1 ms, ", or ""; failed says how many trials failed, or "".
func sayComparison(c analysis.Comparison, margin float64, level, medians, failed string) sentence {
	s := sentence{Contender: c.Contender, Short: shortDifference(c), Where: " at " + c.Cell + " " + c.Metric +
		scopeWords(c.Scope)}
	s.Mark, s.Word = markAndWord(c)
	switch s.Word {
	case checkFailed:
		s.Claim = fmt.Sprintf("%s against %s is inconclusive", c.Contender, c.Baseline)
		s.Where += ", because a check failed"
	case "equivalent":
		s.Claim = fmt.Sprintf("%s is equivalent to %s", c.Contender, c.Baseline)
	case "better", "worse":
		amount := analysis.Amount(c.BeyondMargin, margin)
		if strings.HasPrefix(amount, ",") {
			amount += ","
		}
		s.Claim = fmt.Sprintf("%s is %s than %s%s", c.Contender, s.Word, c.Baseline, amount)
	case "no verdict":
		s.Claim = fmt.Sprintf("%s against %s", c.Contender, c.Baseline)
		s.Where += " (not primary: no verdict)"
	default:
		s.Claim = fmt.Sprintf("%s against %s is inconclusive", c.Contender, c.Baseline)
	}
	for _, g := range c.Gates {
		s.Failed = append(s.Failed, failedCheck{Name: g.Name, Why: failureReason(g)})
	}
	evidence := []string{medians + estimate(c, level) + ", " + unit.Count(c.Blocks, "block")}
	if interim(c) && c.Primary && c.Blocks > 0 {
		evidence = append(evidence, "no verdict before the first look")
	}
	if failed != "" {
		evidence = append(evidence, failed)
	}
	if c.MoreBlocks != nil && *c.MoreBlocks > 0 && len(c.Gates) == 0 {
		evidence = append(evidence, fmt.Sprintf("about %s would decide it with %.0f %% probability",
			unit.Count(*c.MoreBlocks, "more block"), 100*stats.Likely))
	}
	if c.Caveat != "" {
		evidence = append(evidence, c.Caveat)
	}
	s.Evidence = strings.Join(evidence, "; ")
	return s
}

// estimate says how large a difference is, with its interval: "3.1 % slower
// (95 % CI 2.5–3.7 %)".
func estimate(c analysis.Comparison, level string) string {
	w := difference.Speak(c.Metric, c.Unit, c.Better)
	ci := level + "CI"
	if interim(c) {
		ci = "95 % CI" // unadjusted
		if c.Primary {
			ci = "interim " + ci
		}
	}
	v := usableOrNil(c.Ratio, c.Scale)
	lo, hi := boundsToShow(c)
	n := difference.Of(c.Scale, c.Unit, v, lo, hi)
	switch {
	case c.Exact != nil && v != nil:
		return exactWords(c, w.Say(n, *v))
	case v == nil && lo != nil:
		return w.Bound(n, *lo, true) + " (" + ci + ")"
	case v == nil && hi != nil:
		return w.Bound(n, *hi, false) + " (" + ci + ")"
	case v == nil:
		return "no estimate yet"
	case lo == nil && hi == nil:
		return w.Say(n, *v)
	}
	return w.Say(n, *v) + " (" + ci + " " + w.Between(n, lo, hi, *v) + ")"
}

// exactWords says how large a difference without error is, after the ratio in words.
func exactWords(c analysis.Comparison, said string) string {
	agree := fmt.Sprintf("deterministic: all %s of both sides agree", unit.Count(c.Exact.Trials, "trial"))
	if c.Exact.Difference == 0 {
		return "exactly the same (" + agree + ")"
	}
	return said + ", " + difference.Amount(c.Exact.Difference, c.Unit) + " exactly (" + agree + ")"
}

// shortDifference is the difference in a column of a table: the estimate, or the bound
// that there is.
func shortDifference(c analysis.Comparison) string {
	lo, hi := boundsToShow(c)
	v := usableOrNil(c.Ratio, c.Scale)
	switch n := difference.Of(c.Scale, c.Unit, v, lo, hi); {
	case v != nil:
		return difference.Speak(c.Metric, c.Unit, c.Better).Column(n, *v)
	case lo != nil && hi == nil:
		return "≥ " + n.Text(*lo)
	case hi != nil && lo == nil:
		return "≤ " + n.Text(*hi)
	}
	return unavailable
}

// shortReason shortens a reason for a sentence. The table has the whole.
func shortReason(reason string) string {
	short := safetext.Clip(reason, 300)
	if short != reason {
		return strings.TrimRight(short, "….") + " […]"
	}
	return strings.TrimSuffix(reason, ".")
}

// failureReason says why a check failed, and how often: " (7 % stolen; 12 of 52 trials)".
func failureReason(g analysis.Gate) string {
	var parts []string
	if g.Reason != "" {
		parts = append(parts, shortReason(g.Reason))
	}
	if g.Of > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", g.Trials, unit.Count(g.Of, "trial")))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}
