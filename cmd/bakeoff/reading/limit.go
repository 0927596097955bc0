package reading

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/publish/difference"
)

// limit is a condition of --fail-on that names a metric and a difference: boot>+0.1%.
type limit struct {
	text string
	// name is a metric, or a cell or workload, whose primary metrics are meant.
	name string
	// more tells that values above the baseline's are refused, by more than share.
	more  bool
	share float64
}

var limitForm = regexp.MustCompile(`^([a-zA-Z0-9._-]+)(>\+?|<[-−])([0-9]+(?:\.[0-9]+)?) ?%$`)

// limitUsage says how a limit is written.
const limitUsage = "METRIC>+N% or METRIC<-N%"

// parseLimit reads a limit; false if text is none.
func parseLimit(text string) (limit, bool) {
	m := limitForm.FindStringSubmatch(text)
	if m == nil {
		return limit{}, false
	}
	share, err := strconv.ParseFloat(m[3], 64)
	l := limit{text: text, name: m[1], more: strings.HasPrefix(m[2], ">"), share: share / 100}
	return l, err == nil && (l.more || l.share < 1)
}

// isLimit tells whether a condition is a limit.
func isLimit(text string) bool {
	_, ok := parseLimit(text)
	return ok
}

// concerns tells whether the limit is for a comparison.
func (l limit) concerns(c analysis.Comparison) bool {
	return c.Metric == l.name || c.Primary && (c.Cell == l.name || c.Workload == l.name)
}

// found lists the comparisons beyond the limit: those whose whole interval is. known is
// false if no comparison has the name of the limit.
func (l limit) found(r analysis.Results) (out []string, known bool) {
	for _, c := range r.Comparisons {
		if !l.concerns(c) {
			continue
		}
		known = true
		if text := l.exceeded(c); text != "" {
			out = append(out, comparisonName(c)+text)
		}
	}
	return out, known
}

// exceeded says by how much a comparison is beyond the limit; "" if it is not.
func (l limit) exceeded(c analysis.Comparison) string {
	if c.Scale == "difference" || len(c.Gates) > 0 {
		return ""
	}
	bound := c.CI[0]
	if !l.more {
		bound = c.CI[1]
	}
	if bound == nil || l.more && *bound <= 1+l.share || !l.more && *bound >= 1-l.share {
		return ""
	}
	text := " is " + difference.Of(c.Scale, c.Unit, bound).Text(*bound)
	if c.Exact != nil {
		return text + fmt.Sprintf(" (%s exactly)", difference.Amount(c.Exact.Difference, c.Unit))
	}
	return text + " or further from the baseline"
}

// limits lists the limits among conditions.
func (f FailOn) limits() (out []limit) {
	for _, text := range f {
		if l, ok := parseLimit(text); ok {
			out = append(out, l)
		}
	}
	return out
}

// beyond lists the lines of all limits. A limit whose name no comparison has is an error:
// it would let everything pass.
func (f FailOn) beyond(all []analysis.Results) (lines []string, err error) {
	for _, l := range f.limits() {
		known := false
		for _, r := range all {
			found, there := l.found(r)
			known = known || there || len(r.Missing) > 0
			for _, text := range found {
				lines = append(lines, "--fail-on "+l.text+": "+text)
			}
		}
		if !known {
			return nil, fault.New(fault.Invalid, "--fail-on %s: no comparison has the metric, cell or workload %q; there are %s",
				l.text, l.name, namesIn(all))
		}
	}
	return lines, nil
}

// namesIn lists what limits could name.
func namesIn(all []analysis.Results) string {
	var names []string
	for _, r := range all {
		for _, c := range r.Comparisons {
			names = append(names, c.Cell, c.Metric)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "no comparisons"
	}
	return strings.Join(names[:min(len(names), 20)], ", ")
}
