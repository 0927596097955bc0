package runsite

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/fleet"
	"bakeoff/judge/history"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/publish/report"
)

// Describe returns what pages say of a run of a store, for its index, and the cautions of
// the run. It may change res.
func Describe(rec bundle.Record, res analysis.Results) (page []byte, cautions []string, err error) {
	rec = rec.Clean()
	e := report.DescribeResults(rec.Run, rec.Lab, rec.Machine["cpu.model"], res, rec.Unplanned, rec.Began, rec.Ended)
	page, err = json.Marshal(e)
	return page, e.Notice.Cautions(), fault.Wrap(fault.Lab, "describe", err)
}

// The runs on pages of a store: on the pages of a lab file, a machine and a contender; on
// one page of a month; and in the search.
const (
	newestRuns = 100
	monthRuns  = 500
	searchRuns = 10_000
)

// Pages of a site of a store.
const (
	searchFile  = PagesDir + "/search.html"
	changesFile = PagesDir + "/changes.html"
)

// storedLock is the file that a build locks.
const storedLock = ".bakeoff-lock"

const storedSchema = "bakeoff/runsite-store/v1"

// storedState is what the last BuildStore knew.
type storedState struct {
	Schema string `json:"schema"`
	All    string `json:"all"` // identity of everything
	// Program identifies the program that wrote the pages.
	Program string            `json:"program"`
	Months  map[string]string `json:"months"` // identities of the runs of months
	Pages   map[string]string `json:"pages"`  // identities, without the pages of runs
	// Lacking are the bundles whose pages say that the index lacks their results.
	Lacking map[string]bool            `json:"lacking,omitempty"`
	Changes map[string][]report.Change `json:"changes"`
	// Slugs are those in the names of pages, by kind and value.
	Slugs map[string]map[string]string `json:"slugs"`
	// Again are the results of replications that the pages of bundles have (index.Again).
	Again map[string]string `json:"again,omitempty"`
}

// stored is a site of a store in the making.
type stored struct {
	ctx  context.Context
	x    *index.Index
	root *os.Root
	opt  Option
	runs []index.Brief // the newest first

	facets map[string][]*facet
	of     map[*facet][]index.Brief // the runs of a facet, the newest first
	seen   []index.Seen
	month  map[string]string // by bundle
	again  map[string]string // by bundle; see index.Again

	mu      sync.Mutex
	changes map[string][]report.Change
}

// BuildStore writes the site of the runs of an index into a folder of its own: pages of the
// newest runs, lab files, machines, contenders, months and single runs, histories, the
// comparison of machines, the change points, and a search. It makes only pages whose runs
// changed: a month that is over stays as it is.
func BuildStore(ctx context.Context, x *index.Index, dir string, opt Option) (sum Summary, err error) {
	op := "site: " + dir
	opt.Program = cmp.Or(opt.Program, opt.Report.Version)
	s := &stored{ctx: ctx, x: x, opt: opt}
	if s.runs, err = x.Briefs(ctx); err != nil {
		return sum, err
	}
	if x.Again != nil {
		if s.again, err = x.Again.Replicated(); err != nil {
			return sum, err
		}
	}
	sum.Runs = len(s.runs)
	if len(s.runs) == 0 {
		return sum, fault.WithFix(fault.New(fault.NotFound, "%s: the store has no runs", op), "run bakeoff store add RUN")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return sum, fault.Wrap(fault.Lab, op, err)
	}
	if s.root, err = os.OpenRoot(dir); err != nil {
		return sum, fault.Wrap(fault.Lab, op, err)
	}
	defer s.root.Close()
	_, known := s.readState()
	if there, err := fs.ReadDir(s.root.FS(), "."); err != nil || !known && slices.ContainsFunc(there,
		func(e fs.DirEntry) bool { return e.Name() != storedLock }) {
		return sum, fault.WithFix(fault.New(fault.Invalid, "%s: the folder contains files that bakeoff did not "+
			"write", op), "name a new folder")
	}
	held, err := lock.Wait(ctx, filepath.Join(dir, storedLock))
	if err != nil {
		return sum, fault.Op(op, err)
	}
	defer held.Release()
	old, known := s.readState() // another build may have changed it
	if !known {
		// The folder is known before it has pages: a build that ends early can be repeated.
		if err := s.writeState(old); err != nil {
			return sum, fault.Op(op, err)
		}
	}
	all := s.identity(s.runs)
	if _, err := s.root.Lstat(IndexFile); err == nil && old.All == all && !opt.Force {
		sum.Pages = len(old.Pages)
		return sum, nil
	}
	if opt.Force || old.Program != opt.Program {
		old.Months, old.Pages, old.Changes = nil, nil, nil
	}
	if s.seen, err = x.Contenders(ctx); err != nil {
		return sum, err
	}
	return sum, fault.Op(op, s.write(old, all, &sum))
}

