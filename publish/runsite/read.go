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
	"sync/atomic"

	"bakeoff/judge/history"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// Entry is a run of an index.
type Entry struct {
	report.Entry
	Folder  string `json:"folder"`
	State   string `json:"state"`   // of the files that Entry was read from
	Program string `json:"program"` // that read them

	href string       // of its page, below the folder of the index; "": its report
	past *history.Run // of one that was read just now
}

// mostPasts bounds the runs of which Read keeps the numbers for a history: those of the
// others are read again.
const mostPasts = 1000

// maxRuns bounds the runs of one site.
const maxRuns = 20_000

// Folders are the names of the run folders in a folder, the newest first: names begin with
// the time.
func Folders(root *os.Root) (names []string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(entries) {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || e.Name() == PagesDir || len(names) == maxRuns {
			continue
		}
		if info, err := root.Lstat(filepath.Join(e.Name(), store.JournalFile)); err == nil && info.Mode().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Read describes runs for an index. It reads only those that old, by folder, does not have
// in the same state, and calls each for them; nil calls nothing. The number of runs that
// were read is the second result.
func Read(root *os.Root, names []string, old map[string]Entry, program string,
	each func(*Entry) error) ([]Entry, int, error) {
	out, problems := make([]Entry, len(names)), make([]error, len(names))
	var next, read atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
				name := names[i]
				state := stateOf(root, name)
				if known, ok := old[name]; ok && known.State == state && known.Program == program {
					out[i] = known
					continue
				}
				read.Add(1)
				e := Entry{Folder: name, State: state, Program: program}
				var past history.Run
				var err error
				if e.Entry, past, err = report.Describe(filepath.Join(root.Name(), name)); err == nil && i < mostPasts {
					e.past = &past
				}
				if each != nil {
					problems[i] = each(&e)
				}
				out[i] = e
			}
		})
	}
	workers.Wait()
	return out, int(read.Load()), errors.Join(problems...)
}

// maxHead bounds what ours reads of a report.
const maxHead = 64 << 20

// isOurs reports whether the report of a run is one that this program or another version of
// it could have written: with the policy that permits no script.
func isOurs(root *os.Root, name string) bool {
	f, err := root.Open(filepath.Join(name, filepath.FromSlash(store.ReportFile)))
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHead {
		return false
	}
	page := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := page.ReadFrom(f); err != nil {
		return false
	}
	return report.Harmless(page.Bytes())
}
