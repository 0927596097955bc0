package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
)

// Notice is what a reader must know about a run before its numbers. Everything that shows
// numbers or verdicts of a run carries it: pages, files of figures, parts in posts, badges,
// exports and indexes. A text is one or more sentences, harmless to a terminal, and not
// escaped for HTML.
type Notice struct {
	Alarms   []string `json:"alarms"`   // why not to trust the verdicts; empty if nothing is known
	Warnings []string `json:"warnings"` // what changes what the numbers mean, and what is missing
	Twin     string   `json:"twin"`     // what the control found
	Scope    string   `json:"scope"`    // for what the verdicts hold; "" without comparisons
}

// Beginnings of alarms.
const (
	distrust     = "Do not trust this run: its twin differs from its baseline."
	notAsPlanned = "Not as planned."
)

// maxNotice bounds the things that a sentence of a notice lists.
const maxNotice = 5

// NoticeOf returns the notice of results. unplanned is how the run differs from what it
// registered (evidence.Outline).
func NoticeOf(r analysis.Results, unplanned []string) Notice {
	return answered(contentsOf(r, unplanned, "")).page.Notice
}

// Cautions are the alarms and the warnings.
func (n Notice) Cautions() []string { return slices.Concat(n.Alarms, n.Warnings) }

// Lines are all sentences of a notice.
func (n Notice) Lines() []string {
	return slices.DeleteFunc(append(n.Cautions(), n.Twin, n.Scope), func(s string) bool { return s == "" })
}

// judgeRun judges a run: its head, its verdicts and what a reader must know about them.
func (b *builder) judgeRun() {
	b.writeHead()
	b.listTwinDifferences()
	b.checked()
	b.verdicts()
	b.tolerances()
	b.control()
	p := &b.page
	p.Findable = b.findable()
	n := Notice{Alarms: []string{}, Warnings: []string{}, Twin: p.TwinNote, Scope: p.ScopeNote}
	if len(p.Alarm) > 0 {
		n.Alarms = append(n.Alarms, distrust+" "+andMore(p.Alarm, 1, " "))
	}
	if len(b.unplanned) > 0 {
		n.Alarms = append(n.Alarms, notAsPlanned+" "+closeSentence(andMore(b.unplanned, 1, "; ")))
	}
	if newer := b.results.Newer(); newer != "" {
		n.Warnings = append(n.Warnings, newer)
	}
	for _, w := range slices.Concat(emulated(b.results), b.results.Warnings) {
		n.Warnings = append(n.Warnings, closeSentence(w))
	}
	b.general = len(n.Warnings)
	n.Warnings = append(n.Warnings, b.withheld()...)
	n.Warnings = append(n.Warnings, b.lacking()...)
	switch b.results.Ended {
	case "", analysis.EndedInterrupted, analysis.EndedVoid:
		n.Warnings = append(n.Warnings, "Unfinished: "+closeSentence(analysis.EndedText(b.results.Ended)))
	}
	p.Notice = n
}

// andMore joins the first of some texts, and counts the others.
func andMore(texts []string, most int, by string) string {
	out := strings.Join(texts[:min(most, len(texts))], by)
	if n := len(texts) - most; n > 0 {
		out += fmt.Sprintf(" (and %d more)", n)
	}
	return out
}

// closeSentence ends a sentence.
func closeSentence(s string) string { return strings.TrimSuffix(s, ".") + "." }

// withheld says how many verdicts a failed check withheld.
func (b *builder) withheld() []string {
	var names []string
	failed, all := 0, 0
	for _, c := range b.results.Comparisons {
		if !c.Primary {
			continue
		}
		if all++; len(c.Gates) > 0 {
			failed++
		}
		for _, g := range c.Gates {
			names = lists.AddNew(names, g.Name)
		}
	}
	if failed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Failed checks withhold %d of %s: %s.", failed, unit.Count(all, "verdict"),
		andMore(names, maxNotice, ", "))}
}

// lacking says what has no result, and which trials failed.
func (b *builder) lacking() (out []string) {
	var gone, failed []string
	for _, m := range b.results.Missing {
		gone = append(gone, m.Contender+" at "+m.Cell)
	}
	if len(gone) > 0 {
		out = append(out, "No result: "+andMore(gone, maxNotice, ", ")+".")
	}
	seen := map[[2]string]bool{}
	for _, s := range b.results.Summaries {
		if k := [2]string{s.Contender, s.Cell}; s.Failures > 0 && s.N > 0 && !seen[k] {
			seen[k] = true
			failed = append(failed, fmt.Sprintf("%d of %s of %s at %s", s.Failures, unit.Count(s.N+s.Failures, "trial"),
				s.Contender, s.Cell))
		}
	}
	if len(failed) > 0 {
		out = append(out, "Failed: "+andMore(failed, maxNotice, ", ")+".")
	}
	return out
}

// control says what the twin found, and whether that is good.
func (b *builder) control() {
	p, t := &b.page, b.results.Twin
	if t == nil {
		p.TwinNote = "No twin: nothing shows that the run finds no difference between equal contenders."
		return
	}
	p.TwinName = t.Name
	few := false
	for _, c := range t.Comparisons {
		if c.Primary {
			few = few || len(c.Gates) == 0 && c.Look > 0
			p.TwinSays = append(p.TwinSays, b.sentence(c))
		}
	}
	p.TwinNote = fmt.Sprintf("The twin (%s under a second name): ", cmp.Or(t.Of(), b.results.Baseline))
	if len(p.TwinSays) == 0 {
		p.TwinNote += "no verdict, because no comparison is primary."
		return
	}
	if !t.Different && t.Tested() {
		p.TwinNote += fmt.Sprintf("no difference found, as it should be (%s).", tallied(p.TwinSays))
		return
	}
	p.TwinNote += tallied(p.TwinSays) + ". "
	switch {
	case t.Different:
		p.TwinNote += "It differs from the baseline, which it must not."
	case few:
		p.TwinNote += fmt.Sprintf("It was not tested: %s cannot show a difference.", unit.Count(b.results.Blocks, "block"))
	default:
		p.TwinNote += "It was not tested: a check failed, or no look was reached."
	}
}