// readState returns the state of the last build. One that is damaged is empty.
func (s *stored) readState() (out storedState, known bool) {
	data, err := bounded.ReadIn(s.root, cacheFile, maxCache)
	if err != nil && !fault.Is(err, fault.Invalid) {
		return out, false
	}
	if err != nil || json.Unmarshal(data, &out) != nil || out.Schema != storedSchema {
		return storedState{}, true
	}
	safetext.Scrub(&out, safetext.Line)
	return out, true
}

// writeState replaces the state.
func (s *stored) writeState(now storedState) error {
	now.Schema = storedSchema
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return atomicfile.WriteUnsyncedIn(s.root, cacheFile, data, 0o666)
}

// identity is that of a list of runs, and of everything else that pages are made of.
func (s *stored) identity(runs []index.Brief, more ...string) string {
	h := sha256.New()
	for _, text := range append([]string{s.opt.Program, s.opt.Report.Version, policy, pageHTML}, more...) {
		fmt.Fprintf(h, "%d %s", len(text), text)
	}
	for _, r := range runs {
		io.WriteString(h, r.Bundle)
		if r.Lacking {
			io.WriteString(h, " lacks its results")
		}
		io.WriteString(h, s.again[r.Bundle])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// write writes what changed.
func (s *stored) write(old storedState, all string, sum *Summary) error {
	s.sort(old.Slugs)
	now := storedState{All: all, Program: s.opt.Program, Months: map[string]string{},
		Pages: map[string]string{}, Lacking: map[string]bool{}, Slugs: map[string]map[string]string{}, Again: s.again}
	for kind, all := range s.facets {
		now.Slugs[kind] = map[string]string{}
		for _, f := range all {
			now.Slugs[kind][f.Value] = f.Slug
		}
	}
	for _, r := range s.runs {
		if r.Lacking {
			now.Lacking[r.Bundle] = true
		}
	}
	s.changes = map[string][]report.Change{}
	var stale []Page
	plan := func(p Page) {
		now.Pages[p.File] = p.Identity
		if info, err := s.root.Lstat(p.File); old.Pages[p.File] != p.Identity || err != nil || !info.Mode().IsRegular() {
			stale = append(stale, p)
		}
	}
	for _, k := range kinds {
		for _, f := range s.facets[k.name] {
			runs := s.of[f]
			if k.name == "month" {
				now.Months[f.Value] = s.identity(runs)
				s.planMonth(k, f, plan)
				if old.Months[f.Value] != now.Months[f.Value] {
					if err := s.planRuns(f, old, &stale, sum); err != nil {
						return err
					}
				}
				continue
			}
			plan(Page{f.File, s.identity(runs[:min(len(runs), newestRuns)], k.name, f.Value, fmt.Sprint(f.Count()),
				fmt.Sprint(s.hasMachines(k, f))), func(b *bytes.Buffer) error { return s.facetPage(b, k, f) }})
			if k.name == "lab" && len(runs) >= fewestRuns {
				s.planHistory(f, old, plan)
			}
		}
	}
	for month := range old.Months {
		if _, ok := now.Months[month]; !ok && monthName(month) {
			sum.Removed++
			if err := s.root.RemoveAll(PagesDir + "/" + month); err != nil {
				return err
			}
		}
	}
	plan(Page{IndexFile, s.identity(s.runs, "index"), s.indexPage})
	plan(Page{searchFile, s.identity(s.runs, "search"), s.searchPage})
	if err := s.root.MkdirAll(PagesDir, 0o777); err != nil {
		return err
	}
	if err := writeAll(s.root, stale); err != nil {
		return err
	}
	now.Changes, sum.Written, stale = s.changes, len(stale), nil
	told, err := json.Marshal(now.Changes)
	if err != nil {
		return err
	}
	plan(Page{changesFile, s.identity(nil, "changes", string(told)), s.changesPage})
	if err := writeAll(s.root, stale); err != nil {
		return err
	}
	sum.Pages, sum.Written = len(now.Pages), sum.Written+len(stale)
	for file := range old.Pages {
		if _, ok := now.Pages[file]; !ok && strings.HasPrefix(file, PagesDir+"/") && fs.ValidPath(file) {
			if err := s.root.Remove(file); err == nil {
				sum.Removed++
			}
		}
	}
	return s.writeState(now)
}

// monthName reports whether text is the name of a month, such as 2026-01.
func monthName(text string) bool {
	_, err := time.Parse("2006-01", text)
	return err == nil
}

// sort finds the facets, and the runs of each. slugs are those of the last build.
func (s *stored) sort(slugs map[string]map[string]string) {
	s.facets, s.of, s.month = map[string][]*facet{}, map[*facet][]index.Brief{}, make(map[string]string, len(s.runs))
	made := map[[2]string]*facet{}
	add := func(kind, value string, runs ...index.Brief) *facet {
		f := made[[2]string{kind, value}]
		if f == nil {
			f = &facet{Kind: kind, Value: value}
			made[[2]string{kind, value}] = f
			s.facets[kind] = append(s.facets[kind], f)
		}
		s.of[f] = append(s.of[f], runs...)
		f.more += len(runs)
		return f
	}
	of := map[[2]string][]index.Brief{}
	for i := range s.runs {
		r := &s.runs[i]
		r.Lab, r.Host, r.Name = safetext.Line(r.Lab), safetext.Line(r.Host), safetext.Line(r.Name)
		month := monthOf(r.Began)
		s.month[r.Bundle] = month
		add("lab", r.Lab, *r)
		add("machine", r.Host, *r)
		add("month", month, *r)
		of[[2]string{r.Lab, r.Host}] = append(of[[2]string{r.Lab, r.Host}], *r)
	}
	for _, seen := range s.seen {
		key := [2]string{safetext.Line(seen.Lab), safetext.Line(seen.Host)}
		f := add("contender", safetext.Line(seen.Contender), of[key]...)
		f.more += seen.Runs - len(of[key])
	}
	for n, k := range kinds {
		slices.SortFunc(s.facets[k.name], func(a, b *facet) int { return cmp.Compare(a.Value, b.Value) })
		nameFacets(s.facets[k.name], k.name, n, keptSlugs(slugs[k.name]))
	}
	for _, f := range s.facets["contender"] {
		slices.SortFunc(s.of[f], func(a, b index.Brief) int {
			return cmp.Or(cmp.Compare(b.Began, a.Began), cmp.Compare(b.Bundle, a.Bundle))
		})
	}
}

// fileOf is the page of a run.
func (s *stored) fileOf(digest string) string { return StoredPage(s.month[digest], digest) }

// entries reads what pages say of runs.
func (s *stored) entries(runs []index.Brief) ([]Entry, error) {
	ids := make([]int64, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	pages, err := s.x.Pages(s.ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(runs))
	for i, r := range runs {
		e := &out[i]
		if json.Unmarshal(pages[r.ID], &e.Entry) != nil {
			e.Entry = report.Entry{Name: r.Name, Problem: "the index lacks its results; run bakeoff store rebuild"}
		}
		safetext.Scrub(e, safetext.Line)
		e.Folder, e.Machine, e.href = r.Bundle, r.Host, s.fileOf(r.Bundle)
	}
	return out, nil
}

// sub is the index of some runs.
func (s *stored) sub(runs []index.Brief) (*Index, error) {
	entries, err := s.entries(runs)
	if err != nil {
		return nil, err
	}
	return New(s.root, entries, Look{Version: s.opt.Report.Version, Program: s.opt.Program, Stored: true}), nil
}

// facetPage writes the page of a lab file, a machine or a contender.
func (s *stored) facetPage(b *bytes.Buffer, k kind, f *facet) error {
	x, err := s.sub(s.of[f][:min(len(s.of[f]), newestRuns)])
	if err != nil {
		return err
	}
	own := &facet{Kind: f.Kind, Value: f.Value, File: f.File}
	for i := range x.entries {
		if e := &x.entries[i]; k.name != "contender" || slices.Contains(k.of(e), f.Value) {
			own.runs = append(own.runs, i)
		}
	}
	own.more = max(0, f.Count()-len(own.runs))
	x.machines = s.hasMachines(k, f)
	return x.writeFacet(b, k, own)
}

// planMonth plans the pages of a month.
func (s *stored) planMonth(k kind, f *facet, plan func(Page)) {
	for n := 0; n*monthRuns < len(s.of[f]); n++ {
		part := s.of[f][n*monthRuns : min((n+1)*monthRuns, len(s.of[f]))]
		name := func(n int) string {
			if n == 0 {
				return f.File
			}
			return strings.TrimSuffix(f.File, ".html") + fmt.Sprintf("-%d.html", n+1)
		}
		plan(Page{name(n), s.identity(part, "month", fmt.Sprint(len(s.of[f]))), func(b *bytes.Buffer) error {
			x, err := s.sub(part)
			if err != nil {
				return err
			}
			v := x.newView(f.Value, "../")
			v.Home, v.Lead = "../"+IndexFile, "Month: "+unit.Count(f.Count(), "run")+", the newest first."
			for i := range x.entries {
				html, err := x.rows[i]()
				if err != nil {
					return err
				}
				v.Rows = append(v.Rows, row{HTML: html})
			}
			for i := 0; len(s.of[f]) > monthRuns && i*monthRuns < len(s.of[f]); i++ {
				if i != n {
					v.More = append(v.More, Link{fmt.Sprintf("Page %d", i+1), path.Base(name(i))})
				}
			}
			return pageTemplate.Execute(b, v)
		}})
	}
}

// planRuns plans the pages of the runs of a month, and removes those of runs that are gone.
// It leaves those that the last build wrote: a run does not change, once the index has its results,
// until a second run says something about it.
func (s *stored) planRuns(f *facet, old storedState, stale *[]Page, sum *Summary) error {
	dir := PagesDir + "/" + f.Value
	if err := s.root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files, err := fs.ReadDir(s.root.FS(), dir)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range files {
		there[dir+"/"+e.Name()] = true
	}
	for _, r := range s.of[f] {
		file := s.fileOf(r.Bundle)
		if old.Months == nil || !there[file] || old.Lacking[r.Bundle] || old.Again[r.Bundle] != s.again[r.Bundle] {
			*stale = append(*stale, Page{File: file, Render: func(b *bytes.Buffer) error { return s.runPage(b, r) }})
			sum.Read++
		}
		delete(there, file)
	}
	for file := range there {
		if err := s.root.Remove(file); err != nil {
			return err
		}
		sum.Removed++
	}
	return nil
}

// runPage writes the page of a run.
func (s *stored) runPage(b *bytes.Buffer, r index.Brief) error {
	const up = "../../"
	x, err := s.sub([]index.Brief{r})
	if err != nil {
		return err
	}
	e := &x.entries[0]
	v := x.newView(cmp.Or(e.Lab, e.Name)+", "+cmp.Or(dateText(e), e.Name), up)
	v.Home, v.Lead, v.Fetch = up+IndexFile, e.Lead, "bakeoff store show "+bundle.Short(r.Bundle)+" --unpack ."
	e.href = ""
	html, err := x.writeRow(0, up)
	if err != nil {
		return err
	}
	v.Rows = []row{{HTML: html}}
	if s.again[r.Bundle] != "" {
		if v.Again, err = s.x.Again.Tell(s.ctx, r.Bundle); err != nil {
			return err
		}
	}
	for _, d := range e.Decisions {
		one := decisionRow{Decision: d, Baseline: e.Baseline, Lab: e.Lab}
		one.Date, _, _ = strings.Cut(dateText(e), " ")
		v.Decisions = append(v.Decisions, one)
	}
	for _, k := range []string{"lab", "machine"} {
		for _, f := range s.facets[k] {
			if f.Value == e.Lab && k == "lab" || f.Value == r.Host && k == "machine" {
				v.Links = append(v.Links, Link{capital(f.Kind) + " " + f.Value, up + f.File})
			}
		}
	}
	return pageTemplate.Execute(b, v)
}

// machinesFile is the comparison of the machines of a lab file.
func machinesFile(f *facet) string { return strings.Replace(f.File, "/lab-", "/machines-", 1) }

// hasMachines reports whether the newest runs of a lab file are of several machines.
func (s *stored) hasMachines(k kind, f *facet) bool {
	runs := s.of[f][:min(len(s.of[f]), mostRuns)]
	return k.name == "lab" && len(runs) >= fewestRuns &&
		slices.ContainsFunc(runs, func(r index.Brief) bool { return r.Host != runs[0].Host })
}

// pastOf is the newest runs of a lab file, and their history.
type pastOf struct {
	runs   []history.Run
	result history.Result
}

// planHistory plans the history of a lab file, and the comparison of its machines.
func (s *stored) planHistory(f *facet, old storedState, plan func(Page)) {
	runs := s.of[f][:min(len(s.of[f]), mostRuns)]
	s.changes[f.Value] = old.Changes[f.Value]
	past := sync.OnceValues(func() (of pastOf, err error) { // of both pages
		if of.runs, _, err = s.x.Past(s.ctx, index.Filter{Lab: f.Value, Most: mostRuns}); err == nil {
			of.result, err = history.Of(of.runs, history.Option{Alpha: analysis.MaxAlpha, By: compare.Relative, Primary: true})
		}
		return of, err
	})
	link := func(digest string) string { return "../" + s.fileOf(digest) }
	file := strings.Replace(f.File, "/lab-", "/history-", 1)
	plan(Page{file, s.identity(runs, "history"), func(b *bytes.Buffer) error {
		all, err := past()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.changes[f.Value] = report.ChangesOf(all.result)
		s.mu.Unlock()
		page, err := report.History(all.result, report.RunsOption{Version: s.opt.Report.Version, Index: "../" + IndexFile,
			Link: link})
		b.Write(page)
		return err
	}})
	if !s.hasMachines(kinds[0], f) {
		return
	}
	plan(Page{machinesFile(f), s.identity(runs, "machines"), func(b *bytes.Buffer) error {
		all, err := past()
		if err != nil {
			return err
		}
		res, err := fleet.OfHistory(all.result, all.runs, fleet.Option{})
		if fault.Is(err, fault.Invalid) { // such as another baseline on another machine
			return s.sayProblem(b, "Machines of "+f.Value, err)
		}
		if err != nil {
			return err
		}
		page, err := report.Fleet(res, report.RunsOption{Version: s.opt.Report.Version, Index: "../" + IndexFile,
			Link: link})
		b.Write(page)
		return err
	}})
}

// sayProblem writes a page that says why there is no other.
func (s *stored) sayProblem(b *bytes.Buffer, title string, err error) error {
	x, _ := s.sub(nil) // it reads nothing
	v := x.newView(title, "../")
	v.Home, v.Lead = "../"+IndexFile, safetext.Line(err.Error())
	return pageTemplate.Execute(b, v)
}

// indexPage writes the index: the newest runs, and links to everything.
func (s *stored) indexPage(b *bytes.Buffer) error {
	x, err := s.sub(s.runs[:min(len(s.runs), newestRuns)])
	if err != nil {
		return err
	}
	x.facets = s.facets
	v := x.newView("Runs", "")
	v.Lead, v.Browse = unit.Count(len(s.runs), "run")+", the newest first.", x.browseKinds("")
	v.Links = []Link{{"Search all runs", searchFile}, {"Change points", changesFile}}
	for i := range x.entries {
		html, err := x.writeRow(i, "")
		if err != nil {
			return err
		}
		v.Rows = append(v.Rows, row{HTML: html})
	}
	if n := len(s.runs) - len(v.Rows); n > 0 {
		v.Left = unit.Count(n, "older run") + " not listed here; the pages of the months have all runs."
	}
	return pageTemplate.Execute(b, v)
}

// searchPage writes the page on which a script finds runs.
func (s *stored) searchPage(b *bytes.Buffer) error {
	labels, err := s.x.Labels(s.ctx)
	if err != nil {
		return err
	}
	x, err := s.sub(nil)
	if err != nil {
		return err
	}
	x.facets = map[string][]*facet{"lab": s.facets["lab"], "machine": s.facets["machine"]}
	keys := map[[2]string]string{}
	for kind, all := range x.facets {
		for _, f := range all {
			keys[[2]string{kind, f.Value}] = f.Key
		}
	}
	v := x.newView("Search", "../")
	v.Home, v.Filters, v.Browse = "../"+IndexFile, true, x.browseKinds("../")
	runs := s.runs[:min(len(s.runs), searchRuns)]
	v.Lead = unit.Count(len(runs), "run") + ", the newest first."
	for _, r := range runs {
		began := safetext.Line(r.Began)
		date := strings.Replace(began[:min(len(began), 16)], "T", " ", 1)
		text := r.Name + "; " + r.Host
		if labels[r.ID] != "" {
			text += "; " + safetext.Line(labels[r.ID])
		}
		v.Rows = append(v.Rows, row{Keys: keys[[2]string{"lab", r.Lab}] + " " + keys[[2]string{"machine", r.Host}],
			Date: date, HTML: searchLine("../"+s.fileOf(r.Bundle), r.Lab, date, text)})
		day, _, _ := strings.Cut(date, " ")
		v.To, v.From = cmp.Or(v.To, day), day
	}
	if n := len(s.runs) - len(runs); n > 0 {
		v.Left = unit.Count(n, "older run") + " not listed here; the pages of the months have all runs."
	}
	return pageTemplate.Execute(b, v)
}

// searchLine is a row of the search. A template takes five times as long, for 10,000 rows.
// href is a path that has no scheme and needs no escapes of URLs.
func searchLine(href, lab, date, text string) template.HTML {
	escape := template.HTMLEscapeString
	return template.HTML(`<h3><a href="` + escape(href) + `">` + escape(lab) + `</a> <span class="date">` + escape(date) +
		`</span></h3><p class="about">` + escape(text) + `</p>`)
}

// changesPage writes the change points of all lab files, each once.
func (s *stored) changesPage(b *bytes.Buffer) error {
	x, err := s.sub(nil)
	if err != nil {
		return err
	}
	var all []report.Change
	for _, c := range s.changes {
		all = append(all, c...)
	}
	slices.SortFunc(all, func(a, b report.Change) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Lab, b.Lab), cmp.Compare(a.Machine, b.Machine))
	})
	v := x.newView("Change points", "../")
	v.Home, v.Changes = "../"+IndexFile, true
	v.Lead = unit.Count(len(all), "change point") + " in the newest runs of each lab file, the newest first."
	for _, c := range all[:min(len(all), maxRows)] {
		href := changesFile
		for _, f := range s.facets["lab"] {
			if f.Value == c.Lab {
				href = strings.Replace(path.Base(f.File), "lab-", "history-", 1)
			}
		}
		var html strings.Builder
		if err := pageTemplate.ExecuteTemplate(&html, "change", struct {
			report.Change
			Href, When string
		}{c, href, c.At.UTC().Format("2006-01-02 15:04")}); err != nil {
			return err
		}
		v.Rows = append(v.Rows, row{HTML: template.HTML(html.String())}) // the template escaped it
	}
	return pageTemplate.Execute(b, v)
}

// StoredPage is the page of a run of a store, below the folder of the index.
func StoredPage(began, digest string) string {
	digits := strings.TrimPrefix(digest, "sha256:")
	return PagesDir + "/" + monthOf(began) + "/" + digits[:min(len(digits), 16)] + ".html"
}

// monthOf is the month of a time of the index.
func monthOf(began string) string {
	if month := began[:min(len(began), 7)]; monthName(month) {
		return month
	}
	return "0001-01" // the index has no such time
}
