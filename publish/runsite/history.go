package runsite

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"bakeoff/base/atomicfile"
	"bakeoff/base/bounded"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// The number of runs of a lab file from which and up to which it has a history: a page of
// a few runs shows no change, and one of thousands takes minutes to compute.
const (
	fewestRuns = 3
	mostRuns   = 500
)

// historyFile is the page of the history of a lab file; "" if it has none.
func (x *Index) historyFile(k kind, f *facet) string {
	if k.name != "lab" || f.Count() < fewestRuns ||
		f.Count() > mostRuns && !x.look.Stored {
		return ""
	}
	return strings.Replace(f.File, "/"+k.name+"-", "/history-", 1)
}

// history writes the page of the history of a lab file. Runs that cannot be read are named
// on the page.
func (x *Index) history(b *bytes.Buffer, f *facet) error {
	opt := history.Option{Alpha: analysis.MaxAlpha, By: compare.Relative, Primary: true}
	past := x.readPast(f)
	var runs []history.Run
	for _, i := range f.runs {
		e := &x.entries[i]
		r, ok := past.Runs[e.Folder]
		if !ok {
			opt.Unread = append(opt.Unread, history.Unread{Folder: e.Folder, Reason: past.unread[e.Folder]})
			continue
		}
		r.Run.Folder = e.Folder
		runs = append(runs, r.Run)
	}
	res, err := history.Of(runs, opt)
	if err != nil {
		return err
	}
	page, err := report.History(res, report.RunsOption{Version: x.look.Version, Index: "../" + IndexFile,
		Link: func(folder string) string { return "../" + folder + "/" + store.ReportFile }})
	b.Write(page)
	return err
}

// pastDir is where the numbers of histories are kept: reading them again from a hundred
// runs would take longer than everything else.
const pastDir = ".bakeoff-history"

// past is what the history of a lab file is made of.
type past struct {
	Schema string             `json:"schema"`
	Runs   map[string]pastRun `json:"runs"` // by folder
	unread map[string]string  // why
}

// pastRun is one run, as it was read from files in a state by a program.
type pastRun struct {
	State   string      `json:"state"`
	Program string      `json:"program"`
	Run     history.Run `json:"run"`
}

const pastSchema = "bakeoff/runsite-history/v1"

// readPast returns the runs of a lab file for its history. It reads only those that are
// not kept, and keeps them. What is kept may come from a stranger, as the runs may.
func (x *Index) readPast(f *facet) past {
	name := path.Join(pastDir, strings.TrimSuffix(path.Base(f.File), ".html")+".json")
	old, out := x.keptPast(name), past{Schema: pastSchema, Runs: map[string]pastRun{}, unread: map[string]string{}}
	changed := len(old.Runs) != len(f.runs)
	for _, i := range f.runs {
		e := &x.entries[i]
		if r, ok := old.Runs[e.Folder]; ok && r.State == e.State && r.Program == e.Program {
			out.Runs[e.Folder] = r
			continue
		}
		changed = true
		if e.past != nil {
			out.Runs[e.Folder] = pastRun{e.State, e.Program, *e.past}
			continue
		}
		r, err := report.ReadHistory(filepath.Join(x.root.Name(), e.Folder))
		if err != nil {
			out.unread[e.Folder] = err.Error()
			continue
		}
		out.Runs[e.Folder] = pastRun{e.State, e.Program, r.Primary()}
	}
	if data, err := json.Marshal(out); changed && err == nil {
		// Without it, the next build reads the runs again.
		if err := x.root.Mkdir(pastDir, 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			_ = atomicfile.WriteUnsyncedIn(x.root, name, data, 0o666)
		}
	}
	return out
}

func (x *Index) keptPast(name string) (out past) {
	data, err := bounded.ReadIn(x.root, name, maxCache)
	if err != nil {
		return past{}
	}
	return decodePast(data)
}

func decodePast(data []byte) (out past) {
	if json.Unmarshal(data, &out) != nil || out.Schema != pastSchema {
		return past{}
	}
	return out
}

// Tidy removes what is kept for histories that are not pages any more.
func (x *Index) Tidy() {
	live := map[string]bool{}
	for _, k := range kinds {
		for _, f := range x.facets[k.name] {
			if x.historyFile(k, f) != "" {
				live[strings.TrimSuffix(path.Base(f.File), ".html")+".json"] = true
			}
		}
	}
	files, err := fs.ReadDir(x.root.FS(), pastDir)
	if err != nil {
		return
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".json") && !live[f.Name()] {
			_ = x.root.Remove(path.Join(pastDir, f.Name())) // a cache
		}
	}
	if len(live) == 0 {
		_ = x.root.Remove(pastDir)
	}
}
