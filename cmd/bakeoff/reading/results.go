package reading

import (
	"encoding/json"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
	workloadall "bakeoff/measure/workload/all"
)

// readResults reads results.json of a run.
func readResults(arg string) (r analysis.Results, err error) {
	dir, err := RunDir(arg)
	if err != nil {
		return r, err
	}
	run, err := store.Open(dir)
	if err != nil {
		return r, err
	}
	defer run.Close()
	text, err := run.Results()
	if err != nil {
		return r, fault.WithFix(fault.Op(dir, err), "a run that has not ended has none: bakeoff report "+dir+
			" makes them of the blocks that are done, bakeoff run --resume "+dir+" goes on")
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fault.Wrap(fault.Invalid, dir+"/"+store.ResultsFile, err)
	}
	if r.Schema != analysis.ResultsSchema {
		return r, fault.New(fault.Invalid, "%s/%s: schema is %q, this program reads %q", dir, store.ResultsFile, r.Schema, analysis.ResultsSchema)
	}
	return r, nil
}

// sumUp writes the results of a run that was killed before its end. One that
// came to it keeps the results that it wrote. One that is going on is refused,
// and where no block is done there is nothing to write, and a fault.NotFound.
func sumUp(dir string) error {
	run, err := store.Open(dir)
	if err != nil {
		return err
	}
	defer run.Close()
	if done, err := ended(run); done || err != nil {
		return err
	}
	if lock.Held(filepath.Join(dir, store.JournalFile)) {
		return fault.WithFix(fault.New(fault.Lab, "%s is going on: it is reported when it ends", dir), "Ctrl-C ends it with what there is")
	}
	data, err := evidence.Load(run, workloadall.Workloads())
	if err != nil {
		return fault.WithFix(fault.Op(dir, err), "bakeoff verify "+dir+" tells more")
	}
	if len(data.Observations) == 0 {
		return fault.WithFix(fault.New(fault.NotFound, "%s has no block that is done, so nothing can be reported", dir),
			"bakeoff run --resume "+dir+" goes on with it")
	}
	text, err := json.MarshalIndent(analysis.Analyse(data), "", " ")
	if err != nil {
		return fault.Op("results", err)
	}
	return run.WriteResults(append(text, '\n'))
}

// ended tells whether a run came to its end and has its results. A journal
// that is damaged says nothing; then the results are what there is.
func ended(run *store.Run) (bool, error) {
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
