// Package report writes a run as a page that shows its evidence, and the
// same answer as text for a terminal.
//
// It reads the run folder and nothing else, so that anybody's run can be
// published anywhere. Whatever is in the folder may come from a stranger:
// reads are bounded, text is cleaned of control characters once, when it is
// read, and escaped where it is shown.
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
	// Defaults are those of the parameters of each workload. A parameter that
	// has its default in all cells is folded away; nil shows them all.
	Defaults map[string]param.Values
}

// Write reads the run folder runDir and writes report/index.html in it: one
// file that needs no network and no script. The same folder gives the same
// bytes. A folder without results is an error of kind fault.NotFound;
// whatever else is missing or unreadable is said on the page.
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
	var b bytes.Buffer
	if err := render(&b, newPage(e, opt)); err != nil {
		return fault.Wrap(fault.Lab, "report: "+runDir, err)
	}
	return fault.Op("report", run.WriteFile(store.ReportFile, b.Bytes()))
}
