package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/lab/store"
)

//go:embed index.html
var indexHTML string

var indexTemplate = template.Must(template.Must(pageTemplate.Clone()).New("index").Parse(indexHTML))

// IndexFile is the name of the page that Index writes.
const IndexFile = "index.html"

// maxRuns bounds how many runs an index lists: the newest.
const maxRuns = 500

// index is what the template shows.
type index struct {
	CSP, Version, Title string
	Labs                []labRuns
	Left                int // runs that are not listed, being too many
}

// labRuns are the runs of one lab file, the newest first.
type labRuns struct {
	Name string
	Runs []runRow
}

type runRow struct {
	Name, Href       string // Href is "" where there is no page
	When, Lead, Ends string
	Tally            []tally
	Unplanned        string // how the run differs from what it registered, or ""
	Alarm            bool
	Problem          string
}

// Index writes runsDir/index.html: every run in the folder with its verdicts
// counted and a link to its page. It skips folders that are not runs, and lists
// a run that cannot be read with the reason. A folder without any run is an
// error of kind fault.NotFound.
func Index(runsDir string, opt Option) error {
	op := "report: index " + runsDir
	root, err := os.OpenRoot(runsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.NotFound, op, err)
	}
	if err != nil {
		return fault.Wrap(fault.Lab, op, err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fault.Wrap(fault.Lab, op, err)
	}
	page := index{Title: "Runs", Version: safetext.Line(opt.Version), CSP: policy()}
	labs := map[string]int{}
	listed := 0
	// Names begin with the time, so the last is the newest.
	for _, entry := range slices.Backward(entries) {
		if !entry.IsDir() || !holdsRun(root, entry.Name()) {
			continue
		}
		if listed++; listed > maxRuns {
			page.Left++
			continue
		}
		lab, row := runOf(runsDir, entry.Name())
		i, ok := labs[lab]
		if !ok {
			i = len(page.Labs)
			labs[lab] = i
			page.Labs = append(page.Labs, labRuns{Name: lab})
		}
		page.Labs[i].Runs = append(page.Labs[i].Runs, row)
	}
	if listed == 0 {
		return fault.WithFix(fault.New(fault.NotFound, "%s: no run found", op),
			"name a folder that contains run folders, such as runs")
	}
	var b bytes.Buffer
	if err := indexTemplate.Execute(&b, page); err != nil {
		return fault.Wrap(fault.Lab, op, err)
	}
	return fault.Wrap(fault.Lab, op, replace(root, IndexFile, b.Bytes()))
}

// holdsRun reports whether a folder looks like a run.
func holdsRun(root *os.Root, name string) bool {
	info, err := root.Lstat(filepath.Join(name, store.JournalFile))
	return err == nil && info.Mode().IsRegular()
}

// runOf reads what the index says of one run.
func runOf(dir, name string) (lab string, row runRow) {
	e := Describe(filepath.Join(dir, name))
	row = runRow{Name: e.Name, Lead: e.Lead, When: e.When, Ends: e.Ends, Tally: e.Tally, Alarm: e.Alarm,
		Unplanned: e.Unplanned, Problem: e.Problem}
	if e.Page {
		row.Href = (&url.URL{Path: name + "/" + store.ReportFile}).String()
	}
	if lab = e.Lab; lab == "" {
		lab = "Unreadable"
	}
	return lab, row
}

// replace writes a file so that readers see the old one or the new one.
func replace(root *os.Root, name string, data []byte) error {
	part := "." + name + ".part"
	if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(part, "."), err)
	}
	return root.Rename(part, name)
}
