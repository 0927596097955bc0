package runsite

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// PagesDir is the folder of the other pages of the index, in that of the runs.
const PagesDir = "index"

// kinds are the ways to browse runs, in the order in which the index shows them.
var kinds = []kind{
	{"lab", "lab file", "lab files", func(e entry) []string { return []string{e.Lab} }},
	{"workload", "workload", "workloads", func(e entry) []string { return e.Workloads }},
	{"contender", "contender", "contenders", func(e entry) (out []string) {
		for _, c := range e.Contenders {
			out = append(out, c.Name)
		}
		return out
	}},
	{"machine", "machine", "machines", func(e entry) []string { return []string{e.Machine} }},
	{"verdict", "verdict", "verdicts", func(e entry) (out []string) {
		for _, t := range e.Tally {
			out = append(out, t.Word)
		}
		return out
	}},
	{"month", "month", "months", func(e entry) []string {
		if e.Begun.IsZero() {
			return nil
		}
		return []string{e.Begun.UTC().Format("2006-01")}
	}},
}

// kind is one way to browse runs: a page for each of its values.
type kind struct {
	name, one, many string
	of              func(entry) []string
}

// facet is the runs with one value of a kind. The page of a workload, for instance.
type facet struct {
	Kind, Value string
	Key         string // short: in the page, for the filters
	File        string // relative to the folder of the index
	runs        []int  // of the site's entries
}

// Count is the number of its runs.
func (f *facet) Count() int { return len(f.runs) }

// maxFacets bounds the values of one kind: a stranger's runs may have any number.
const maxFacets = 2000

// facetsOf finds the values of every kind, each sorted, with its runs.
func facetsOf(entries []entry) map[string][]*facet {
	out := map[string][]*facet{}
	for n, k := range kinds {
		byValue := map[string]*facet{}
		for i, e := range entries {
			for _, v := range k.of(e) {
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
		taken := map[string]bool{}
		for i, f := range out[k.name] {
			slug := report.Slug(f.Value)
			for n := 2; taken[slug]; n++ {
				slug = fmt.Sprintf("%s-%d", report.Slug(f.Value), n)
			}
			taken[slug] = true
			f.File = PagesDir + "/" + k.name + "-" + slug + ".html"
			f.Key = fmt.Sprintf("%c%d", 'a'+n, i)
		}
	}
	return out
}

// writePages writes the pages whose runs changed, removes those without runs, and keeps
// what the next Build needs.
func writePages(root *os.Root, entries []entry, old cache, opt Option, sum *Summary) error {
	s := &site{dir: root.Name(), entries: entries, facets: facetsOf(entries), opt: opt}
	s.keys()
	kept := cache{Schema: cacheSchema, Runs: map[string]entry{}, Pages: map[string]string{}}
	for _, e := range entries {
		kept.Runs[e.Folder] = e
	}
	if err := root.MkdirAll(PagesDir, 0o777); err != nil {
		return err
	}
	for _, p := range s.pages() {
		sum.Pages++
		kept.Pages[p.file] = p.identity
		if info, err := root.Lstat(p.file); old.Pages[p.file] == p.identity && err == nil && info.Mode().IsRegular() {
			continue
		}
		var b bytes.Buffer
		if err := p.render(&b); err != nil {
			return err
		}
		if err := replace(root, p.file, b.Bytes()); err != nil {
			return err
		}
		sum.Written++
	}
	for file := range old.Pages {
		if _, ok := kept.Pages[file]; !ok && strings.HasPrefix(file, PagesDir+"/") && fs.ValidPath(file) {
			if err := root.Remove(file); err == nil {
				sum.Removed++
			}
		}
	}
	if sum.Read == 0 && sum.Written == 0 && sum.Removed == 0 {
		return nil
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return replace(root, cacheFile, data)
}

// site is what the pages are made of.
type site struct {
	dir     string // of the runs
	entries []entry
	facets  map[string][]*facet
	opt     Option
	of      []string // the keys of each entry's facets, with spaces around them
}

// keys notes for each run which facets it has.
func (s *site) keys() {
	each := make([][]string, len(s.entries))
	for _, k := range kinds {
		for _, f := range s.facets[k.name] {
			for _, i := range f.runs {
				each[i] = append(each[i], f.Key)
			}
		}
	}
	for _, keys := range each {
		s.of = append(s.of, strings.Join(keys, " "))
	}
}

// sitePage is one page of the site.
type sitePage struct {
	file     string
	identity string // of all that is on it
	render   func(*bytes.Buffer) error
}

// maxRows bounds the runs on one page, and maxDecisions the verdicts.
const (
	maxRows      = 1000
	maxDecisions = 400
)

// pages are the index, one page for each facet, and the histories of lab files. If there are more runs than a page
// holds, more pages of the index follow.
func (s *site) pages() (out []sitePage) {
	all := make([]int, len(s.entries))
	for i := range all {
		all[i] = i
	}
	links := identity(s.opt, s.facetLines())
	for n := 0; n == 0 || n*maxRows < len(all); n++ {
		part := all[min(n*maxRows, len(all)):min((n+1)*maxRows, len(all))]
		file := indexFile(n)
		out = append(out, sitePage{file, identity(s.opt, append(s.states(part, true), links, fmt.Sprint(len(all)))),
			func(b *bytes.Buffer) error { return s.index(b, n, part) }})
	}
	for _, k := range kinds {
		for _, f := range s.facets[k.name] {
			out = append(out, sitePage{f.File, identity(s.opt, append(s.states(f.runs, false), k.name, f.Value)),
				func(b *bytes.Buffer) error { return s.facet(b, k, f) }})
			if file := s.historyFile(k, f); file != "" {
				out = append(out, sitePage{file, identity(s.opt, append(s.states(f.runs, false), "history", f.Value)),
					func(b *bytes.Buffer) error { return s.history(b, f) }})
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
func (s *site) facetLines() (out []string) {
	for _, k := range kinds {
		for _, f := range s.facets[k.name] {
			out = append(out, fmt.Sprint(f.File, f.Value, f.Count()))
		}
	}
	return out
}

// states identify what pages say of runs, with their keys if the page has filters.
func (s *site) states(runs []int, keys bool) []string {
	out := make([]string, 0, len(runs)+4)
	for _, i := range runs {
		e := s.entries[i]
		if out = append(out, e.Folder, e.State); keys {
			out = append(out, s.of[i])
		}
	}
	return out
}

// identity is a hash of what a page is made of, the program included.
func identity(opt Option, parts []string) string {
	h := sha256.New()
	for _, p := range append([]string{opt.Report.Version, opt.Title, policy, pageHTML}, parts...) {
		fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// replace writes a file so that readers see the old one or the new one.
func replace(root *os.Root, name string, data []byte) error {
	part := path.Join(path.Dir(name), "."+path.Base(name)+".part")
	if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(part, name)
}

// reportOf is the link from a page to the report of a run.
func reportOf(up string, e entry) string {
	if !e.Page {
		return ""
	}
	return up + (&url.URL{Path: e.Folder + "/" + store.ReportFile}).EscapedPath()
}
