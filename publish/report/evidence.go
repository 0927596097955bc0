package report

import (
	"encoding/json"
	"fmt"
	"io/fs"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// contents is what a run folder holds, made harmless. problems lists what could
// not be read or is not shown.
type contents struct {
	base     string // name of the folder
	results  analysis.Results
	plan     plan.Plan
	hasPlan  bool
	lab      string
	lines    []store.Line
	executed string // what the cells of workload command ran
	prints   map[string]facts.Fingerprint
	machine  *calibrate.Calibration // nil: the machine was not calibrated
	strips   map[cellOf]*spent
	// unplanned says how the run differs from what it registered.
	unplanned []string
	files     []file
	problems  []string
	order     Order // of the contenders
}

// cellOf is a contender at a cell.
type cellOf struct{ contender, cell string }

// Bounds on what one page shows. They are far above any experiment that a
// person can read, and stop a hostile folder from filling the disk.
const (
	maxContenders  = 60
	maxCells       = 120
	maxComparisons = 3000
	maxList        = 2000 // entries of missing, gates, warnings …
)

func loadContents(run *store.Run) (*contents, error) {
	e := &contents{base: safetext.Line(run.Base()), prints: map[string]facts.Fingerprint{}}
	var o evidence.Outline
	var err error
	e.results, o, err = evidence.ReadResults(run)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.WithFix(err, "run `bakeoff run --resume` until the first block is done")
	}
	if err != nil {
		return nil, err
	}
	e.readPlan(run)
	e.readLab(run)
	// The names of raw outputs are checked against the journal before tidy
	// changes it.
	if e.unplanned, e.lines = o.Unplanned, o.Lines; o.Damage != nil {
		e.problem("The journal cannot be read to its end: %v", o.Damage)
	}
	e.readPrints(run)
	e.readMachine(run)
	e.strips = e.readSpent(run)
	e.files = e.readFiles(run)
	e.makeHarmless()
	return e, nil
}

// makeHarmless makes everything that was read harmless, and bounds it.
func (e *contents) makeHarmless() {
	e.executed = e.commandLine() // before line breaks, which separate its words, become spaces
	// There may be a million samples, and only their numbers are shown.
	samples := make([][]analysis.Point, len(e.results.Summaries))
	for i := range e.results.Summaries {
		s := &e.results.Summaries[i]
		samples[i], s.Samples = s.Samples, nil
	}
	safetext.Scrub(&e.results, safetext.Line)
	for i := range samples {
		e.results.Summaries[i].Samples = samples[i]
	}
	safetext.Scrub(&e.unplanned, safetext.Line)
	safetext.Scrub(&e.plan, safetext.Line)
	safetext.Scrub(&e.lines, safetext.Line)
	safetext.Scrub(&e.prints, safetext.Line)
	if e.machine != nil {
		safetext.Scrub(e.machine, safetext.Line)
	}
	e.boundLists()
}

func (e *contents) problem(format string, args ...any) {
	if len(e.problems) < 50 {
		e.problems = append(e.problems, safetext.Clip(safetext.Line(fmt.Sprintf(format, args...)), 600))
	}
}

func (e *contents) readPlan(run *store.Run) {
	data, err := run.Plan()
	if err == nil {
		err = json.Unmarshal(data, &e.plan)
	}
	if err != nil {
		e.plan = plan.Plan{}
		e.problem("The plan cannot be read, so this page has no design and no order of trials: %v", err)
		return
	}
	e.hasPlan = true
}

func (e *contents) readLab(run *store.Run) {
	data, err := run.Lab()
	if err != nil {
		e.problem("The lab file cannot be read: %v", err)
		return
	}
	e.lab = safetext.Text(string(data))
}

func (e *contents) readPrints(run *store.Run) {
	for _, c := range e.results.Contenders {
		if len(e.prints) >= maxContenders {
			break
		}
		fp, err := run.Fingerprint(c.Name)
		switch {
		case err == nil:
			e.prints[safetext.Line(c.Name)] = fp
		case !fault.Is(err, fault.NotFound):
			e.problem("The fingerprint of %s cannot be read: %v", safetext.Clip(c.Name, 60), err)
		}
	}
}

// boundLists cuts lists that nobody could read, and reports it.
func (e *contents) boundLists() {
	r := &e.results
	r.Contenders = cutList(e, "contenders", r.Contenders, maxContenders)
	r.Cells = cutList(e, "cells", r.Cells, maxCells)
	for i := range r.Cells {
		r.Cells[i].Metrics = cutList(e, "metrics of "+safetext.Clip(r.Cells[i].Name, 60), r.Cells[i].Metrics, 100)
	}
	r.Comparisons = cutList(e, "comparisons", r.Comparisons, maxComparisons)
	r.Missing = cutList(e, "missing cells", r.Missing, maxList)
	r.Warnings = cutList(e, "warnings", r.Warnings, maxList)
	if r.Twin != nil {
		r.Twin.Comparisons = cutList(e, "comparisons of the twin", r.Twin.Comparisons, maxComparisons)
	}
}

func cutList[T any](e *contents, what string, list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	e.problem("This page shows %d of %d %s. %s has all of them.", n, len(list), what, store.ResultsFile)
	return list[:n]
}

// file is a part of the run folder that the page links to.
type file struct {
	Name, About string
	Bytes       int64 // -1: a folder
}

// readFiles lists the files that exist, so that no link of the page is dead.
func (e *contents) readFiles(run *store.Run) []file {
	var out []file
	for _, f := range []file{
		{Name: store.LabFile, About: "the lab file as written"},
		{Name: store.PlanFile, About: "the plan, fixed before the first trial"},
		{Name: store.JournalFile, About: "every trial in the order of execution, one per line"},
		{Name: store.ResultsFile, About: "every number on this page, with all samples"},
		{Name: store.CalibrationFile, About: "the calibration of the machine when the run began"},
		{Name: store.RawDir, About: "the raw output of every trial", Bytes: -1},
		{Name: store.FingerprintDir, About: "facts about each environment", Bytes: -1},
	} {
		info, err := fs.Stat(run.FS(), f.Name)
		if err != nil || info.IsDir() != (f.Bytes < 0) {
			continue
		}
		if f.Bytes < 0 {
			f.Name += "/"
		} else {
			f.Bytes = info.Size()
		}
		out = append(out, f)
	}
	return out
}

// twinName is the name of the A/A twin, "" when there is none.
func (e *contents) twinName() string {
	if e.results.Twin != nil && e.results.Twin.Name != "" {
		return e.results.Twin.Name
	}
	c, _ := lists.Find(e.results.Contenders, func(c analysis.Contender) bool { return c.TwinOf != "" })
	return c.Name
}

// isTwin reports whether a contender is the baseline's second name.
func (e *contents) isTwin(name string) bool { return name != "" && name == e.twinName() }

// compares reports whether a contender has comparisons of the first family: it is
// neither the baseline nor its twin.
func (e *contents) compares(name string) bool { return name != e.results.Baseline && !e.isTwin(name) }
