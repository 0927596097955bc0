package runsite

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path"
	"strings"

	"bakeoff/base/safetext"
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
	"plural": plural, "capital": capital,
}).Parse(pageHTML))

// view is what the template shows.
type view struct {
	CSP, Version, Title, Lead string
	Home                      string // link to the index; "" on it
	Browse                    []browse
	Rows                      []row
	Filters                   bool
	From, To                  string // dates of the oldest and of the newest run
	Decisions                 []decisionRow
	Left                      string // what is not on the page
	More                      []link // further pages of the index
	History                   string // link to the history of a lab file; "" for none
	Problems                  int
}

type link struct{ Text, Href string }

// browse is the values of one kind, as links.
type browse struct {
	Name, One, Many string
	Values          []value
}

type value struct {
	Text, Key, Href string
	Count           int
}

// row is one run.
type row struct {
	entry
	Keys, Date string // Keys are those of its facets, for the filters
	Href       string
	With       []string // the contenders, without the baseline
}

// decisionRow is one verdict of a run.
type decisionRow struct {
	report.Decision
	Baseline, Date, Lab, Href string
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// rows are what a page shows of runs; up leads from the page to the folder.
func (s *site) rows(runs []int, up string) (out []row) {
	for _, i := range runs {
		e := s.entries[i]
		r := row{entry: e, Keys: s.of[i], Href: reportOf(up, e)}
		if !e.Begun.IsZero() {
			r.Date = e.Begun.UTC().Format("2006-01-02 15:04")
		}
		for _, c := range e.Contenders {
			if c.Name != e.Baseline {
				r.With = append(r.With, c.Name)
			}
		}
		out = append(out, r)
	}
	return out
}

// index writes page n of the index.
func (s *site) index(b *bytes.Buffer, n int, runs []int) error {
	up := ""
	if n > 0 {
		up = "../"
	}
	v := view{CSP: policy, Version: safetext.Line(s.opt.Report.Version), Title: s.opt.Title, Filters: true}
	if v.Title == "" {
		v.Title = "Runs"
	}
	v.Lead = plural(len(s.entries), "run") + ", the newest first."
	if n > 0 {
		v.Home, v.Title = up+IndexFile, fmt.Sprintf("%s, page %d", v.Title, n+1)
	}
	v.Rows = s.rows(runs, up)
	for _, k := range kinds {
		k := browse{Name: k.name, One: k.one, Many: k.many}
		for _, f := range s.facets[k.Name] {
			k.Values = append(k.Values, value{f.Value, f.Key, up + f.File, f.Count()})
		}
		if len(k.Values) > 0 {
			v.Browse = append(v.Browse, k)
		}
	}
	for i := 0; i*maxRows < len(s.entries) && len(s.entries) > maxRows; i++ {
		if i != n {
			v.More = append(v.More, link{fmt.Sprintf("Page %d", i+1), up + indexFile(i)})
		}
	}
	for _, r := range v.Rows {
		if r.Date != "" {
			if v.To == "" {
				v.To = r.Date[:10]
			}
			v.From = r.Date[:10]
		}
		if r.Problem != "" {
			v.Problems++
		}
	}
	return pageTemplate.Execute(b, v)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// facet writes the page of one workload, contender, machine, lab file, verdict or month.
func (s *site) facet(b *bytes.Buffer, k kind, f *facet) error {
	const up = "../"
	v := view{CSP: policy, Version: safetext.Line(s.opt.Report.Version), Title: f.Value, Home: up + IndexFile}
	v.Lead = capital(k.one) + " of " + plural(f.Count(), "run") + ", the newest first."
	if file := s.historyFile(k, f); file != "" {
		v.History = path.Base(file)
	}
	shown := f.runs[:min(len(f.runs), maxRows)]
	v.Rows = s.rows(shown, up)
	all := 0
	for _, i := range f.runs {
		e := s.entries[i]
		for _, d := range e.Decisions {
			if k.name == "workload" && d.Workload != f.Value || k.name == "contender" && d.Contender != f.Value ||
				k.name != "workload" && k.name != "contender" {
				continue
			}
			if all++; all > maxDecisions {
				continue
			}
			r := decisionRow{Decision: d, Baseline: e.Baseline, Lab: e.Lab, Href: reportOf(up, e)}
			if !e.Begun.IsZero() {
				r.Date = e.Begun.UTC().Format("2006-01-02")
			}
			v.Decisions = append(v.Decisions, r)
		}
	}
	var left []string
	if n := len(f.runs) - len(shown); n > 0 {
		left = append(left, plural(n, "older run"))
	}
	if all > maxDecisions {
		left = append(left, plural(all-maxDecisions, "older verdict"))
	}
	if len(left) > 0 {
		v.Left = strings.Join(left, " and ") + " not listed here; the index has all runs."
	}
	return pageTemplate.Execute(b, v)
}
