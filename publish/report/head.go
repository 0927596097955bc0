package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/publish/difference"
)

// writeHead is what, where and when.
func (b *builder) writeHead() {
	r, p := &b.results, &b.page
	p.Title = r.Run
	if b.hasPlan && b.plan.Lab != "" {
		p.Title = b.plan.Lab
	}
	against := unit.Count(b.countOthers(), "contender") + " against "
	if b.countOthers() == 0 {
		against = "Only "
	}
	p.Lead = fmt.Sprintf("%s%s on %s, %s.", against, r.Baseline, unit.Count(len(r.Cells), "cell"),
		unit.Count(r.Blocks, "block"))
	p.Head = append(p.Head, pair{"Machine", b.machine()}, pair{"Measured", b.timeRange()}, pair{"Ended", endingText(*r)})
	p.Head = append(p.Head, pair{"Margin", b.promise()})
	if b.hasPlan && b.plan.Profile != "" {
		p.Head = append(p.Head, pair{"Profile", b.plan.Profile})
	}
	if text := r.ProtocolText(); text != "" {
		p.Head = append(p.Head, pair{"Protocol", text})
	}
	p.Head = append(p.Head, pair{"Run", b.base})
}

// errorRate is the error rate of the whole run, 0 where it is not known.
func (b *builder) errorRate() float64 {
	total := lists.Sum(b.results.Alphas, func(a float64) float64 { return max(a, 0) })
	return min(total, 1)
}

// intervalLevel is the coverage of the intervals that decide: "95 % ". Package analysis
// proves that each covers its true value with a probability of 1 − alpha at least.
func (b *builder) intervalLevel() string {
	if a := b.errorRate(); a > 0 && a < 1 {
		return difference.Level(a) + " "
	}
	return ""
}

// promise is what verdicts mean in numbers: how close equivalent is, and how
// often a run may call a difference that does not exist.
func (b *builder) promise() string {
	s := "±" + significant(100*b.results.Margin, 3) + " % is equivalent"
	if a := b.errorRate(); a > 0 {
		s += "; the chance of any false better or worse is at most " + significant(100*a, 3) + " %"
	}
	return s
}

// emulated names the virtual machines whose CPU was emulated in software: a
// reader could easily blame the technology.
func emulated(r analysis.Results) []string {
	var names []string
	for _, c := range r.Contenders {
		// driver.FactAccelerator and driver.Emulated: the page needs no driver.
		if c.Facts["accelerator"] == "tcg" && c.TwinOf == "" {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{strings.Join(names, ", ") + ": the CPU was emulated in software (TCG), which makes most work many " +
		"times slower. These numbers say nothing about the same machine with hardware virtualization."}
}

// machine says what the baseline ran on.
func (b *builder) machine() string {
	facts := b.prints[b.results.Baseline].Facts
	var out []string
	for _, name := range []string{"cpu.model", "kernel", "os"} {
		if v := facts[name]; v != "" {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return "unavailable: no fingerprint of " + b.results.Baseline
	}
	return strings.Join(out, ", ")
}

// spanOf returns the first and the last time of lines; zero if none has a time.
func spanOf(lines []store.Line) (first, last time.Time) {
	for _, l := range lines {
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
	return first, last
}

// timeRange says from when to when trials ran.
func (b *builder) timeRange() string {
	first, last := spanOf(b.lines)
	if first.IsZero() {
		return "unavailable: no journal"
	}
	first, last = first.UTC(), last.UTC()
	from, layout := "2 January 2006, 15:04", "15:04 UTC"
	if last.Sub(first) < 3*time.Minute {
		from, layout = "2 January 2006, 15:04:05", "15:04:05 UTC"
	}
	if first.YearDay() != last.YearDay() || first.Year() != last.Year() {
		layout = "2 January 2006 15:04 UTC"
	}
	return fmt.Sprintf("%s to %s (%s)", first.Format(from), last.Format(layout), spanText(last.Sub(first)))
}

func spanText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// endingText is why a run ended, and what follows from that.
func endingText(r analysis.Results) string {
	text := analysis.EndedText(r.Ended)
	decides := slices.ContainsFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Primary })
	switch {
	case slices.ContainsFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Primary && c.Exact != nil }):
		// exact metrics wait for no look
	case len(r.Looks) == 0 && decides:
		text += "; the design has too few blocks for a look, so nothing is decided"
	case len(r.Looks) > 0 && r.Blocks < r.Looks[0] && decides:
		text += fmt.Sprintf("; nothing is decided before the first look, after %s", unit.Count(r.Looks[0], "block"))
	}
	return text
}
