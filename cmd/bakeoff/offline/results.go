package offline

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
	workloadall "bakeoff/measure/workload/all"
)

// readRunOf reads results.json of a run, when it began, and how it differs from what it
// registered. It warns about such a run.
func (a reader) readRunOf(arg string) (out history.Run, err error) {
	run, err := openRun(arg)
	if err != nil {
		return out, err
	}
	defer run.Close()
	var o evidence.Outline
	out.Results, o, err = a.readOutlined(run)
	out.Folder, out.Unplanned, out.At = run.Dir(), o.Unplanned, o.Began()
	return out, err
}

// readOutlined reads results and outline of a run, and says on standard error why not to
// trust them.
func (a reader) readOutlined(run *store.Run) (analysis.Results, evidence.Outline, error) {
	dir := run.Dir()
	r, o, err := evidence.ReadResults(run)
	if fault.Is(err, fault.NotFound) {
		return r, o, fault.WithFix(fault.Op(dir, err), "the run has not ended, or its results were removed: run bakeoff "+
			"report "+shell.Quote(dir)+" for the completed blocks, or bakeoff run --resume "+shell.Quote(dir)+" to continue")
	}
	if err != nil {
		return r, o, fault.Op(dir, err)
	}
	if len(o.Unplanned) > 0 {
		fmt.Fprintf(a.Err, "bakeoff: %s is not as planned: %s; run bakeoff verify %s for details\n", safetext.Line(dir),
			safetext.Line(o.Unplanned[0]), shell.Quote(dir))
	}
	if newer := r.Newer(); newer != "" {
		fmt.Fprintf(a.Err, "bakeoff: %s: %s\n", safetext.Line(dir), newer)
	}
	return r, o, nil
}

// warnUnplanned says on standard error why not to trust the results of a run.
func (a reader) warnUnplanned(dir string) {
	run, err := store.Open(dir)
	if err != nil {
		return // the command itself says so
	}
	defer run.Close()
	_, _, _ = a.readOutlined(run)
}

// sumUp writes the results of a run that was killed before its end. A run that
// ended keeps the results that it wrote. sumUp refuses a run that is still
// running, and one without a completed block (fault.NotFound).
func sumUp(dir string) error {
	run, err := store.Open(dir)
	if err != nil {
		return err
	}
	defer run.Close()
	if done, err := hasEnded(run); done || err != nil {
		return err
	}
	if lock.Held(filepath.Join(dir, store.JournalFile)) {
		return fault.WithFix(fault.New(fault.Lab, "the run %s is still active; bakeoff writes its report when the "+
			"run ends", dir),
			"press Ctrl-C to end the run now; its report then covers the blocks so far")
	}
	data, err := evidence.Load(run, workloadall.Parsers())
	if err != nil {
		return fault.WithFix(fault.Op(dir, err), "run bakeoff verify "+shell.Quote(dir)+" for details")
	}
	if len(data.Observations) == 0 {
		return fault.WithFix(fault.New(fault.NotFound, "%s has no completed block to report", dir),
			"run bakeoff run --resume "+shell.Quote(dir)+" to continue")
	}
	text, err := json.MarshalIndent(analysis.Analyse(data), "", " ")
	if err != nil {
		return fault.Op("results", err)
	}
	return run.WriteResults(append(text, '\n'))
}

// hasEnded reports whether a run ended and has results. Where the journal is damaged, the
// results decide: a journal without any line for the end of a run whose results say that it
// ended has lost its last lines, and other results must not hide this.
func hasEnded(run *store.Run) (bool, error) {
	text, err := run.Results()
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lines, err := run.Journal()
	if err != nil {
		return true, nil
	}
	isEnd := func(l store.Line) bool { return l.Type == store.LineEnd }
	if !slices.ContainsFunc(lines, isEnd) {
		r, err := analysis.ParseResults(text)
		return err == nil && r.Ended != "", nil
	}
	return isEnd(lines[len(lines)-1]), nil
}
