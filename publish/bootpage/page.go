// Package bootpage writes pages about boots: where the time of one goes, and how two
// differ. It writes the same as text for a terminal.
//
// A page is one file that loads nothing. It is complete without its script, which only
// searches and zooms. Recordings may come from strangers: text is made harmless where it
// is shown (package safetext), and escaped.
package bootpage

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/judge/profile"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/flame"
	"bakeoff/publish/chart/timeline"
	"bakeoff/publish/report"
)

var (
	// headHTML begins both pages.
	//go:embed head.html
	headHTML string
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	layoutCSS string
	// chartCSS is what a browser knows about the boxes of a flame chart, and package
	// picture does not draw.
	//go:embed chart.css
	chartCSS string
	//go:embed flame.js
	script string
)

func styleSheet() string { return report.Style() + chartCSS + layoutCSS }

// ScriptSource is what the policy of a server calls the script of the page.
func ScriptSource() string { return report.HashSource(script) }

// element inserts a style sheet or a script as it is: the policy of the page names its hash.
func element(name, text string) template.HTML {
	return template.HTML("<" + name + ">" + text + "</" + name + ">")
}

var functions = template.FuncMap{
	"style":  func() template.HTML { return element("style", styleSheet()) },
	"script": func() template.HTML { return element("script", script) },
}

var pageTemplate = template.Must(template.New("page").Funcs(functions).Parse(headHTML + pageHTML))

// Boot is what is shown of one boot.
type Boot struct {
	Name      string // that of the file, or which boot of a run it is
	Recording bootmodel.Recording
	Advice    []bootmodel.Advice
	Version   string // of the program that writes the page; "" leaves it out
}

// The bounds of a page. What they cut off is counted in it.
const (
	maxRows   = 400  // of the table of labels
	maxBranch = 24   // children of a line of the tree
	leastTree = 0.01 // share of the boot of a line of the tree
	openTree  = 0.2  // share above which a line is unfolded
)

type page struct {
	CSP, Version, Title, Lead, Read, Merged, Unit, Extent, Length, Whole, Least string
	Notes                                                                       []string
	Timeline                                                                    *figure
	Flame                                                                       template.HTML
	Advice                                                                      []tip
	Rows                                                                        []costRow
	Rest                                                                        *costRow
	Tree                                                                        []branch
	Clocks                                                                      [][]string
}

type figure struct {
	Title        string
	Wide, Narrow template.HTML
	Numbers      chart.Table
}

type tip struct{ Cost, Text, Knob, Argument string }

type costRow struct {
	Label, Self, Share, Total, Idle string
	Count                           int
	SelfRaw                         string
}

type branch struct {
	Label, Took string
	Open        bool
	Below       []branch
}

// Write writes the page of a boot.
func Write(w io.Writer, b Boot) error {
	f := flame.New(titleOf(b), &b.Recording, flame.Boxes)
	s := f.Scale()
	p := page{CSP: report.Policy(styleSheet(), script), Version: safetext.Line(b.Version), Title: titleOf(b),
		Lead: leadOf(b, f),
		Read: f.Doc().Read, Merged: f.Merged(), Unit: s.Unit(), Extent: wholeNumber(f.Extent()),
		Length: wholeNumber(f.Length()),
		Whole:  f.Whole(),
		Least:  fmt.Sprintf("%.0f %%", 100*leastTree), Notes: notesOf(b.Recording), Timeline: marksFigure(b, s),
		Flame: template.HTML(f.Draw("flame-chart", 1180)), Clocks: clockRows(b.Recording)}
	for _, a := range b.Advice {
		p.Advice = append(p.Advice, tip{s.Took(a.CostNS), cleanText(a.Text), cleanText(a.Knob), cleanText(a.Argument)})
	}
	p.addRows(f)
	tree, costs := f.Tree()
	p.Tree = branches(tree, costs, f)
	return fault.Wrap(fault.Lab, "boot page", pageTemplate.Execute(w, p))
}

// SVG writes the flame chart of a boot as a file of its own.
func SVG(w io.Writer, b Boot) error {
	f := flame.New(titleOf(b), &b.Recording, flame.Boxes)
	svg := f.Draw("flame-chart", 1180)
	const open = "<title "
	at := 0
	for at+len(open) < len(svg) && svg[at:at+len(open)] != open {
		at++
	}
	_, err := io.WriteString(w, svg[:at]+"<style>"+chart.Colors+chart.Style+chartCSS+"</style>"+svg[at:]+"\n")
	return fault.Wrap(fault.Lab, "boot chart", err)
}

