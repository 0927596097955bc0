package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
)

// condition is something that --fail-on can ask for.
type condition struct {
	name, meaning string
	// found lists what is true, one line each; nil of a condition with a tolerance.
	found func(analysis.Results) []string
}

var conditions = []condition{
	{"worse", "a contender is worse than the baseline", verdictIs(analysis.Worse)},
	{analysis.WorseThanMargin, "a contender is worse than the baseline by more than the margin", nil},
	{"better", "a contender is better than the baseline", verdictIs(analysis.Better)},
	{"inconclusive", "a primary comparison is inconclusive", verdictIs(analysis.Inconclusive)},
	{"missing", "a contender has no results in a cell", func(r analysis.Results) (out []string) {
		out = lists.Map(r.Missing, func(m analysis.Missing) string {
			return strings.TrimSuffix(at(m.Contender, m.Cell)+" is missing: "+safetext.Line(m.Reason), ": ")
		})
		for _, c := range r.Comparisons {
			if c.Primary && c.Incomplete > 0 {
				out = append(out, fmt.Sprintf("%s: %s of a table lack trials", comparisonName(c),
					unit.Count(c.Incomplete, "block")))
			}
		}
		return out
	}},
	{"failed", "a contender failed a trial", func(r analysis.Results) (out []string) {
		seen := map[string]bool{}
		for _, s := range r.Summaries {
			line := fmt.Sprintf("%s failed in %s", at(s.Contender, s.Cell), unit.Count(s.Failures, "trial"))
			if s.Failures > 0 && !seen[line] {
				seen[line] = true
				out = append(out, line)
			}
		}
		return out
	}},
	{"gated", "a primary comparison failed a check", func(r analysis.Results) (out []string) {
		for _, c := range r.Comparisons {
			if c.Primary && len(c.Gates) > 0 {
				out = append(out, fmt.Sprintf("%s: %s", comparisonName(c), c.Gates[0].Reason))
			}
		}
		return out
	}},
	{"twin", "the twin differs from the baseline", func(r analysis.Results) []string {
		if r.Twin == nil || !r.Twin.Different {
			return nil
		}
		return []string{"the twin differs from the baseline"}
	}},
}

// at names a contender and its cell; the only cell of a file may have no name.
func at(contender, cell string) string {
	if cell == "" {
		return contender
	}
	return contender + " at " + cell
}

func verdictIs(v analysis.Verdict) func(analysis.Results) []string {
	return func(r analysis.Results) (out []string) {
		for _, c := range r.Comparisons {
			if c.Primary && c.Verdict == v {
				out = append(out, fmt.Sprintf("%s is %s%s", comparisonName(c), v, analysis.Amount(c.BeyondMargin, r.Margin)))
			}
		}
		return out
	}
}

// Conditions explains the conditions of --fail-on, one line each.
func Conditions() string {
	lines := lists.Map(conditions, func(c condition) string { return fmt.Sprintf("  %-18s %s", c.name, c.meaning) })
	lines = append(lines,
		fmt.Sprintf("  %-18s %s", "METRIC>+N%", "the whole interval of METRIC is more than N % above the baseline's value"),
		fmt.Sprintf("  %-18s %s", "METRIC<-N%", "the whole interval of METRIC is more than N % below this value"), "",
		"METRIC may also be the name of a cell or a workload; the condition then concerns the primary metrics of "+
			"that cell or workload.",
		"worse-than-margin, METRIC>+N% and METRIC<-N% have a tolerance: the exit code is 6",
		"as long as the interval contains the limit. The exit code of worse, better and twin is 6",
		"if a check withheld a verdict, if the run ended before its first look, or if there are too",
		"few blocks for an interval.")
	return strings.Join(lines, "\n")
}

func conditionNames() (names []string) {
	return lists.Map(conditions, func(c condition) string { return c.name })
}

// needsVerdict reports whether a condition is never true without a verdict.
func needsVerdict(condition string) bool {
	return slices.Contains([]string{"worse", "better"}, condition) || isLimit(condition)
}

// verdictsAsked are the conditions that need a verdict and have no tolerance.
func (f FailOn) verdictsAsked() FailOn {
	return lists.Filter(f, func(c string) bool { return needsVerdict(c) && !isLimit(c) })
}

// neverTrue says that conditions about primary comparisons can never be true, because
// nothing is compared; "" if something is.
func (f FailOn) neverTrue(all []analysis.Results) string {
	asked := lists.Filter(f, func(c string) bool {
		return len(FailOn{c}.verdictsAsked()) > 0 || c == string(analysis.Inconclusive) || c == "gated"
	})
	compared := slices.ContainsFunc(all, func(r analysis.Results) bool {
		return len(r.Missing) > 0 || slices.ContainsFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Primary })
	})
	if len(asked) == 0 || compared {
		return ""
	}
	return "--fail-on " + strings.Join(asked, ",") + " is not decided: there is no primary comparison; add a contender " +
		"or primary: true, or compare two runs by bakeoff compare --by direct"
}

// untested are the primary comparisons of r that no test decided: a check withheld the
// verdict, or there was no look. What was not tested cannot pass.
func (f FailOn) untested(r analysis.Results) (lines []string) {
	asked := f.verdictsAsked()
	if len(asked) == 0 || slices.Contains(f, string(analysis.Inconclusive)) {
		return nil
	}
	for _, c := range r.Comparisons {
		why := whyUntested(r, c)
		if why == "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("--fail-on %s is not decided: %s: %s", strings.Join(asked, ","),
			comparisonName(c), why))
	}
	return lines
}

