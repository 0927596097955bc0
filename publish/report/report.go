// Package report writes a run as a page that shows its evidence, and the
// same answer as text for a terminal.
//
// It reads nothing but the run folder, so that anybody's run can be published
// anywhere. The folder may come from a stranger: reads are bounded, text is made
// harmless once, when it is read (package safetext), and escaped where it is
// shown.
package report

import (
	"io"

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
	// Files makes every figure available as SVG, PNG and CSV, next to the page.
	Files bool
	// Boots makes pages about the boots of a run, which Write puts next to the page of the
	// run, with links; nil makes none.
	Boots func(*store.Run) ([]BootPage, error)
	// Single makes one page of a report of any size.
	Single bool
	// Terminal is what Text and Brief are written for.
	Terminal Terminal
	// Index is the address of an index of runs, relative to the page; "" for none.
	Index string
}

// Write reads the run folder runDir and writes report/index.html in it, which needs no
// network and has no script. If that page would be larger than 500 KB, every cell has a
// page of its own, to which the first links. The same folder gives the same bytes. A
// folder without results is an error of kind fault.NotFound. The page lists whatever else
// is missing or unreadable.
func Write(runDir string, opt Option) error {
	run, err := store.Open(runDir)
	if err != nil {
		return fault.Op("report", err)
	}
	defer run.Close()
	b, p, err := composeRun(run, opt)
	if err != nil {
		return err
	}
	if err := writeFiles(run, b, p); err != nil {
		return fault.Op("report", err)
	}
	return fault.Op("report", run.WriteFile(store.ReportFile, p.main))
}

// writePage writes the one page, and nothing to the folder.
func writePage(w io.Writer, e *contents, opt Option) error {
	opt.Single, opt.Files = true, false
	_, p, err := compose(nil, e, opt)
	if err != nil {
		return err
	}
	_, err = w.Write(p.main)
	return err
}

// compose makes the pages of a run. Without run there are no pages about boots.
func compose(run *store.Run, e *contents, opt Option) (*builder, *pages, error) {
	if opt.Single {
		e.files = nil // the page stands alone
	}
	b := buildPage(e, opt)
	b.makeBootPages(run, opt)
	p, err := layOut(b, opt)
	return b, p, fault.Wrap(fault.Lab, "report: "+e.base, err)
}

// composeRun makes the pages of a run from its folder.
func composeRun(run *store.Run, opt Option) (*builder, *pages, error) {
	e, err := loadContents(run)
	if err != nil {
		return nil, nil, fault.Op("report", err)
	}
	e.order = opt.Sort
	return compose(run, e, opt)
}