// wholeNumber writes a time for the script.
func wholeNumber(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

func titleOf(b Boot) string { return "Boot: " + cleanText(b.Name) }

func cleanText(text string) string { return safetext.Clip(safetext.Line(text), 600) }

// leadOf says how long the boot took, and between which marks.
func leadOf(b Boot, f flame.Figure) string {
	r, s := b.Recording, f.Scale()
	text := fmt.Sprintf("%s and %s in %s.", unit.Count(len(r.Spans), "span"), unit.Count(len(r.Marks), "mark"),
		s.Took(f.Extent()))
	placed := []bootmodel.Mark{}
	for _, m := range r.Marks {
		if m.Clock == 0 || r.Clocks[m.Clock].Known() && r.Clocks[0].Known() {
			placed = append(placed, m)
		}
	}
	if len(placed) > 1 {
		first, last := placed[0], placed[len(placed)-1]
		took := r.NS(last.Clock, last.At) - r.NS(first.Clock, first.At)
		text = fmt.Sprintf("%s from “%s” to “%s”, with %d spans.", s.Took(took), cleanText(first.Name), cleanText(last.Name),
			len(r.Spans))
	}
	var most profile.Row
	for _, row := range f.Rows() {
		if row.Within > most.Within {
			most = row
		}
	}
	if most.Within == 0 {
		return text
	}
	return text + fmt.Sprintf(" The largest part: %s took %s itself (%s of the %s of the boot).", cleanText(most.Label),
		s.Took(most.Within), flame.Share(most.Within, f.Length()), s.Took(f.Length()))
}

// notesOf are those of the sources, what is lost first.
func notesOf(r bootmodel.Recording) (out []string) {
	for _, lost := range []bool{true, false} {
		for _, n := range r.Notes {
			if n.Lost == lost {
				out = append(out, cleanText(n.Source+": "+n.Text))
			}
		}
	}
	return out
}

// marksFigure draws the marks that have a place on the reference clock.
func marksFigure(b Boot, s flame.Scale) *figure {
	r := b.Recording
	f := timeline.Figure{Of: cleanText(b.Name), Unit: s.Unit(), Write: timeline.Seconds, Moment: timeline.Moment}
	factor := 1e-9
	if s.Unit() != "s" {
		f.Write, f.Moment, factor = s.Took, func(v float64) string { return s.Took(v) }, 1
	}
	for _, m := range r.Marks {
		if m.Clock != 0 && !(r.Clocks[m.Clock].Known() && r.Clocks[0].Known()) {
			continue
		}
		row := timeline.Row{Label: cleanText(m.Name), At: (r.NS(m.Clock, m.At) - s.Zero) * factor, How: cleanText(m.How)}
		if e := uncertainty(r, m); e != nil {
			row.Error = new(*e * factor)
		}
		f.Rows = append(f.Rows, row)
	}
	if len(f.Rows) == 0 {
		return nil
	}
	return &figure{Title: f.Title(), Wide: template.HTML(f.Draw("marks-wide", chart.Wide)),
		Narrow: template.HTML(f.Draw("marks-narrow", chart.Narrow)), Numbers: f.Table()}
}

// uncertainty is that of a mark with that of its clock; nil if one is unknown.
func uncertainty(r bootmodel.Recording, m bootmodel.Mark) *float64 {
	sum := 0.0
	if m.UncertaintyNS == nil {
		return nil
	}
	sum += *m.UncertaintyNS
	if m.Clock != 0 {
		of := r.Clocks[m.Clock].UncertaintyNS
		if of == nil {
			return nil
		}
		sum += *of
	}
	return &sum
}

func (p *page) addRows(f flame.Figure) {
	s, all, rows := f.Scale(), f.Length(), f.Rows()
	for _, r := range rows[:min(maxRows, len(rows))] {
		p.Rows = append(p.Rows, costRow{Label: cleanText(r.Label), Self: s.Took(r.Self), Share: flame.Share(r.Within, all),
			Total: s.Took(r.Total), Idle: f.Idle(r), Count: r.Count, SelfRaw: wholeNumber(r.Self)})
	}
	if len(rows) <= maxRows {
		return
	}
	rest := costRow{Label: fmt.Sprintf("%d further labels", len(rows)-maxRows)}
	for _, r := range rows[maxRows:] {
		rest.Count += r.Count
	}
	rest.Self = "up to " + s.Took(rows[maxRows].Self) + " each"
	p.Rest = &rest
}

// branches are the lines of the tree.
func branches(t *profile.Tree, costs []profile.Cost, f flame.Figure) []branch {
	first, next := t.Links()
	return branchesBelow(t, costs, f, first, next, first[0])
}

func branchesBelow(t *profile.Tree, costs []profile.Cost, f flame.Figure, first, next []int32,
	at int32) (out []branch) {
	s, all, left, sum := f.Scale(), f.Length(), 0, 0.0
	for ; at >= 0; at = next[at] {
		c := costs[at]
		if c.Total < leastTree*all || len(out) == maxBranch {
			left++
			sum += c.Total
			continue
		}
		label := cleanText(t.Nodes[at].Label())
		if c.Count > 1 {
			label += fmt.Sprintf(" ×%d", c.Count)
		}
		out = append(out, branch{Label: label, Took: s.Took(c.Total) + ", " + flame.Share(c.TotalWithin, all),
			Open: c.Total > openTree*all, Below: branchesBelow(t, costs, f, first, next, first[at+1])})
	}
	if left > 0 && len(out) > 0 {
		out = append(out, branch{Label: fmt.Sprintf("%d shorter", left), Took: s.Took(sum)})
	}
	return out
}

// clockRows are the rows of the table of clocks.
func clockRows(r bootmodel.Recording) (out [][]string) {
	for i, c := range r.Clocks {
		row := []string{cleanText(c.Name), cleanText(c.Source), "unknown", "unavailable", cleanText(c.Note)}
		if c.Known() {
			row[2] = unit.Format(c.Hz, "Hz")
		}
		if c.UncertaintyNS != nil {
			row[3] = "± " + unit.Format(*c.UncertaintyNS/1e9, "s")
		}
		if i == 0 {
			row[3] = "none: reference clock"
		}
		out = append(out, row)
	}
	return out
}
