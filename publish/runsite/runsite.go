// Package runsite makes pages about a folder of runs: an index with a search and filters, a
// page for each workload, contender, machine, lab file and verdict, and the history of each
// lab file. Build writes them into the folder itself, with the report of each run; package
// site makes them a part of a site of posts. They need no server, and no script: with
// JavaScript the index can also be searched.
//
// The folders may come from strangers. Their text passes package safetext when it is read,
// and html/template when it is written; a report that this program did not write is written
// again, and links lead into the folder only.
package runsite

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"bakeoff/base/fault"
	"bakeoff/publish/report"
)

// IndexFile is the name of the index.
const IndexFile = "index.html"

// IndexOfReport is the address of the index, relative to the report of a run in its folder.
const IndexOfReport = "../../" + IndexFile

// Option is how a site is written.
type Option struct {
	Report report.Option // of the pages of the runs
	// Program identifies the program: what another one read or wrote is read and written
	// again. "" is the version of Report.
	Program string
	// Force reads every run again and writes every report again.
	Force bool
}

// Summary is what Build did.
type Summary struct {
	Runs    int `json:"runs"`
	Read    int `json:"read"`    // runs that were read: the others are as they were
	Reports int `json:"reports"` // that were written
	Pages   int `json:"pages"`   // of the index
	Written int `json:"written"` // of Pages, those that changed
	Removed int `json:"removed"` // pages of the index for which there is no run any more
}

// Build writes the site of the runs in a folder into that folder: index.html and the
// folder "index" with its other pages. A folder without any run is an error of kind
// fault.NotFound. A run that cannot be read is listed with the reason.
func Build(runsDir string, opt Option) (Summary, error) {
	op := "site: " + runsDir
	root, err := os.OpenRoot(runsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return Summary{}, fault.Wrap(fault.NotFound, op, err)
	}
	if err != nil {
		return Summary{}, fault.Wrap(fault.Lab, op, err)
	}
	defer root.Close()
	names, err := Folders(root)
	if err != nil {
		return Summary{}, fault.Wrap(fault.Lab, op, err)
	}
	if len(names) == 0 {
		return Summary{}, fault.WithFix(fault.New(fault.NotFound, "%s: no run found", op),
			"name a folder that contains run folders, such as runs")
	}
	opt.Program = cmp.Or(opt.Program, opt.Report.Version)
	old := readCache(root)
	if opt.Force {
		old = cache{}
	}
	sum := Summary{Runs: len(names)}
	var reports atomic.Int64
	entries, read, err := Read(root, names, old.Runs, opt.Program, func(e *Entry) error {
		wrote, err := ensureReport(root, e, opt)
		if wrote {
			reports.Add(1)
		}
		return err
	})
	sum.Read, sum.Reports = read, int(reports.Load())
	if err != nil {
		return sum, fault.Op(op, err)
	}
	if err := writePages(root, entries, old, opt, &sum); err != nil {
		return sum, fault.Wrap(fault.Lab, op, err)
	}
	return sum, nil
}

// Holds reports whether a folder contains the folder of a run.
func Holds(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	names, err := Folders(root)
	return err == nil && len(names) > 0
}

// ensureReport writes the report of a run if it is missing or was not written by this
// program. It has no link to the index: a run folder may be moved or sent alone.
func ensureReport(root *os.Root, e *Entry, opt Option) (wrote bool, err error) {
	if e.Lab == "" {
		e.Page = false // nobody knows who wrote it
		return false, nil
	}
	if e.Page = true; !opt.Force && isOurs(root, e.Folder) {
		return false, nil
	}
	if err := report.Write(filepath.Join(root.Name(), e.Folder), opt.Report); err != nil {
		return false, err
	}
	e.State = stateOf(root, e.Folder)
	return true, nil
}
