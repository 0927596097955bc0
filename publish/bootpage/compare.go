package bootpage

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/judge/profile"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/change"
	"bakeoff/publish/chart/flame"
	"bakeoff/publish/report"
)

//go:embed compare.html
var compareHTML string

var compareTemplate = template.Must(template.New("compare").Funcs(functions).Parse(headHTML + compareHTML))

// Sides is a comparison with the names of its sides.
type Sides struct {
	A, B       string
	Comparison profile.Comparison
	Cautions   []string // what a reader must know about the run of the boots
	Version    string   // of the program that writes the page; "" leaves it out
}

// The bounds of a comparison that is shown.
const (
	drawn  = 20  // rows of the figure
	listed = 500 // rows of the table
)

type comparePage struct {
	CSP, Version, Title, Lead, Read, A, B, More string
	Notes                                       []string
	Figure                                      *figure
	Rows                                        []changeRow
}

type changeRow struct{ Path, A, B, Diff, Spans string }

// WriteCompare writes the page of a comparison.
func WriteCompare(w io.Writer, s Sides) error {
	p := comparePage{CSP: report.Policy(styleSheet(), ""), Version: safetext.Line(s.Version), Title: s.pageTitle(),
		Lead: s.leadText(),
		A:    cleanText(s.A), B: cleanText(s.B), Notes: s.notesOf()}
	c := s.Comparison
	if len(c.Rows) > 0 {
		f := s.figureOf(drawn)
		p.Read = f.Doc().Read
		p.Figure = &figure{Title: f.Title(), Wide: template.HTML(f.Draw("changes-wide", chart.Wide)),
			Narrow: template.HTML(f.Draw("changes-narrow", chart.Narrow))}
	}
	for _, r := range c.Rows[:min(listed, len(c.Rows))] {
		p.Rows = append(p.Rows, s.rowOf(r))
	}
	p.More = s.restText(listed)
	return fault.Wrap(fault.Lab, "comparison of boots", compareTemplate.Execute(w, p))
}

func (s Sides) pageTitle() string {
	return "Boots compared: " + cleanText(s.A) + " and " + cleanText(s.B)
}

func (s Sides) scaleOf() flame.Scale {
	return flame.Scale{Ticks: s.Comparison.Tree.Ticks, Instructions: s.Comparison.Tree.Instructions}
}

// changeText writes a difference with its interval.
func (s Sides) changeText(c profile.Change) string { return s.figureOf(0).Value(s.drawable(c)) }

// leadText says how the whole differs, and which span most.
func (s Sides) leadText() string {
	c := s.Comparison
	text := fmt.Sprintf(
		"%s: %s. %s: %s. Difference: %s.",
		cleanText(s.A),
		s.scaleOf().Took(c.Length.A),
		cleanText(s.B),
		s.scaleOf().Took(c.Length.B),
		s.changeText(c.Length),
	)
	if c.Interval.Differs {
		text = fmt.Sprintf("%s: %s. %s: %s. They are not the same part of a boot.", cleanText(s.A),
			s.scaleOf().Took(c.Length.A), cleanText(s.B), s.scaleOf().Took(c.Length.B))
	}
	if len(c.Rows) > 0 {
		r := c.Rows[0]
		text += fmt.Sprintf(
			" The largest difference is in %s: %s.",
			cleanText(c.Tree.Nodes[r.Node].Label()),
			s.changeText(r),
		)
	}
	return text
}

// notesOf say what a reader must know about the run, which part of the boots is compared,
// and what the order of measurement permits.
func (s Sides) notesOf() []string {
	notes := lists.Map(s.Cautions, cleanText)
	switch v := s.Comparison.Interval; {
	case v.Differs:
		notes = append(notes, "The boots begin or end at different kinds of moments, and fewer than two kinds are in all "+
			"of them. Their lengths cannot be compared. Record them with the same sources.")
	case v.From != "":
		notes = append(notes, fmt.Sprintf("The boots begin or end at different kinds of moments. They are compared from "+
			"%q to %q, which all of them have.", v.From, v.To))
	}
	return append(notes, s.orderNote())
}

// orderNote says what the order of measurement permits.
func (s Sides) orderNote() string {
	c := s.Comparison
	boots := fmt.Sprintf("%d and %d boots.", c.Boots[0], c.Boots[1])
	switch {
	case c.Deterministic:
		return boots + " On each side, every span took exactly the same time in all boots, so the differences are exact."
	case c.Order == profile.Paired:
		return fmt.Sprintf("%s The sides took turns, so bakeoff compares boot i of one side with boot i of the other. A "+
			"difference is estimated from these pairs: it is not the difference of the two medians, and may even have the "+
			"other sign. Each interval has a confidence of %.0f %%, not adjusted for the number of spans.", boots,
			100*profile.Level)
	}
	return fmt.Sprintf("%s Nothing shows that the sides took turns. The differences therefore include whatever else "+
		"changed between the two sides, so there is no verdict. Each interval has a confidence of %.0f %%, not adjusted "+
		"for the number of spans.", boots, 100*profile.Level)
}

// drawable is a row of the figure. Its times are in seconds, or in ticks.
func (s Sides) drawable(c profile.Change) change.Row {
	r := change.Row{Label: "all", Diff: s.scaleOf().Value(c.Diff), Lo: s.scaleOf().Value(c.Lo),
		Hi:    s.scaleOf().Value(c.Hi),
		Exact: c.Exact, Agree: c.Agree, Mark: chart.Open}
	if c.Node >= 0 {
		r.Label = cleanText(s.Comparison.Tree.Nodes[c.Node].Label())
	}
	switch {
	case c.Clear() && c.Diff > 0:
		r.Mark = chart.Worse
	case c.Clear():
		r.Mark = chart.Better
	}
	return r
}

