package runsite

import (
	"bytes"
	"path/filepath"
	"strings"

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
func (s *site) historyFile(k kind, f *facet) string {
	if k.name != "lab" || f.Count() < fewestRuns || f.Count() > mostRuns {
		return ""
	}
	return strings.Replace(f.File, "/"+k.name+"-", "/history-", 1)
}

// history writes the page of the history of a lab file. Runs that cannot be read are named
// on the page.
func (s *site) history(b *bytes.Buffer, f *facet) error {
	opt := history.Option{Alpha: analysis.MaxAlpha, By: compare.Relative}
	var runs []history.Run
	for _, i := range f.runs {
		folder := filepath.Join(s.dir, s.entries[i].Folder)
		r, err := report.ReadHistory(folder)
		if err != nil {
			opt.Unread = append(opt.Unread, history.Unread{Folder: folder, Reason: err.Error()})
			continue
		}
		runs = append(runs, r)
	}
	res, err := history.Of(runs, opt)
	if err != nil {
		return err
	}
	page, err := report.History(res, report.HistoryOption{Version: s.opt.Report.Version, Link: func(folder string) string {
		return "../" + filepath.Base(folder) + "/" + store.ReportFile
	}})
	b.Write(page)
	return err
}
