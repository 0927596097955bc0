package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/fleet"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/percent"
	"bakeoff/publish/difference"
)

//go:embed fleet.html
var fleetHTML string

var fleetTemplate = template.Must(template.Must(pageTemplate.Clone()).New("fleet").Parse(fleetHTML))

type fleetPage struct {
	Index                            string
	CSP, Version, Title, Lead, Alpha string
	Labs                             []fleetLab
	Unread                           []struct{ Folder, Reason string }
	Method                           []pair
}

type fleetLab struct {
	ID, Name, About string
	Notes           []string
	Comparisons     []fleetComparison
	Hidden          int
	Machines        []fleetMachine
}

type fleetComparison struct {
	Mark   chart.Mark
	Claim  string
	About  string
	Figure figure
}

type fleetMachine struct{ Name, Href, Run, Facts string }

// fleetMethod says how verdicts over machines are made.
const fleetMethod = "Machines are replicates: each gives one number for a comparison, the level of its runs. The " +
	"estimate is the mean of these numbers, and its interval is Student's, with one degree of freedom less than there " +
	"are machines. Machines count equally. A verdict needs five machines, and the contender must not have failed on any " +
	"machine. The prediction says where the number of one more such machine would lie."

// Fleet renders the page of a judgment over machines: one file without script.
func Fleet(r fleet.Result, opt RunsOption) ([]byte, error) {
	folders := lists.Map(r.Labs, func(l fleet.Lab) []string {
		return lists.Map(l.Machines, func(m fleet.Machine) string { return m.Newest.Folder })
	})
	r = harmless(r)
	p := fleetPage{CSP: pagePolicy(), Version: safetext.Line(opt.Version), Title: fleetTitle(r), Lead: fleetLead(r),
		Index: opt.Index,
		Alpha: fmt.Sprintf("%.3g %%", 100*r.Alpha)}
	b := &builder{contents: &contents{}}
	for i, l := range r.Labs {
		out := fleetLab{ID: fmt.Sprintf("lab-%d", i+1), Name: l.Lab, About: fleetAbout(l), Notes: fleetNotes(l)}
		for k, m := range l.Machines {
			x := fleetMachine{Name: m.Name, Run: m.Newest.Run, Facts: machineText(m.Facts)}
			if opt.Link != nil {
				x.Href = opt.Link(folders[i][k])
			}
			out.Machines = append(out.Machines, x)
		}
		shown := fleetShown(l, opt.All)
		out.Hidden = len(l.Comparisons) - len(shown)
		for _, c := range shown {
			mark, word := fleetMark(c)
			out.Comparisons = append(out.Comparisons, fleetComparison{Mark: mark, Claim: fleetName(c) + ": " + word,
				About: fleetEvidence(l, c), Figure: b.drawFigure(fleetFigure(l, c), "", "fleet", c.Contender, c.Cell, c.Metric)})
		}
		p.Labs = append(p.Labs, out)
	}
	for _, x := range r.Unread {
		p.Unread = append(p.Unread, struct{ Folder, Reason string }{x.Folder, x.Reason})
	}
	doc := percent.Figure{}.Doc()
	p.Method = []pair{{doc.Title, doc.Read}, {"Method", fleetMethod}}
	var out bytes.Buffer
	if err := fleetTemplate.Execute(&out, p); err != nil {
		return nil, fault.Wrap(fault.Lab, "report: fleet", err)
	}
	return out.Bytes(), nil
}

// FleetText writes a judgment over machines for a terminal.
func FleetText(w io.Writer, r fleet.Result, all bool, to Terminal) error {
	r = harmless(r)
	t := newTextWriter(nil, to)
	t.paintText("1", t.toTerminal(fleetTitle(r)))
	t.out.WriteString("\n")
	t.wrapped("", fleetLead(r))
	for _, l := range r.Labs {
		t.out.WriteString("\n")
		t.paintText("1", t.toTerminal(l.Lab))
		t.out.WriteString("\n")
		t.wrapped("", fleetAbout(l))
		for _, note := range fleetNotes(l) {
			t.wrapped("", note)
		}
		shown := fleetShown(l, all)
		for _, c := range shown {
			t.fleetComparison(l, c)
		}
		if hidden := len(l.Comparisons) - len(shown); hidden > 0 {
			t.out.WriteString("\n")
			t.wrapped("", unit.Count(hidden, "other comparison")+" not shown; --all shows all.")
		}
	}
	for _, x := range r.Unread {
		t.wrapped("", "Not read: "+x.Folder+": "+x.Reason)
	}
	_, err := io.WriteString(w, t.out.String())
	return err
}

func (t *textWriter) fleetComparison(l fleet.Lab, c fleet.Comparison) {
	mark, word := fleetMark(c)
	t.out.WriteString("\n")
	t.paintText("1", t.toTerminal(fleetName(c)))
	t.out.WriteString(", " + string(c.Better) + " is better\n")
	t.wrapped("  ", mark.Sign()+" "+word+": "+fleetEvidence(l, c))
	f := fleetFigure(l, c)
	var rows []percent.Row
	var texts []string
	words := difference.Speak(c.Metric, c.Unit, c.Better)
	for _, r := range f.Rows {
		if r.Value == nil { // the sentence says why
			continue
		}
		text := words.Change(c.Scale, c.Unit, r.Value, r.Lo, r.Hi)
		r.Label = keepEnds(r.Label, 21)
		if t.ASCII {
			r.Label, text = toASCII(r.Label), toASCII(text)
		}
		rows, texts = append(rows, r), append(texts, text)
	}
	if len(rows) > 0 && !f.Axis.Difference {
		t.drawRows(f.Axis, words, rows, texts)
	}
}