func (s Sides) figureOf(rows int) change.Figure {
	scale := s.scaleOf()
	f := change.Figure{
		Of:   cleanText(s.A) + " and " + cleanText(s.B),
		Unit: scale.Unit(),
		Write: func(v float64) string {
			return scale.Took(v / scale.Value(1))
		},
	}
	for _, r := range s.Comparison.Rows[:min(rows, len(s.Comparison.Rows))] {
		f.Rows = append(f.Rows, s.drawable(r))
	}
	return f
}

func (s Sides) rowOf(r profile.Change) changeRow {
	path := strings.Join(s.Comparison.Tree.Path(r.Node), " › ")
	return changeRow{Path: safetext.Clip(safetext.Line(path), 1000), A: s.sideText(r, 0), B: s.sideText(r, 1),
		Diff:  s.changeText(r),
		Spans: fmt.Sprintf("%g, %g", r.Spans[0], r.Spans[1])}
}

// sideText is the time of a path on one side.
func (s Sides) sideText(r profile.Change, side int) string {
	if r.Only >= 0 && r.Only != side {
		return "–"
	}
	return s.scaleOf().Took([]float64{r.A, r.B}[side])
}

// restText counts what is not listed.
func (s Sides) restText(listed int) string {
	c := s.Comparison
	text := fmt.Sprintf("%d paths took the same time on both sides.", c.Same)
	if n := len(c.Rows) - listed; n > 0 {
		text = fmt.Sprintf("%d smaller differences are not listed. ", n) + text
	}
	return text
}

// CompareText writes a comparison for a terminal.
func CompareText(w io.Writer, s Sides, width int) error {
	const rows = 20
	c := s.Comparison
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n", s.pageTitle(), s.leadText())
	for _, n := range s.notesOf() {
		fmt.Fprintf(&out, "%s\n", n)
	}
	fmt.Fprintln(&out)
	for _, r := range c.Rows[:min(rows, len(c.Rows))] {
		x := s.rowOf(r)
		fmt.Fprintf(&out, "  %s %s\n", s.drawable(r).Mark.Sign(), x.Diff)
		fmt.Fprintf(&out, "      %s\n", safetext.Clip(x.Path, max(width-6, 40)))
		fmt.Fprintf(&out, "      %s, then %s\n", x.A, x.B)
	}
	fmt.Fprintln(&out, s.restText(rows))
	_, err := io.WriteString(w, out.String())
	return fault.Wrap(fault.Lab, "boot compare", err)
}

// CompareSchema is that of the JSON of a comparison.
const CompareSchema = "bakeoff/boot-comparison/v1"

type changeJSON struct {
	Path  []string `json:"path,omitempty"`
	A     float64  `json:"a"`
	B     float64  `json:"b"`
	Diff  float64  `json:"difference"`
	Lo    *float64 `json:"low"`
	Hi    *float64 `json:"high"`
	Exact bool     `json:"exact"`
	// Agree: there is no interval, because all boots gave the same difference.
	Agree bool       `json:"agree,omitempty"`
	Spans [2]float64 `json:"spans"`
}

// CompareJSON writes a comparison for programs. Times are nanoseconds, instructions or ticks;
// an interval that is unknown is null.
func CompareJSON(w io.Writer, s Sides) error {
	c := s.Comparison
	unit := "ns"
	if c.Tree.Ticks || c.Tree.Instructions {
		unit = s.scaleOf().Unit()
	}
	one := func(r profile.Change) changeJSON {
		x := changeJSON{A: r.A, B: r.B, Diff: r.Diff, Lo: sample.Finite(r.Lo), Hi: sample.Finite(r.Hi), Exact: r.Exact,
			Agree: r.Agree,
			Spans: r.Spans}
		if r.Node >= 0 {
			x.Path = c.Tree.Path(r.Node)
		}
		return x
	}
	doc := struct {
		Schema        string        `json:"schema"`
		A             string        `json:"a"`
		B             string        `json:"b"`
		Boots         [2]int        `json:"boots"`
		Order         profile.Order `json:"order"`
		Deterministic bool          `json:"deterministic"`
		Level         float64       `json:"level"`
		Unit          string        `json:"unit"`
		// From and To are the marks between which boots of different kinds are compared.
		From string `json:"from,omitempty"`
		To   string `json:"to,omitempty"`
		// Incomparable tells that the lengths are not of the same part of a boot.
		Incomparable bool         `json:"incomparable,omitempty"`
		Cautions     []string     `json:"cautions,omitempty"`
		Length       changeJSON   `json:"length"`
		Same         int          `json:"same"`
		Spans        []changeJSON `json:"spans"`
	}{CompareSchema, s.A, s.B, c.Boots, c.Order, c.Deterministic, profile.Level, unit,
		c.Interval.From, c.Interval.To, c.Interval.Differs, s.Cautions, one(c.Length), c.Same,
		[]changeJSON{}}
	for _, r := range c.Rows {
		doc.Spans = append(doc.Spans, one(r))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return fault.Wrap(fault.Lab, "boot compare", e.Encode(doc))
}
