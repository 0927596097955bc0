package offline

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/publish/export"
)

// readResults reads results.json of a run, and warns about a run that is not the one
// that it registered.
func (a reader) readResults(arg string) (r analysis.Results, err error) {
	one, err := a.readRunOf(arg)
	return one.Results, err
}

// readRunOf is readResults with how the run differs from what it registered.
func (a reader) readRunOf(arg string) (r export.Run, err error) {
	run, err := openRun(arg)
	if err != nil {
		return r, err
	}
	defer run.Close()
	dir := run.Dir()
	text, err := run.Results()
	if err != nil {
		return r, fault.WithFix(fault.Op(dir, err), "the run has not ended: run bakeoff report "+shell.Quote(dir)+
			" for the completed blocks, or bakeoff run --resume "+shell.Quote(dir)+" to continue")
	}
	if r.Results, err = analysis.ParseResults(text); err != nil {
		return r, fault.Op(dir, err)
	}
	r.Unplanned = a.warnUnplanned(dir)
	return r, nil
}

// warnUnplanned says on standard error that a run is not the one that it registered, and
// returns how it differs.
func (a reader) warnUnplanned(dir string) []string {
	run, err := store.Open(dir)
	if err != nil {
		return nil // the command itself says so
	}
	defer run.Close()
	problems := evidence.Unplanned(run)
	if len(problems) > 0 {
		fmt.Fprintf(a.Err, "bakeoff: %s is not as planned: %s; run bakeoff verify %s for details\n", safetext.Line(dir),
			safetext.Line(problems[0]), shell.Quote(dir))
	}
	return problems
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

// hasEnded reports whether a run ended and has results. Where the journal is damaged,
// the results decide.
func hasEnded(run *store.Run) (bool, error) {
	_, err := run.Results()
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
	return len(lines) > 0 && lines[len(lines)-1].Type == store.LineEnd, nil
}
