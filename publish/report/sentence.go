package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/percent"
)

// sentence is a comparison in words. Its parts make a whole sentence: "crun
// is equivalent to host", " at sha256-16k on this machine" and "99.4 % to
// 100.9 % of its throughput; 26 blocks".
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

// checkFailed is the word for a comparison that has no verdict because what was
// measured may not be what was meant, whatever the numbers are.
const checkFailed = "undecided by a failed check"

// words are those that verdicts are counted by, in the order in which they are
// told: what was decided, what was not, what is not there.
var words = []string{"better", "worse", "equivalent", "undecided", checkFailed, "missing"}

// failedCheck is a check that took a verdict away: ": the load generator was
// 97 % busy (24 of 48 trials)". ID is where it is explained; "" is nowhere.
type failedCheck struct{ ID, Name, Why string }

// String is the whole sentence.
func (s sentence) String() string {
	var parts []string
	for _, f := range s.Failed {
		parts = append(parts, f.Name+f.Why)
	}
	if s.Evidence != "" {
		parts = append(parts, s.Evidence)
	}
	if len(parts) == 0 {
		return s.Claim + s.Where + "."
	}
	return s.Claim + s.Where + ": " + strings.Join(parts, "; ") + "."
}

// speech is how differences of a metric are spoken of.
type speech struct {
	less, more string // words for a ratio below and above 1
	verb       string // before an amount: "costs ", or ""
	fast       bool   // "times as fast" and "times slower" can be said
	time       bool   // less of it is faster
}

// speak chooses words by what a metric counts: rates and times are fast or
// slow, what is spent on a unit of work is dear or cheap.
func speak(name, unitName string, better sample.Better) speech {
	switch {
	case isCost(name):
		return speech{less: "cheaper", more: "dearer", verb: "costs "}
	case strings.HasSuffix(unitName, "/s") && better == sample.Higher:
		return speech{less: "slower", more: "faster", fast: true}
	case (unitName == "s" || strings.HasPrefix(unitName, "s/")) && better == sample.Lower:
		return speech{less: "faster", more: "slower", fast: true, time: true}
	}
	return speech{less: "less", more: "more"}
}

// isCost reports whether a metric is spent on a unit of work: CPU time,
// context switches, joules.
func isCost(name string) bool {
	return strings.Contains(name, "-per-") || strings.HasPrefix(name, "cpu-") || strings.Contains(name, "joule")
}

// amount says a ratio as a difference: "3.1 % slower", "8.1 times slower",
// "2.4 times as fast", "costs 1.8 times as much".
func (w speech) amount(ratio float64) string {
	up := ratio > 1
	factor := ratio
	if !up {
		factor = 1 / ratio
	}
	faster := up != w.time
	switch {
	case factor >= 1.5 && w.fast && faster:
		return significant(factor, 2) + " times as fast"
	case factor >= 1.5 && w.fast:
		return significant(factor, 2) + " times slower"
	case factor >= 1.5 && up:
		return w.verb + significant(factor, 2) + " times as much"
	case factor >= 1.5:
		return w.verb + share(ratio) + " as much"
	}
	word := map[bool]string{true: w.more, false: w.less}[up]
	if w.verb != "" {
		word = map[bool]string{true: "more", false: "less"}[up]
	}
	return w.verb + percentage(100*math.Abs(ratio-1)) + " % " + word
}

