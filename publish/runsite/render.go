package runsite

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"path"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

//go:embed page.html
var pageHTML string

//go:embed site.css
var siteCSS string

//go:embed filter.js
var filterJS string

var (
	styleSheet = report.Style() + siteCSS
	policy     = report.Policy(styleSheet, filterJS)
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	// Both are inserted as they are: the page's policy names their hashes.
	"style":  func() template.HTML { return template.HTML("<style>" + styleSheet + "</style>") },
	"script": func() template.HTML { return template.HTML("<script>" + filterJS + "</script>") },
	"plural": unit.Count, "capital": capital,
}).Parse(pageHTML))

// view is what the template shows.
type view struct {
	CSP, Version, Title, Lead string
	Home                      string // link to the index; "" on it
	Site                      Link   // to the site that the index is a part of
	Feed                      string
	Browse                    []browse
	Rows                      []row
	Filters                   bool
	From, To                  string // dates of the oldest and of the newest run
	Decisions                 []decisionRow
	Left                      string   // what is not on the page
	More                      []Link   // further pages of the index
	History                   string   // link to the history of a lab file; "" for none
	Links                     []Link   // to further pages, at the top
	Fetch                     string   // command that gets the run of the page
	Again                     []string // what second runs say of it
	Files                     []Link   // of a run
	Problems                  int
	Changes                   bool // Rows are change points
}

// browse is the values of one kind, as links.
type browse struct {
	Name, One, Many string
	Values          []value
}

type value struct {
	Text, Key, Href string
	Count           int
}

// row is one run. HTML is what a page says of it.
type row struct {
	Keys, Date string // Keys are those of its facets, for the filters
	HTML       template.HTML
}

// rowView is what a page says of a run.
type rowView struct {
	*Entry
	Date, Href string
	With       []string // the contenders, without the baseline
	Posts      []Link
}

// decisionRow is one verdict of a run.
type decisionRow struct {
	report.Decision
	Baseline, Date, Lab, Href string
	Alarm                     string // why not to trust it
}

// writeRow writes what a page says of a run; up leads from the page to the folder.
func (x *Index) writeRow(i int, up string) (template.HTML, error) {
	e := &x.entries[i]
	v := rowView{Entry: e, Date: dateText(e), Href: reportOf(up, e)}
	for _, c := range e.Contenders {
		if c.Name != e.Baseline {
			v.With = append(v.With, c.Name)
		}
	}
	for _, l := range x.look.Posts[e.Folder] {
		v.Posts = append(v.Posts, Link{l.Text, up + l.Href})
	}
	var out strings.Builder
	err := pageTemplate.ExecuteTemplate(&out, "row", v)
	return template.HTML(out.String()), err // the template escaped it
}

// dateText is when a run began; "" if it is not known.
func dateText(e *Entry) string {
	if e.Begun.IsZero() {
		return ""
	}
	return e.Begun.UTC().Format("2006-01-02 15:04")
}

// newView is a page of the index; up leads from it to the folder of the index.
func (x *Index) newView(title, up string) view {
	v := view{CSP: policy, Version: safetext.Line(x.look.Version), Title: title}
	if x.look.Site.Text != "" {
		v.Site = Link{x.look.Site.Text, up + x.look.Site.Href}
	}
	return v
}

// writeIndex writes page n of the index.
func (x *Index) writeIndex(b *bytes.Buffer, n int, runs []int) error {
	up := ""
	if n > 0 {
		up = "../"
	}
	v := x.newView(cmp.Or(x.look.Title, "Runs"), up)
	v.Filters, v.Lead = true, unit.Count(len(x.entries), "run")+", the newest first."
	if x.look.Feed != "" {
		v.Feed = up + x.look.Feed
	}
	if n > 0 {
		v.Home, v.Title = up+IndexFile, fmt.Sprintf("%s, page %d", v.Title, n+1)
	}
	for _, i := range runs {
		html, err := x.writeRow(i, up)
		if err != nil {
			return err
		}
		e := &x.entries[i]
		r := row{Keys: x.of[i], Date: dateText(e), HTML: html}
		if v.Rows = append(v.Rows, r); r.Date != "" {
			v.To = cmp.Or(v.To, r.Date[:10])
			v.From = r.Date[:10]
		}
		if e.Problem != "" {
			v.Problems++
		}
	}
	v.Browse = x.browseKinds(up)
	for i := 0; i*maxRows < len(x.entries) && len(x.entries) > maxRows; i++ {
		if i != n {
			v.More = append(v.More, Link{fmt.Sprintf("Page %d", i+1), up + indexFile(i)})
		}
	}
	return pageTemplate.Execute(b, v)
}

