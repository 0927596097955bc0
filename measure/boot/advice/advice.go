// Package advice says what a recording suggests to change: output on a slow console,
// calibration loops, fixed delays, self-tests, unpacking, and drivers of absent hardware.
//
// Advice follows from spans of the recording alone. It names the time that they took, which
// bounds what the change can save: work that goes on beside other work, or that another
// function then does, saves less. `bakeoff boot tune` measures it.
package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
)

// least is the share of the boot that spans must have taken to be worth advice.
const least = 0.005

// most is the share of the cost that an argument for the command line covers: many
// functions that took no time would make it long.
const most = 0.9

// rule is a kind of advice.
type rule struct {
	name string
	// is reports whether a span is evidence.
	is func(bootmodel.Recording, bootmodel.Span) bool
	// text says in a sentence what took the time; the cost follows.
	text string
	knob string
	// adapt, if not nil, changes the knob for a command line that has some of it.
	adapt func(commandLine) string
	// argument makes an argument for the kernel's command line of the spans that are
	// evidence; nil if there is none.
	argument func([]bootmodel.Span) string
}

// Find returns the advice that follows from r, the most expensive first; nil if there is
// none.
func Find(r bootmodel.Recording) (out []bootmodel.Advice) {
	length, _ := r.Length()
	words := parseCommandLine(r.Command)
	for _, rule := range rules {
		if a, ok := rule.adviceFrom(r, words); ok && a.CostNS > 0 && a.CostNS >= least*length {
			a.Text = fmt.Sprintf("%s It took %.1f %% of the boot.", a.Text, 100*a.CostNS/length)
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b bootmodel.Advice) int { return cmp.Compare(b.CostNS, a.CostNS) })
	return out
}

// maxSpans bounds the evidence that an advice lists.
const maxSpans = 50

// adviceFrom looks for evidence. A span below another that is evidence is part of it.
func (x rule) adviceFrom(r bootmodel.Recording, set commandLine) (a bootmodel.Advice, ok bool) {
	within := make([]bool, len(r.Spans))
	cost := map[int]float64{}
	for i, s := range r.Spans {
		if s.Parent >= 0 && within[s.Parent] {
			within[i] = true
			continue
		}
		if s.Charged || !x.is(r, s) {
			continue
		}
		within[i] = true
		from, to := r.Times(i)
		cost[i] = to - from
		a.CostNS += to - from
		a.Spans = append(a.Spans, i)
	}
	slices.SortStableFunc(a.Spans, func(i, j int) int { return cmp.Compare(cost[j], cost[i]) })
	n := len(a.Spans)
	if n == 0 {
		return a, false
	}
	a.Spans = a.Spans[:min(n, maxSpans)]
	var evidence []bootmodel.Span // what took most of the time
	sum := 0.0
	for _, i := range a.Spans {
		if len(evidence) > 0 && sum >= most*a.CostNS {
			break
		}
		evidence = append(evidence, r.Spans[i])
		sum += cost[i]
	}
	a.Name, a.Knob = x.name, x.knob
	a.Text = fmt.Sprintf("%s: %s.", x.text, expensiveNames(evidence, n))
	if x.adapt != nil {
		a.Knob = x.adapt(set)
	}
	if x.argument == nil {
		return a, a.Knob != ""
	}
	// bakeoff does not advise a setting that is already set.
	switch a.Argument = x.argument(evidence); {
	case a.Argument == "" || !set.hasArgument(a.Argument):
		return a, true
	case x.adapt != nil && a.Knob != "":
		a.Argument = ""
		return a, true
	}
	return a, false
}

// expensiveNames lists the most expensive spans.
func expensiveNames(spans []bootmodel.Span, n int) string {
	const shown = 3
	var list []string
	for _, s := range spans {
		if !slices.Contains(list, s.Label()) && len(list) < shown {
			list = append(list, s.Label())
		}
	}
	text := strings.Join(list, ", ")
	if n == 1 {
		return text
	}
	return fmt.Sprintf("%d spans, the longest of %s", n, text)
}