// fleetShown are the primary comparisons, or all if all are asked for or none is primary.
func fleetShown(l fleet.Lab, all bool) []fleet.Comparison {
	primary := lists.Filter(l.Comparisons, func(c fleet.Comparison) bool { return c.Primary })
	if all || len(primary) == 0 {
		return l.Comparisons
	}
	return primary
}

func fleetTitle(r fleet.Result) string {
	names := lists.Map(r.Labs, func(l fleet.Lab) string { return l.Lab })
	if len(names) == 1 {
		return names[0] + " over several machines"
	}
	return "Labs over several machines"
}

// fleetLead counts the verdicts.
func fleetLead(r fleet.Result) string {
	var parts []string
	machines := map[string]bool{} // several labs may have run on one machine
	for _, l := range r.Labs {
		for _, m := range l.Machines {
			machines[m.Name] = true
		}
	}
	for _, v := range []analysis.Verdict{analysis.Worse, analysis.Better, analysis.Equivalent, analysis.Inconclusive} {
		n := 0
		for _, l := range r.Labs {
			n += len(lists.Filter(l.Comparisons, func(c fleet.Comparison) bool { return c.Verdict == v }))
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no primary comparison"}
	}
	return unit.Count(len(machines), "machine") + ": " + strings.Join(parts, ", ") + "."
}

func fleetAbout(l fleet.Lab) string {
	runs := lists.Sum(l.Machines, func(m fleet.Machine) int { return m.Runs })
	return fmt.Sprintf("%s, %s. Scope: machines like these. Estimates are contender / %s. Primary comparisons: %d; "+
		"their intervals have a confidence of %.4g %%. Margin %.3g "+
		"%%.", unit.Count(len(l.Machines), "machine"), unit.Count(runs, "run"),
		l.Baseline, l.Judged, 100*l.Level, 100*l.Margin)
}

// fleetNotes are the notes of a lab; the first says how the machines differ.
func fleetNotes(l fleet.Lab) []string {
	if len(l.Differ) == 0 {
		return l.Notes
	}
	return slices.Concat([]string{"The machines are not alike: " + strings.Join(l.Differ, "; ") + "."}, l.Notes)
}

func fleetName(c fleet.Comparison) string { return c.Contender + ", " + c.Cell + " " + c.Metric }

// fleetMark is the mark and the word of a verdict.
func fleetMark(c fleet.Comparison) (chart.Mark, string) {
	mark, word := markAndWord(analysis.Comparison{Primary: c.Primary, Verdict: c.Verdict})
	return mark, word
}

// fleetEvidence says what a verdict stands on.
func fleetEvidence(l fleet.Lab, c fleet.Comparison) string {
	if c.Ratio == nil {
		return c.Reason + "."
	}
	n := difference.Of(c.Scale, c.Unit, c.Ratio, c.CI[0], c.CI[1])
	text := n.Text(*c.Ratio)
	if c.CI[0] != nil || c.CI[1] != nil {
		text += " (" + n.Between(c.CI[0], c.CI[1]) + ")"
	}
	text += analysis.Amount(c.BeyondMargin, l.Margin) + ", " + unit.Count(c.Counted, "machine")
	if c.Counted > 1 {
		text += fmt.Sprintf(", of which %d differ in this direction", c.Agree)
	}
	if c.Next[0] != nil && c.Next[1] != nil {
		p := difference.Of(c.Scale, c.Unit, c.Next[0], c.Next[1])
		text += ". One more such machine would be at " + p.Between(c.Next[0], c.Next[1]) + " (95 %)"
	}
	if c.Reason != "" {
		text += ". No verdict: " + c.Reason
	}
	for _, v := range c.Machines {
		if v.Ratio == nil {
			text += ". " + l.Machines[v.Machine].Name + " does not count: " + v.Reason
		}
	}
	if c.More != nil {
		text += fmt.Sprintf(". About %s would decide it", unit.Count(*c.More, "more machine"))
	}
	return text + "."
}

// fleetFigure draws the mean and each machine.
func fleetFigure(l fleet.Lab, c fleet.Comparison) percent.Figure {
	f := percent.Figure{Of: fleetName(c), Baseline: l.Baseline, MoreIsBetter: c.Better == sample.Higher}
	w := difference.Speak(c.Metric, c.Unit, c.Better)
	f.Less, f.More = w.Less, w.More
	mark, word := fleetMark(c)
	f.Rows = []percent.Row{{Label: "all machines", Value: usableOrNil(c.Ratio, c.Scale), Mark: mark, Note: word,
		Lo: usableOrNil(c.CI[0], c.Scale), Hi: usableOrNil(c.CI[1], c.Scale)}}
	for _, v := range c.Machines {
		r := percent.Row{Label: l.Machines[v.Machine].Name, Mark: chart.Plain,
			Value: usableOrNil(v.Ratio, c.Scale), Lo: usableOrNil(v.CI[0], c.Scale), Hi: usableOrNil(v.CI[1], c.Scale)}
		if v.Ratio == nil {
			r.Note = "does not count"
		}
		f.Rows = append(f.Rows, r)
	}
	f.Axis = percent.NewAxis(l.Margin, f.Rows...)
	if c.Scale == sample.Difference {
		f.Axis = percent.NewDifferenceAxis(c.Unit, f.Rows...)
	}
	return f
}
