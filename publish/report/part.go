package report

import (
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/lab/store"
	"bakeoff/publish/chart"
)

// Part is a piece of the report of a run that other pages can show. Its text is harmless
// to a terminal, and not escaped for HTML.
type Part struct {
	// Name is one of [a-z0-9-]+. It says what the part shows, such as
	// "difference-http-50-throughput", and stays the same when the run is analyzed again.
	Name  string
	Title string
	About string
	// Figure draws the part; nil for verdicts, and for a table alone.
	Figure chart.Figure
	Table  chart.Table // the numbers of the figure
	// Claims are verdicts in words; only verdicts have them. Their Table has a row for each.
	Claims []Claim
	Notice Notice // of the run
	// Href is the place of the part in the report, relative to the folder of the run.
	Href string
}

// Claim is one verdict.
type Claim struct {
	Mark chart.Mark
	Word string // better, worse, equivalent, inconclusive, "inconclusive (check failed)" or missing
	Text string // the whole sentence
}

// Parts returns the pieces of the report of a run: "verdicts" are all of them,
// "verdict-CELL-METRIC" those of one cell and metric, and each figure has a name of its
// own. "counters-CELL" is a table. Errors are those of Write.
func Parts(runDir string, opt Option) ([]Part, error) {
	run, err := store.Open(runDir)
	if err != nil {
		return nil, fault.Op("report", err)
	}
	defer run.Close()
	opt.Boots = nil
	b, pages, err := composeRun(run, opt)
	if err != nil {
		return nil, err
	}
	var all []Claim
	var out []Part
	for _, g := range b.page.Groups {
		p := Part{Name: b.freePartName("verdict", g.Cell, g.Metric), Title: g.Cell + ", " + g.Metric, About: g.Doc,
			Claims: claimsOf(g.Items), Table: b.verdictTable(g), Href: store.ReportFile + "#" + g.ID}
		out, all = append(out, p), append(all, p.Claims...)
	}
	all = append(all, claimsOf(b.page.Absent)...)
	first := Part{Name: "verdicts", Title: "Verdicts of " + b.page.Title, About: b.page.Lead, Claims: all,
		Table: b.verdictTable(b.page.Groups...), Href: store.ReportFile + "#verdicts"}
	out = append([]Part{first}, out...)
	for _, d := range b.drawn {
		out = append(out, Part{Name: d.name, Title: d.figure.Title(), About: d.about, Figure: d.figure,
			Table: d.figure.Table(), Href: pages.placeOfFigure(d.name)})
	}
	for _, c := range b.page.Costs {
		if w := c.Work; c.Name != "" {
			out = append(out, Part{Name: c.Name, Title: w.Caption, Table: chart.Table{Head: w.Head, Rows: w.Rows, Note: w.Note},
				Href: pages.pageOf(c.Name) + "#" + c.Name})
		}
	}
	for i := range out {
		out[i].Notice = b.page.Notice
	}
	return out, nil
}

// verdictTable has a row for each comparison of some groups: those of a sweep differ in a
// number.
func (b *builder) verdictTable(groups ...group) chart.Table {
	t := chart.Table{Head: b.verdictHead()}
	for _, g := range groups {
		t.Rows = append(t.Rows, b.verdictRows(g, func(s string) string { return s })...)
	}
	if len(groups) == 1 { // the title has its cell and its metric
		t.Head = t.Head[2:]
		for i := range t.Rows {
			t.Rows[i] = t.Rows[i][2:]
		}
	}
	return t
}

func claimsOf(items []sentence) (out []Claim) {
	return lists.Map(items, func(s sentence) Claim { return Claim{s.Mark, s.Word, s.String()} })
}

// drawing is a figure of a page with its name.
type drawing struct {
	name, about string
	figure      chart.Measured
}

// maxName bounds the name of a part, in bytes.
const maxName = 80

// freePartName makes a name of words that no other part has.
func (b *builder) freePartName(words ...string) string {
	name := Slug(strings.Join(words, "-"))
	if b.taken == nil {
		b.taken = map[string]bool{}
	}
	free := name
	for i := 2; b.taken[free]; i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	b.taken[free] = true
	return free
}

// Slug makes a name of [a-z0-9-]+ of any text.
func Slug(text string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
		default:
			gap = true
		}
		if b.Len() >= maxName {
			break
		}
	}
	if b.Len() == 0 {
		return "x"
	}
	return b.String()
}
