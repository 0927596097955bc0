package report

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
	"bakeoff/publish/chart"
)

// Entry is what an index says of a run. Its text is harmless to a terminal, and not
// escaped for HTML.
type Entry struct {
	Name       string   `json:"name"` // of the folder
	Lab        string   `json:"lab"`  // "" if the results cannot be read
	Lead       string   `json:"lead"`
	Machine    string   `json:"machine"` // the model of its CPU; "" if it is not known
	Baseline   string   `json:"baseline"`
	Contenders []Side   `json:"contenders"` // the baseline and those that are compared with it
	Workloads  []string `json:"workloads"`
	// Begun is when the first trial began, zero without a journal; When says the same, and
	// until when, in words.
	Begun     time.Time  `json:"begun"`
	When      string     `json:"when"`
	Ends      string     `json:"ends"`
	Tally     []Tally    `json:"tally"`
	Decisions []Decision `json:"decisions"`
	Notice    Notice     `json:"notice"`
	Command   string     `json:"command"` // that it measured, of workload command; "" for other work
	Problem   string     `json:"problem"` // why it cannot be read; "" if it can
	Page      bool       `json:"page"`    // it has a page
}

// Side is one contender.
type Side struct{ Name, Driver string }

// Decision is one verdict of a run.
type Decision struct {
	Contender, Cell, Workload, Metric string
	Mark                              chart.Mark
	Word                              string
	Short                             string // the difference in a column of a table
}

// Tally counts the verdicts of one kind.
type Tally = tally

// Describe reads what an index says of the run in a folder, and what package history needs
// of it. It reads each file once. A run that cannot be read has a Problem; one without a
// history has the reason in err.
func Describe(runDir string) (out Entry, past history.Run, err error) {
	out.Name = safetext.Line(filepath.Base(runDir))
	run, err := store.Open(runDir)
	if err != nil {
		out.problem(err)
		return out, past, err
	}
	defer run.Close()
	if info, err := fs.Stat(run.FS(), store.ReportFile); err == nil && info.Mode().IsRegular() {
		out.Page = true
	}
	e := &contents{base: out.Name}
	var o evidence.Outline
	e.results, o, err = evidence.ReadResults(run)
	if fault.Is(err, fault.NotFound) {
		err = errors.New(NoResultsYet)
	}
	if err != nil {
		out.problem(err)
		return out, past, err
	}
	if past, err = pastOf(run, runDir, e.results, o); err == nil {
		past = past.Primary()
		past.Results.Contenders = slices.Clone(past.Results.Contenders) // tidy changes those of e
	}
	if e.outline(o); o.Damage != nil {
		out.Problem = "the journal is damaged"
	}
	if fp, err := run.Fingerprint(e.results.Baseline); err == nil {
		out.Machine = safetext.Clip(safetext.Line(fp.Facts["cpu.model"]), 100)
	}
	e.makeHarmless()
	out.describe(newBuilder(e))
	past.Cautions = out.Notice.Cautions()
	return out, past, err
}

// DescribeResults is Describe for a run without its folder, of which only the results and
// what is beside them here are known. It may change r.
func DescribeResults(name, lab, machine string, r analysis.Results, unplanned []string, began, ended time.Time) Entry {
	out := Entry{Name: safetext.Line(name), Machine: safetext.Clip(safetext.Line(machine), 100)}
	e := &contents{base: out.Name, results: r, unplanned: unplanned, hasPlan: true}
	e.plan.Lab = lab
	e.lines = []store.Line{{At: began}, {At: ended}}
	e.makeHarmless()
	out.describe(newBuilder(e))
	return out
}

// NoResultsYet is the problem of a run that has not ended.
const NoResultsYet = "no results yet"

// problem notes why a run cannot be read.
func (out *Entry) problem(err error) { out.Problem = safetext.Clip(safetext.Line(err.Error()), 300) }

// outline keeps what an index shows of a run's plan and journal: names, and when it began
// and ended.
func (e *contents) outline(o evidence.Outline) {
	e.unplanned = o.Unplanned
	if e.hasPlan = o.Plan != nil; e.hasPlan {
		e.plan.Lab, e.plan.Profile = o.Plan.Lab, o.Plan.Profile
	}
	first, last := spanOf(o.Lines)
	e.lines = []store.Line{{At: first}, {At: last}}
}

// The length of a command line in an index, and of each of its commands, in bytes.
const (
	maxCommands = 240
	maxCommand  = 120
)

// commandLine is what the cells of workload command ran, as a shell reads it: "gzip -1 big;
// zstd -1 big". The values of a sweep have one line: "gzip '-{level}' big".
func (e *contents) commandLine() string {
	var out []string
	size := 0
	for _, k := range e.results.Cells {
		for _, c := range e.results.Contenders {
			if k.Workload != "command" || size > maxCommands {
				break
			}
			params := c.Params[k.Name]
			if s := c.Sweep; params["argv"] == "" ||
				s != nil && params["argv"] == strings.ReplaceAll(k.Params["argv"], "{"+s.Name+"}", s.Value) {
				params = k.Params
			}
			line := safetext.Clip(safetext.Line(shell.Quote(params.List("argv")...)), maxCommand)
			if line != "" && !e.isTwin(c.Name) && !slices.Contains(out, line) {
				out, size = append(out, line), size+len(line)
			}
		}
	}
	return safetext.Clip(strings.Join(out, "; "), maxCommands)
}

// describe fills in what the results say.
func (out *Entry) describe(b *builder) {
	b.judgeRun()
	r := &b.results
	out.Notice, out.Command = b.page.Notice, b.executed
	out.Lab, out.Lead, out.Baseline = b.page.Title, b.page.Lead, r.Baseline
	out.Begun, out.When, out.Ends = b.beginTime(), b.timeRange(), analysis.EndedText(r.Ended)
	out.Tally = b.page.Tally
	workloads := map[string]string{}
	for _, k := range r.Cells {
		workloads[k.Name] = k.Workload
		out.Workloads = lists.AddNew(out.Workloads, k.Workload)
	}
	for _, c := range r.Contenders {
		if !b.isTwin(c.Name) {
			out.Contenders = append(out.Contenders, Side{c.Name, c.Driver})
		}
	}
	for _, g := range b.page.Groups {
		for _, s := range g.Items {
			out.Decisions = append(out.Decisions, Decision{s.Contender, g.Cell, workloads[g.Cell], g.Metric, s.Mark, s.Word,
				s.Short})
		}
	}
}
