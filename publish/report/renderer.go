package report

import (
	"io"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// Renderer writes the answer of a run in one form. Every form says what the notice of the
// run says.
type Renderer struct {
	Name  string
	write func(w io.Writer, e *contents, opt Option) error
}

// Page is the report of a run as one self-contained page, whatever its size.
var Page = Renderer{"page", writePage}

// Text is the answer in whole sentences for a terminal: first the alarms, then the
// verdicts, the intervals as bars, and what is missing.
var Text = Renderer{"text", writeText}

// Brief is the answer on one screen of a terminal: a row for each contender with its
// median, its interval as a bar and its verdict, below it what keeps a comparison from
// being decided, and the curve of a sweep.
var Brief = Renderer{"brief", writeBrief}

// Markdown is the answer as a table for an issue or a pull request: the medians of both
// sides, the difference with its interval, the verdict, and which run it is.
var Markdown = Renderer{"markdown", writeMarkdown}

// Badge is the verdicts as a small SVG picture for a README: in words, and in a color. A
// run that is not to be trusted says so instead.
var Badge = Renderer{"badge", writeBadge}

// Renderers lists all forms of an answer.
func Renderers() []Renderer { return []Renderer{Page, Text, Brief, Markdown, Badge} }

// Folder writes the answer of the run in a folder. Errors are those of Write.
func (r Renderer) Folder(w io.Writer, runDir string, opt Option) error {
	run, err := store.Open(runDir)
	if err != nil {
		return fault.Op("report", err)
	}
	defer run.Close()
	e, err := loadContents(run)
	if err != nil {
		return fault.Op("report", err)
	}
	e.order = opt.Sort
	return fault.Wrap(fault.Lab, "report", r.write(w, e, opt))
}

// Results writes the answer that results give. unplanned is how the run differs from what
// it registered (evidence.Outline). Foreign text is made harmless (package safetext).
func (r Renderer) Results(w io.Writer, results analysis.Results, unplanned []string, opt Option) error {
	return r.write(w, contentsOf(results, unplanned, opt.Sort), opt)
}

// contentsOf are the results alone, made harmless in a copy.
func contentsOf(r analysis.Results, unplanned []string, order Order) *contents {
	e := &contents{results: r, unplanned: slices.Clone(unplanned), order: order}
	e.copyResults()
	e.makeHarmless()
	return e
}

// answered returns a builder that has judged the contents.
func answered(e *contents) *builder {
	b := newBuilder(e)
	b.judgeRun()
	return b
}
