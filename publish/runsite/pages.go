package runsite

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// PagesDir is the folder of the other pages of the index, in that of the runs.
const PagesDir = "index"

// kinds are the ways to browse runs, in the order in which the index shows them.
var kinds = []kind{
	{"lab", "lab file", "lab files", func(e *Entry) []string { return []string{e.Lab} }},
	{"workload", "workload", "workloads", func(e *Entry) []string { return e.Workloads }},
	{"contender", "contender", "contenders", func(e *Entry) (out []string) {
		for _, c := range e.Contenders {
			out = append(out, c.Name)
		}
		return out
	}},
	{"machine", "machine", "machines", func(e *Entry) []string { return []string{e.Machine} }},
	{"verdict", "verdict", "verdicts", func(e *Entry) (out []string) {
		for _, t := range e.Tally {
			out = append(out, t.Word)
		}
		return out
	}},
	{"month", "month", "months", func(e *Entry) []string {
		if e.Begun.IsZero() {
			return nil
		}
		return []string{e.Begun.UTC().Format("2006-01")}
	}},
}

// kind is one way to browse runs: a page for each of its values.
type kind struct {
	name, one, many string
	of              func(*Entry) []string
}

// facet is the runs with one value of a kind. The page of a workload, for instance.
type facet struct {
	Kind, Value string
	Key         string // short: in the page, for the filters
	Slug        string
	File        string // relative to the folder of the index
	runs        []int  // of the site's entries
	more        int    // further runs, which are not entries
}

// Count is the number of its runs.
func (f *facet) Count() int { return len(f.runs) + f.more }

// maxFacets bounds the values of one kind: a stranger's runs may have any number.
const maxFacets = 2000

// facetsOf finds the values of every kind, each sorted, with its runs.
func facetsOf(entries []Entry) map[string][]*facet {
	out := map[string][]*facet{}
	for n, k := range kinds {
		byValue := map[string]*facet{}
		for i := range entries {
			for _, v := range k.of(&entries[i]) {
				f := byValue[v]
				if f == nil && v != "" && len(out[k.name]) < maxFacets {
					f = &facet{Kind: k.name, Value: v}
					byValue[v] = f
					out[k.name] = append(out[k.name], f)
				}
				if f != nil && (len(f.runs) == 0 || f.runs[len(f.runs)-1] != i) {
					f.runs = append(f.runs, i)
				}
			}
		}
		slices.SortFunc(out[k.name], func(a, b *facet) int { return cmp.Compare(a.Value, b.Value) })
		nameFacets(out[k.name], k.name, n, nil)
	}
	return out
}

// nameFacets gives the sorted facets of kind n their files and keys. given has the slugs
// that values got before, which they keep: older pages have links to them.
func nameFacets(all []*facet, kind string, n int, given map[string]string) {
	taken := map[string]bool{}
	for _, f := range all {
		taken[given[f.Value]] = true
	}
	for i, f := range all {
		if f.Slug = given[f.Value]; f.Slug == "" {
			f.Slug = report.Slug(f.Value)
			for n := 2; taken[f.Slug]; n++ {
				f.Slug = fmt.Sprintf("%s-%d", report.Slug(f.Value), n)
			}
			taken[f.Slug] = true
		}
		f.File = PagesDir + "/" + kind + "-" + f.Slug + ".html"
		f.Key = fmt.Sprintf("%c%d", 'a'+n, i)
	}
}

// keptSlugs are the slugs of old that a build gave: each fits its value, and no two values
// have the same. The file that has them may have been changed.
func keptSlugs(old map[string]string) map[string]string {
	out, taken := map[string]string{}, map[string]bool{}
	for _, value := range slices.Sorted(maps.Keys(old)) {
		rest, ok := strings.CutPrefix(old[value], report.Slug(value))
		if n, err := strconv.Atoi(strings.TrimPrefix(rest, "-")); ok && !taken[old[value]] &&
			(rest == "" || err == nil && rest == fmt.Sprintf("-%d", n)) {
			out[value], taken[old[value]] = old[value], true
		}
	}
	return out
}

// Index is the pages about a set of runs.
type Index struct {
	root    *os.Root // of the run folders
	entries []Entry
	facets  map[string][]*facet
	look    Look
	// machines says that there is a comparison of the machines of the lab file.
	machines bool
	of       []string                        // the keys of each entry's facets, with spaces around them
	rows     []func() (template.HTML, error) // of each entry, on pages in PagesDir
}

// Look is how an index stands in its site.
type Look struct {
	Title   string // of the index; "" is "Runs"
	Version string // of the program, for readers
	Program string // identifies the program: another one makes other pages
	// Site is a link to the site that the index is a part of, below the folder of the index;
	// none if Text is "".
	Site  Link
	Alone bool // there is no index of runs
	// Feed is the address of a feed of runs, below the folder of the index; "" for none.
	Feed string
	// Posts are what was written about runs, by folder. Addresses are below the folder of
	// the index.
	Posts map[string][]Link
	// Stored says that the runs are those of a store: histories are of the newest runs, and
	// there may be a comparison of machines.
	Stored bool
}

