// Package runsite makes a site of a folder of runs: an index with a search and filters, a
// page for each workload, contender, machine, lab file and verdict, and the report of each
// run. It needs no server, and no script: with JavaScript the index can also be searched.
//
// The folders may come from strangers. Their text passes package safetext when it is read,
// and html/template when it is written; a report that this program did not write is written
// again, and links lead into the folder only.
package runsite

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// IndexFile is the name of the index.
const IndexFile = "index.html"

// Option is how a site is written.
type Option struct {
	Report report.Option // of the pages of the runs
	// Force reads every run again and writes every report again.
	Force bool
	// Title is that of the index; "" is "Runs".
	Title string
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
	names, err := runsIn(root)
	if err != nil {
		return Summary{}, fault.Wrap(fault.Lab, op, err)
	}
	if len(names) == 0 {
		return Summary{}, fault.WithFix(fault.New(fault.NotFound, "%s: no run found", op),
			"name a folder that contains run folders, such as runs")
	}
	old := readCache(root)
	if opt.Force {
		old = cache{}
	}
	entries, sum, err := describeAll(root, runsDir, names, old, opt)
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
	names, err := runsIn(root)
	return err == nil && len(names) > 0
}

// maxRuns bounds the runs of one site.
const maxRuns = 20_000

// runsIn are the names of the run folders, the newest first: names begin with the time.
func runsIn(root *os.Root) (names []string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(entries) {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || len(names) == maxRuns {
			continue
		}
		if info, err := root.Lstat(filepath.Join(e.Name(), store.JournalFile)); err == nil && info.Mode().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// describeAll reads the runs that changed since the last time, and writes the reports
// that are missing or were not written by this program.
func describeAll(root *os.Root, dir string, names []string, old cache, opt Option) ([]entry, Summary, error) {
	sum := Summary{Runs: len(names)}
	out := make([]entry, len(names))
	var mutex sync.Mutex
	var failed error
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), 8) {
		workers.Go(func() {
			for i := range next {
				e, read, wrote, err := describe(root, dir, names[i], old, opt)
				mutex.Lock()
				out[i] = e
				if read {
					sum.Read++
				}
				if wrote {
					sum.Reports++
				}
				failed = errors.Join(failed, err)
				mutex.Unlock()
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	workers.Wait()
	return out, sum, failed
}

// describe reads one run, unless the cache knows it.
func describe(root *os.Root, dir, name string, old cache, opt Option) (e entry, read, wrote bool, err error) {
	state := stateOf(root, name)
	if known, ok := old.Runs[name]; ok && known.State == state && known.Version == opt.Report.Version {
		return known, false, false, nil
	}
	runDir := filepath.Join(dir, name)
	e = entry{Entry: report.Describe(runDir), Folder: name, Version: opt.Report.Version}
	if e.Lab != "" && (opt.Force || !ours(root, name)) {
		if err := report.Write(runDir, opt.Report); err != nil {
			return e, true, false, err
		}
		wrote, e.Page = true, true
	}
	if e.Lab == "" {
		e.Page = false // nobody knows who wrote it
	}
	e.State = stateOf(root, name)
	return e, true, wrote, nil
}

// maxHead bounds what ours reads of a report.
const maxHead = 64 << 20

// ours reports whether the report of a run is one that this program or another version of
// it could have written: with the policy that permits no script.
func ours(root *os.Root, name string) bool {
	f, err := root.Open(filepath.Join(name, filepath.FromSlash(store.ReportFile)))
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxHead {
		return false
	}
	var page bytes.Buffer
	if _, err := page.ReadFrom(f); err != nil {
		return false
	}
	return report.Harmless(page.Bytes())
}
