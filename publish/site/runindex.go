package site

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
	"bakeoff/publish/site/feed"
	"bakeoff/publish/site/page"
	"bakeoff/publish/site/search"
)

// runsPath is where runs are below the root.
const runsPath = "runs/"

// readRuns describes the runs in the folder of runs: those that old does not have.
func (b *build) readRuns(old map[string]runsite.Entry) error {
	info, err := b.site.root.Lstat(b.cfg.Runs)
	if !b.cfg.RunIndex || errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, b.cfg.Runs, err)
	}
	if b.runRoot, err = b.site.root.OpenRoot(b.cfg.Runs); err != nil {
		return fault.Wrap(fault.Invalid, b.cfg.Runs, err)
	}
	names, err := runsite.Folders(b.runRoot)
	if err != nil {
		return fault.Wrap(fault.Invalid, b.cfg.Runs, err)
	}
	read := 0
	b.indexed, read, err = runsite.Read(b.runRoot, names, old, b.opt.Program, func(e *runsite.Entry) error {
		e.Page = e.Lab != "" // planRuns writes it
		return nil
	})
	for _, e := range b.indexed {
		if e.Problem != "" && e.Problem != report.NoResultsYet {
			b.addWarning(fmt.Sprintf("%s/%s cannot be read: %s", b.cfg.Runs, e.Folder, e.Problem))
		}
	}
	b.result.Runs = len(names)
	if read > 0 || len(names) != len(old) {
		b.changed.Store(true)
	}
	return err
}

// planRunIndex plans the index of the runs, with a feed. Runs and posts link to each other.
func (b *build) planRunIndex() {
	if len(b.indexed) == 0 {
		return
	}
	b.index = runsite.New(b.runRoot, b.indexed, runsite.Look{Version: b.opt.Report.Version, Program: b.opt.Program,
		Site: runsite.Link{Text: b.cfg.Title, Href: "../"}, Feed: b.cfg.FeedFile, Posts: b.postsOfRuns()})
	for _, p := range b.index.Pages() {
		b.addFile(runsPath+p.File, p.Identity, p.Render)
	}
	b.planRunFeed()
}

// postsOfRuns are the posts that refer to runs, by folder. Addresses are below that of the
// index.
func (b *build) postsOfRuns() map[string][]runsite.Link {
	out := map[string][]runsite.Link{}
	b.everyEntry(func(e *entry) {
		seen := map[string]bool{}
		for _, ref := range e.Runs {
			if id, _, _ := strings.Cut(ref, "/"); !seen[id] {
				seen[id] = true
				out[id] = append(out[id], runsite.Link{Text: e.Title, Href: "../" + (&url.URL{Path: e.path}).EscapedPath()})
			}
		}
	})
	return out
}

// planRunFeed plans a feed of the newest runs.
func (b *build) planRunFeed() {
	s, name := b.sections[0], runsPath+b.cfg.FeedFile
	newest := lists.Filter(b.indexed, func(e runsite.Entry) bool { return e.Page && !e.Begun.IsZero() })
	newest = newest[:min(len(newest), b.cfg.FeedItems)]
	title := b.cfg.Title + " – " + s.locale.Say("runs")
	f := b.feedOf(s, runsPath, title, title)
	f.Self = b.address(name)
	parts := []string{"run feed", s.key, title}
	for _, e := range newest {
		parts = append(parts, e.Folder, e.State)
	}
	b.addFile(name, digestOf(parts...), func(w *bytes.Buffer) error {
		for _, e := range newest {
			f.Items = append(f.Items, feed.Item{Title: e.Lab + ", " + e.Begun.UTC().Format("2006-01-02 15:04"),
				Link: b.runAddress(e), Summary: summaryOf(e), Author: b.cfg.Author, Published: e.Begun.UTC()})
		}
		text, err := feed.RSS(f)
		w.Write(text)
		return err
	})
}

// summaryOf says what a run found: "3 contenders against host …: 2 better, 1 worse."
func summaryOf(e runsite.Entry) string {
	about := strings.Join(e.Notice.Lines(), " ")
	if e.Problem != "" || len(e.Tally) == 0 {
		return strings.TrimSpace(cmp.Or(e.Problem, e.Lead) + " " + about)
	}
	counts := lists.Map(e.Tally, func(t report.Tally) string { return fmt.Sprintf("%d %s", t.Count, t.Word) })
	return strings.TrimSuffix(e.Lead, ".") + ": " + strings.Join(counts, ", ") + ". " + about
}

// runAddress is the absolute address of the report of a run.
func (b *build) runAddress(e runsite.Entry) string {
	return b.address(runsPath + e.Folder + "/" + strings.TrimSuffix(store.ReportFile, "index.html"))
}

// foundRuns are the runs that the search of the site finds, by what the index says of them.
func (b *build) foundRuns() (out []search.Entry) {
	for _, e := range b.indexed {
		if !e.Page {
			continue
		}
		words := search.Terms{}
		for _, text := range append([]string{e.Lab, e.Name, e.Machine, e.Baseline}, e.Workloads...) {
			words.Add(text)
		}
		for _, c := range e.Contenders {
			words.Add(c.Name + " " + c.Driver)
		}
		for _, t := range e.Tally {
			words.Add(t.Word)
		}
		found := search.Entry{Path: runsPath + e.Folder + "/" + store.ReportFile, Title: e.Lab, Terms: words.String()}
		if !e.Begun.IsZero() {
			found.Date = e.Begun.UTC().Format(time.DateOnly)
		}
		out = append(out, found)
	}
	return out
}

// foundLink is a run in the list of the search page.
func foundLink(e search.Entry) page.Link {
	return page.Link{Label: e.Title, Path: e.Path, Date: e.Date, DateText: e.Date}
}

// mappedRuns are the index and the runs for the site map.
func (b *build) mappedRuns() (out []feed.Page) {
	if len(b.indexed) == 0 {
		return nil
	}
	out = append(out, feed.Page{Address: b.address(runsPath), Changed: b.indexed[0].Begun})
	for _, e := range b.indexed {
		if e.Page {
			out = append(out, feed.Page{Address: b.runAddress(e), Changed: e.Begun})
		}
	}
	return out
}