// percentage writes a percentage with one decimal, two where it is small.
func percentage(p float64) string {
	if math.Abs(p) < 0.095 {
		return strconv.FormatFloat(p, 'f', 2, 64)
	}
	return strconv.FormatFloat(p, 'f', 1, 64)
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

// share writes a ratio as a part of the baseline's value: "99.4 %".
func share(r float64) string {
	switch {
	case r >= 2:
		return significant(r, 3) + " times"
	case r < 0.0095:
		return significant(100*r, 2) + " %"
	case r < 0.0995:
		return strconv.FormatFloat(100*r, 'f', 2, 64) + " %"
	}
	return percentage(100*r) + " %"
}

// interval says an interval of a comparison: "99.4 % to 100.9 % of its
// throughput".
func interval(c analysis.Comparison) string {
	lo, hi := bounds(c)
	text, of := share, " of its "+c.Metric
	if c.Scale == sample.Difference {
		text, of = func(v float64) string { return difference(v, c.Unit) }, " in "+c.Metric
	} else if last := cmp.Or(hi, lo); last != nil && *last >= 2 {
		of = " its " + c.Metric // "2 to 3 times its latency"
	}
	switch {
	case lo != nil && hi != nil:
		a, b := text(*lo), text(*hi)
		if c.Scale != sample.Difference && strings.HasSuffix(a, " times") && strings.HasSuffix(b, " times") {
			a = strings.TrimSuffix(a, " times")
		}
		return a + " to " + b + of
	case lo != nil:
		return "at least " + text(*lo) + of
	case hi != nil:
		return "at most " + text(*hi) + of
	}
	return ""
}

func difference(v float64, u string) string {
	s := unit.Format(math.Abs(v), u)
	switch {
	case v < 0:
		return "−" + s
	case v > 0:
		return "+" + s
	}
	return s
}

// bounds returns the interval to be shown: the one that decided or that of
// the last look; before the first look the interim one.
func bounds(c analysis.Comparison) (lo, hi *float64) {
	ci := c.CI
	if interim(c) {
		ci = c.Interim
	}
	return usable(ci[0], c.Scale), usable(ci[1], c.Scale)
}

// interim reports whether the interval to be shown is the unadjusted one.
func interim(c analysis.Comparison) bool { return c.CI[0] == nil && c.CI[1] == nil }

// usable returns v where it can be shown on its scale.
func usable(v *float64, scale sample.Scale) *float64 {
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

// say puts a comparison into words. failed is what is to be said of failed
// trials, or "".
func say(c analysis.Comparison, failed string) sentence {
	w := speak(c.Metric, c.Unit, c.Better)
	s := sentence{Contender: c.Contender, Short: short(c), Where: " at " + c.Cell + scopeWords(c.Scope)}
	switch {
	case len(c.Gates) > 0 && c.Primary:
		s.Mark, s.Word = chart.Open, checkFailed
		s.Claim = fmt.Sprintf("%s against %s is undecided", c.Contender, c.Baseline)
		s.Where += ", because a check failed"
	case c.Verdict == analysis.Equivalent:
		s.Mark, s.Word = chart.Same, "equivalent"
		s.Claim = fmt.Sprintf("%s is equivalent to %s", c.Contender, c.Baseline)
	case c.Verdict == analysis.Better || c.Verdict == analysis.Worse:
		s.Mark, s.Word = chart.Better, "better"
		if c.Verdict == analysis.Worse {
			s.Mark, s.Word = chart.Worse, "worse"
		}
		s.Claim = fmt.Sprintf("%s is %s than %s", c.Contender, c.Verdict, c.Baseline)
	case c.Verdict == "":
		s.Mark, s.Word = chart.Plain, "no verdict"
		s.Claim = fmt.Sprintf("%s against %s", c.Contender, c.Baseline)
		s.Where += " (not primary: no verdict)"
	default:
		s.Mark, s.Word = chart.Open, "undecided"
		s.Claim = fmt.Sprintf("%s against %s is undecided", c.Contender, c.Baseline)
	}
	for _, g := range c.Gates {
		s.Failed = append(s.Failed, failedCheck{Name: g.Name, Why: why(g)})
	}
	s.Evidence = strings.Join(evidenceOf(c, w, failed), "; ")
	return s
}

// evidenceOf lists what a verdict rests on, the most telling first.
func evidenceOf(c analysis.Comparison, w speech, failed string) []string {
	var out []string
	estimate := usable(c.Ratio, c.Scale)
	between := interval(c)
	if estimate == nil && c.Verdict == analysis.Inconclusive {
		out = append(out, "there is no estimate yet")
	}
	if estimate != nil {
		switch {
		case c.Scale == sample.Difference:
			out = append(out, "the difference is "+difference(*estimate, c.Unit))
		case c.Verdict == analysis.Better || c.Verdict == analysis.Worse:
			out = append(out, w.amount(*estimate))
		case c.Verdict != analysis.Equivalent:
			of := " of its "
			if *estimate >= 2 {
				of = " its "
			}
			out = append(out, "the estimate is "+share(*estimate)+of+c.Metric)
			if between != "" {
				between = "interval " + strings.TrimSuffix(strings.TrimSuffix(between, " its "+c.Metric), " of")
				if interim(c) && c.Primary {
					between = "interim " + between + " (unadjusted: no look was reached)"
				}
			}
		}
	}
	if between != "" {
		out = append(out, between)
	}
	if failed != "" {
		out = append(out, failed)
	}
	out = append(out, plural(c.Blocks, "block"))
	if c.MoreBlocks != nil && *c.MoreBlocks > 0 && len(c.Gates) == 0 {
		out = append(out, fmt.Sprintf("about %d more would decide it with %.0f %% probability", *c.MoreBlocks, 100*stats.Likely))
	}
	return out
}

// short is the difference in a column of a table: the estimate, or the bound
// that there is.
func short(c analysis.Comparison) string {
	text := percent.Text
	if c.Scale == sample.Difference {
		text = func(v float64) string { return difference(v, c.Unit) }
	}
	lo, hi := bounds(c)
	switch v := usable(c.Ratio, c.Scale); {
	case v != nil:
		return text(*v)
	case lo != nil && hi == nil:
		return "≥ " + text(*lo)
	case hi != nil && lo == nil:
		return "≤ " + text(*hi)
	}
	return "–"
}

// brief shortens a reason for a sentence; the table of what is missing has
// the whole.
func brief(reason string) string { return strings.TrimSuffix(safetext.Clip(reason, 300), ".") }

// why says for what reason a check failed, and how often.
func why(g analysis.Gate) (s string) {
	if g.Reason != "" {
		s += ": " + brief(g.Reason)
	}
	if g.Of > 0 {
		s += fmt.Sprintf(" (%d of %s)", g.Trials, plural(g.Of, "trial"))
	}
	return s
}
