// Package report writes a run as a page that shows its evidence, and the
// same answer as text for a terminal.
//
// It reads nothing but the run folder, so that anybody's run can be published
// anywhere. The folder may come from a stranger: reads are bounded, text is made
// harmless once, when it is read (package safetext), and escaped where it is
// shown.
package report

import (
	"bytes"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/lab/store"
)

// Option is how a page is written.
type Option struct {
	// Version of the program that writes the page; "" leaves it out.
	Version string
	// Defaults has the defaults of each workload's parameters. The page folds
	// away a parameter that has its default in all cells; nil shows them all.
	Defaults map[string]param.Values
	Sort     Order // of the contenders
}

// Write reads the run folder runDir and writes report/index.html in it: one
// file that needs no network and has no script. The same folder gives the same
// bytes. A folder without results is an error of kind fault.NotFound. The page
// lists whatever else is missing or unreadable.
func Write(runDir string, opt Option) error {
	run, err := store.Open(runDir)
	if err != nil {
		return fault.Op("report", err)
	}
	defer run.Close()
	e, err := load(run)
	if err != nil {
		return fault.Op("report", err)
	}
	e.order = opt.Sort
	var b bytes.Buffer
	if err := render(&b, newPage(e, opt)); err != nil {
		return fault.Wrap(fault.Lab, "report: "+runDir, err)
	}
	return fault.Op("report", run.WriteFile(store.ReportFile, b.Bytes()))
}