// browseKinds is the values of all kinds.
func (x *Index) browseKinds(up string) (out []browse) {
	for _, k := range kinds {
		k := browse{Name: k.name, One: k.one, Many: k.many}
		for _, f := range x.facets[k.Name] {
			k.Values = append(k.Values, value{f.Value, f.Key, up + f.File, f.Count()})
		}
		if len(k.Values) > 0 {
			out = append(out, k)
		}
	}
	return out
}

// browsePage writes the page of the folder of the other pages, which a web server would list.
func (x *Index) browsePage(b *bytes.Buffer) error {
	v := x.newView("Browse the runs", "../")
	v.Home, v.Browse = "../"+IndexFile, x.browseKinds("../")
	v.Lead = unit.Count(len(x.entries), "run") + "."
	return pageTemplate.Execute(b, v)
}

// files are those of a run that its page names. A site has no others.
var files = []Link{{"Results", store.ResultsFile}, {"Plan", store.PlanFile}, {"Journal", store.JournalFile},
	{"Lab file", store.LabFile}}

// RunPage writes the page of the folder of the only run.
func (x *Index) RunPage(b *bytes.Buffer) error { return x.runPage(b, 0) }

// runPage writes the page of the folder of a run, which a web server would list.
func (x *Index) runPage(b *bytes.Buffer, i int) error {
	const up = "../"
	e := &x.entries[i]
	v := x.newView(cmp.Or(e.Lab, e.Name)+", "+cmp.Or(dateText(e), e.Name), up)
	if v.Lead = e.Lead; !x.look.Alone {
		v.Home = up + IndexFile
	}
	html, err := x.writeRow(i, up)
	if err != nil {
		return err
	}
	v.Rows = []row{{HTML: html}}
	v.Files = []Link{{"Report", store.ReportFile}}
	for _, f := range files {
		if info, err := x.root.Lstat(e.Folder + "/" + f.Href); err == nil && info.Mode().IsRegular() {
			v.Files = append(v.Files, f)
		}
	}
	return pageTemplate.Execute(b, v)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// writeFacet writes the page of one workload, contender, machine, lab file, verdict or month.
func (x *Index) writeFacet(b *bytes.Buffer, k kind, f *facet) error {
	const up = "../"
	v := x.newView(f.Value, up)
	v.Home = up + IndexFile
	v.Lead = capital(k.one) + ": " + unit.Count(f.Count(), "run") + ", the newest first."
	if file := x.historyFile(k, f); file != "" {
		v.History = path.Base(file)
	}
	if k.name == "lab" && x.machines {
		v.Links = []Link{{"How the machines compare", path.Base(machinesFile(f))}}
	}
	shown := f.runs[:min(len(f.runs), maxRows)]
	for _, i := range shown {
		html, err := x.rows[i]()
		if err != nil {
			return err
		}
		v.Rows = append(v.Rows, row{HTML: html})
	}
	all := 0
	for _, i := range f.runs {
		e := &x.entries[i]
		for _, d := range e.Decisions {
			if k.name == "workload" && d.Workload != f.Value || k.name == "contender" && d.Contender != f.Value ||
				k.name != "workload" && k.name != "contender" {
				continue
			}
			if all++; all > maxDecisions {
				continue
			}
			r := decisionRow{Decision: d, Baseline: e.Baseline, Lab: e.Lab, Href: reportOf(up, e)}
			r.Date, _, _ = strings.Cut(dateText(e), " ")
			if len(e.Notice.Alarms) > 0 {
				r.Alarm = "(" + strings.SplitAfter(e.Notice.Alarms[0], ".")[0] + ")"
			}
			v.Decisions = append(v.Decisions, r)
		}
	}
	var left []string
	if n := len(f.runs) - len(shown); n > 0 {
		left = append(left, unit.Count(n, "older run"))
	}
	if all > maxDecisions {
		left = append(left, unit.Count(all-maxDecisions, "older verdict"))
	}
	if len(left) > 0 {
		v.Left = strings.Join(left, " and ") + " not listed here; the index has all runs."
	}
	return pageTemplate.Execute(b, v)
}