// untestedTwin says that the condition twin is not decided, because no test compared the
// twin with the baseline; "" if one did.
func (f FailOn) untestedTwin(r analysis.Results) string {
	switch {
	case !slices.Contains(f, "twin"):
		return ""
	case r.Twin == nil:
		return "--fail-on twin is not decided: the results have no twin, which is a second copy of the baseline"
	case r.Twin.Different || r.Twin.Tested():
		return ""
	}
	for _, c := range r.Twin.Comparisons {
		if why := whyUntested(r, c); why != "" {
			return "--fail-on twin is not decided: " + comparisonName(c) + ": " + why
		}
	}
	return "--fail-on twin is not decided: no test compared " + r.Twin.Name + " with the baseline"
}

// whyUntested says why no test decided a primary comparison; "" if one did, or if its
// interval alone is too wide.
func whyUntested(r analysis.Results, c analysis.Comparison) string {
	switch {
	case !c.Primary || c.Verdict != analysis.Inconclusive:
		return ""
	case len(c.Gates) > 0:
		return "check " + c.Gates[0].Name + " failed: " + c.Gates[0].Reason
	case c.Blocks == 0 && c.Incomplete > 0:
		return "no block has all trials of both sides"
	case len(r.Looks) > 0 && c.Look == 0 && c.Exact == nil:
		return fmt.Sprintf("after %s: the first look is after %d", unit.Count(c.Blocks, "block"), r.Looks[0])
	case c.Exact == nil && c.CI[0] == nil && c.CI[1] == nil:
		// A look that shares its error rate with many comparisons may need more blocks for any interval.
		return unit.Count(c.Blocks, "block") + " give no interval; measure more"
	}
	return ""
}

// Open says that comparisons of r are inconclusive after a test, which conditions without
// a tolerance let pass, and how to change that; "" if there are none, or if inconclusive
// ones fail.
func (f FailOn) Open(r analysis.Results, remedy string) string {
	asked := f.verdictsAsked()
	if len(asked) == 0 || slices.Contains(f, string(analysis.Inconclusive)) {
		return ""
	}
	all := lists.Filter(r.Comparisons, func(c analysis.Comparison) bool { return c.Primary })
	open := lists.Filter(all, func(c analysis.Comparison) bool {
		return c.Verdict == analysis.Inconclusive && whyUntested(r, c) == ""
	})
	if len(open) == 0 {
		return ""
	}
	is := "are"
	if len(all) == 1 {
		is = "is"
	}
	return fmt.Sprintf("%d of %s %s inconclusive; --fail-on %s ignores this (--fail-on inconclusive does not); %s",
		len(open), unit.Count(len(all), "comparison"), is, strings.Join(asked, ","), remedy)
}

// FailOn is the value of --fail-on: names of conditions.
type FailOn []string

func (f FailOn) Check() error {
	for _, name := range f {
		if slices.Contains(conditionNames(), name) || isLimit(name) {
			continue
		}
		err := fault.New(fault.Invalid, "--fail-on must be one of %s, or %s (got %q)", strings.Join(conditionNames(), ", "),
			limitUsage, name)
		if isLimit(name + "%") {
			return fault.WithFix(err, "did you mean "+name+"%?")
		}
		if isLimit(name + ">+5%") { // a shell takes > and < for redirections
			return fault.WithFix(err, "in a shell, write quotes: --fail-on 'METRIC>+5%'")
		}
		return err
	}
	return nil
}

// End is how a command with these results ends. What was asked for comes first, then a
// tolerance that is not decided, and missing cells before a plain end: who accepts
// missing cells does not accept what is not decided. next says how to decide it.
func (f FailOn) End(r analysis.Results, next string) error {
	return f.endWith([]analysis.Results{r}, nil, next)
}

// endWith is End for several results, with more lines for conditions, by their names.
func (f FailOn) endWith(all []analysis.Results, more map[string][]string, next string) error {
	lines, open, err := f.judgeLimits(all)
	if err != nil {
		return err
	}
	missing, never := false, []string{} // what no further measurement decides
	for i, r := range all {
		missing = missing || len(r.Missing) > 0 || slices.ContainsFunc(r.Comparisons, func(c analysis.Comparison) bool {
			return c.Primary && c.Incomplete > 0
		})
		open = append(open, f.untested(r)...)
		if text := f.untestedTwin(r); text != "" && r.Twin != nil {
			open = append(open, text)
		} else if text != "" {
			never = append(never, text)
		}
		for _, c := range conditions {
			if c.found == nil || !slices.Contains(f, c.name) {
				continue
			}
			found := c.found(r)
			if i == 0 {
				found = append(found, more[c.name]...)
			}
			for _, line := range found {
				lines = append(lines, "--fail-on "+c.name+": "+line)
			}
		}
	}
	if text := f.neverTrue(all); text != "" {
		never = append(never, text)
	}
	if len(open) > 0 && next != "" {
		open = append(open, next)
	}
	open = append(open, never...)
	switch {
	case len(lines) > 0:
		return cli.Exit{Code: cli.ExitAsked, Text: strings.Join(append(lines, open...), "\n")}
	case len(open) > 0:
		return cli.Exit{Code: cli.ExitUndecided, Text: strings.Join(open, "\n")}
	case missing:
		return cli.Exit{Code: cli.ExitMissing}
	}
	return nil
}

// FailOnFlag gives a command the flag --fail-on.
func FailOnFlag(c *cobra.Command, value *[]string) {
	c.Flags().Var((*cli.Names)(value), "fail-on",
		"exit with 3 if one of these `conditions` is true: "+strings.Join(conditionNames(), ", ")+", or "+limitUsage+
			"; exit with 6 if a condition is not decided")
	cli.CompleteFlag(c, "fail-on", func([]string) []string { return conditionNames() })
}
