package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/judge/analysis"
)

// head is what, where and when.
func (b *builder) head() {
	r, p := &b.results, &b.page
	p.Title = r.Run
	if b.hasPlan && b.plan.Lab != "" {
		p.Title = b.plan.Lab
	}
	p.Beforehand = append(emulated(*r), r.Warnings...)
	others := 0
	for _, c := range r.Contenders {
		if c.Name != r.Baseline && !b.isTwin(c.Name) {
			others++
		}
	}
	p.Lead = fmt.Sprintf("%s against %s at %s, in %s.", plural(others, "contender"), r.Baseline,
		plural(len(r.Cells), "cell"), plural(r.Blocks, "block"))
	p.Head = append(p.Head, pair{"Machine", b.machine()}, pair{"Measured", b.when()}, pair{"Ended", ending(*r)})
	p.Head = append(p.Head, pair{"Equivalent", b.promise()})
	if b.hasPlan && b.plan.Profile != "" {
		p.Head = append(p.Head, pair{"Profile", b.plan.Profile})
	}
	p.Head = append(p.Head, pair{"Run", b.base})
}

// promise is what verdicts mean in numbers: how close equivalent is, and how
// often a run may call any difference that is none (package analysis proves it).
func (b *builder) promise() string {
	s := "within ±" + significant(100*b.results.Margin, 3) + " %"
	total := 0.0
	for _, a := range b.results.Alphas {
		total += a
	}
	if !(total > 0) {
		return s
	}
	return s + "; the chance of any false better or worse is " + significant(100*total, 3) + " % at most"
}

// emulated names the virtual machines whose processor was a program: nothing
// else on the page is so easily taken for the technology.
func emulated(r analysis.Results) []string {
	var names []string
	for _, c := range r.Contenders {
		// driver.FactAccelerator and driver.Emulated: the page needs no driver.
		if c.Facts["accelerator"] == "tcg" && c.TwinOf == "" {
			names = append(names, c.Name)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{names[0] + " was emulated: a program took the place of its processor, which makes most of what it does many times slower. Its figures say nothing about the same machine with hardware virtualisation."}
	}
	return []string{strings.Join(names, ", ") + " were emulated: a program took the place of their processors, which makes most of what they do many times slower. Their figures say nothing about the same machines with hardware virtualisation."}
}

// machine says what the baseline ran on.
func (b *builder) machine() string {
	facts := b.prints[b.results.Baseline].Facts
	var out []string
	if m := facts["cpu.model"]; m != "" {
		out = append(out, m)
	}
	if k := facts["kernel"]; k != "" {
		out = append(out, k)
	}
	if o := facts["os"]; o != "" {
		out = append(out, o)
	}
	if len(out) == 0 {
		return "unavailable: there is no fingerprint of " + b.results.Baseline
	}
	return strings.Join(out, ", ")
}

// when says from when to when trials ran.
func (b *builder) when() string {
	var first, last time.Time
	for _, l := range b.lines {
		if l.At.IsZero() {
			continue
		}
		if first.IsZero() || l.At.Before(first) {
			first = l.At
		}
		if l.At.After(last) {
			last = l.At
		}
	}
	if first.IsZero() {
		return "unavailable: there is no journal"
	}
	first, last = first.UTC(), last.UTC()
	from, layout := "2 January 2006, 15:04", "15:04 UTC"
	if last.Sub(first) < 3*time.Minute {
		from, layout = "2 January 2006, 15:04:05", "15:04:05 UTC"
	}
	if first.YearDay() != last.YearDay() || first.Year() != last.Year() {
		layout = "2 January 2006 15:04 UTC"
	}
	return fmt.Sprintf("%s to %s (%s)", first.Format(from), last.Format(layout), span(last.Sub(first)))
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// ending is why a run ended, and that nothing could be decided by then.
func ending(r analysis.Results) string {
	text := analysis.EndedText(r.Ended)
	switch {
	case len(r.Looks) == 0 && slices.ContainsFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Primary }):
		text += "; it had no look, so nothing can be decided: that takes a design with more blocks"
	case len(r.Looks) > 0 && r.Blocks < r.Looks[0]:
		text += fmt.Sprintf("; before the first look, which is after %s, nothing is decided", plural(r.Looks[0], "block"))
	}
	return text
}
