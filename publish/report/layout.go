package report

import (
	"bytes"
	"path"

	"bakeoff/lab/store"
)

// pageLimit is the size in bytes above which a page is cut: each cell then has a page of
// its own, and index.html stays the entry.
const pageLimit = 500_000

// pages are the pages of a report, by name in the folder of the run.
type pages struct {
	main  []byte
	cells []cellPage
	// home is the page of each figure and table that is not on the main one.
	home map[string]string
}

// cellPage is the page of one cell.
type cellPage struct {
	Name string // of the file
	Cell string
	text []byte
}

// placeOfFigure is the place of a figure, relative to the folder of the run.
func (p *pages) placeOfFigure(name string) string { return p.pageOf(name) + "#figure-" + name }

// pageOf is the page that a figure or a table is on.
func (p *pages) pageOf(name string) string {
	if home, ok := p.home[name]; ok {
		return path.Join(path.Dir(store.ReportFile), home)
	}
	return store.ReportFile
}

// apart is what the template of a page for one cell shows.
type apart struct {
	CSP, Version, Title string
	Lead                string
	Cell                cell
	Costs               costs
	Strips              []figure
	Notice              Notice
}

// layOut writes the pages of a report: one, or several if it would be too large.
func layOut(b *builder, opt Option) (*pages, error) {
	p := &b.page
	var main bytes.Buffer
	if err := renderPage(&main, *p); err != nil {
		return nil, err
	}
	if main.Len() <= pageLimit || opt.Single || len(p.Cells) < 2 {
		return &pages{main: main.Bytes()}, nil
	}
	out := &pages{home: map[string]string{}}
	taken := map[string]bool{}
	for i := range p.Cells {
		k := &p.Cells[i]
		k.Page = freeName("cell-"+Slug(k.Name), taken) + ".html"
		a := apart{CSP: p.CSP, Version: p.Version, Title: k.Name + ", " + p.Title, Lead: p.Lead, Cell: *k,
			Notice: p.Notice}
		for _, c := range p.Costs {
			if c.Cell == k.Name {
				a.Costs = c
			}
		}
		for _, s := range p.Strips {
			if s.Cell == k.Name {
				a.Strips = append(a.Strips, s)
			}
		}
		for _, fs := range [][]figure{k.Figures, a.Costs.Figures, a.Strips} {
			for _, f := range fs {
				out.home[f.Name] = k.Page
			}
		}
		if a.Costs.Name != "" {
			out.home[a.Costs.Name] = k.Page
		}
		if k.Latency != nil {
			out.home[k.Latency.Name] = k.Page
		}
		var text bytes.Buffer
		if err := pageTemplate.ExecuteTemplate(&text, "apart", a); err != nil {
			return nil, err
		}
		out.cells = append(out.cells, cellPage{k.Page, k.Name, text.Bytes()})
	}
	p.Apart = true
	main.Reset()
	if err := renderPage(&main, *p); err != nil {
		return nil, err
	}
	out.main = main.Bytes()
	return out, nil
}

func freeName(name string, taken map[string]bool) string {
	b := builder{taken: taken}
	return b.freePartName(name)
}