// Link is a link to a page.
type Link struct{ Text, Href string }

// New makes the index of the runs in a folder, the newest first.
func New(root *os.Root, entries []Entry, look Look) *Index {
	x := &Index{root: root, entries: entries, facets: facetsOf(entries), look: look}
	each := make([][]string, len(x.entries))
	for _, k := range kinds {
		for _, f := range x.facets[k.name] {
			for _, i := range f.runs {
				each[i] = append(each[i], f.Key)
			}
		}
	}
	for i, keys := range each {
		x.of = append(x.of, strings.Join(keys, " "))
		x.rows = append(x.rows, sync.OnceValues(func() (template.HTML, error) { return x.writeRow(i, "../") }))
	}
	return x
}

// Page is one page of an index.
type Page struct {
	File     string // below the folder of the index, with slashes
	Identity string // of all that is on it
	Render   func(*bytes.Buffer) error
}

// maxRows bounds the runs on one page, and maxDecisions the verdicts.
const (
	maxRows      = 1000
	maxDecisions = 400
)

// Pages are the index, one page for each facet, and the histories of lab files. If there
// are more runs than a page holds, more pages of the index follow. They can be rendered
// concurrently.
func (x *Index) Pages() (out []Page) {
	all := make([]int, len(x.entries))
	for i := range all {
		all[i] = i
	}
	links := x.facetLines()
	for n := 0; n == 0 || n*maxRows < len(all); n++ {
		part := all[min(n*maxRows, len(all)):min((n+1)*maxRows, len(all))]
		file := indexFile(n)
		out = append(out, Page{file, x.identity(x.statesOf(part, true), links, []string{fmt.Sprint(len(all))}),
			func(b *bytes.Buffer) error { return x.writeIndex(b, n, part) }})
	}
	out = append(out, Page{PagesDir + "/" + IndexFile, x.identity(links, []string{"browse"}), x.browsePage})
	for i := range x.entries {
		if x.entries[i].Page {
			out = append(out, Page{x.entries[i].Folder + "/" + IndexFile, x.identity(x.statesOf([]int{i}, false),
				[]string{"run"}),
				func(b *bytes.Buffer) error { return x.runPage(b, i) }})
		}
	}
	for _, k := range kinds {
		for _, f := range x.facets[k.name] {
			states := x.statesOf(f.runs, false)
			out = append(out, Page{f.File, x.identity(states, []string{k.name, f.Value}),
				func(b *bytes.Buffer) error { return x.writeFacet(b, k, f) }})
			if file := x.historyFile(k, f); file != "" {
				out = append(out, Page{file, x.identity(states, []string{"history", f.Value}),
					func(b *bytes.Buffer) error { return x.history(b, f) }})
			}
		}
	}
	return out
}

// indexFile is the name of a page of the index.
func indexFile(n int) string {
	if n == 0 {
		return IndexFile
	}
	return fmt.Sprintf("%s/runs-%d.html", PagesDir, n+1)
}

// facetLines identify the links of the index.
func (x *Index) facetLines() (out []string) {
	for _, k := range kinds {
		for _, f := range x.facets[k.name] {
			out = append(out, f.File, f.Value, fmt.Sprint(f.Count()))
		}
	}
	return out
}

// statesOf identify what pages say of runs, with their keys if the page has filters.
func (x *Index) statesOf(runs []int, keys bool) []string {
	out := make([]string, 0, 3*len(runs))
	for _, i := range runs {
		e := &x.entries[i]
		if out = append(out, e.Folder, e.State); keys {
			out = append(out, x.of[i])
		}
		for _, l := range x.look.Posts[e.Folder] {
			out = append(out, l.Text, l.Href)
		}
	}
	return out
}

// identity is a hash of what a page is made of, the program included.
func (x *Index) identity(parts ...[]string) string {
	h := sha256.New()
	l := x.look
	own := []string{l.Version, l.Program, l.Title, l.Site.Text, l.Site.Href, l.Feed, policy, pageHTML}
	for _, list := range append([][]string{own}, parts...) {
		for _, p := range list {
			h.Write(strconv.AppendInt(nil, int64(len(p)), 10))
			h.Write([]byte{' '})
			io.WriteString(h, p)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// reportOf is the link from a page to the report of a run.
func reportOf(up string, e *Entry) string {
	if e.href != "" {
		return up + e.href
	}
	if !e.Page {
		return ""
	}
	return up + (&url.URL{Path: e.Folder + "/" + store.ReportFile}).EscapedPath()
}
