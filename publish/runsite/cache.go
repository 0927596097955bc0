package runsite

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// cacheFile keeps what the last Build read, so that the next one reads only what changed.
const cacheFile = ".bakeoff-site.json"

const cacheSchema = "bakeoff/runsite/v1"

// maxCache bounds the cache, in bytes.
const maxCache = 256 << 20

// cache is what the last Build knew.
type cache struct {
	Schema string           `json:"schema"`
	Runs   map[string]entry `json:"runs"` // by folder
	// Pages are those of the index, relative to the folder, with their identities.
	Pages map[string]string `json:"pages"`
}

// entry is a run of the site.
type entry struct {
	report.Entry
	Folder  string `json:"folder"`
	State   string `json:"state"`   // of the files that Entry was read from
	Version string `json:"version"` // of the program that read them
}

// readCache reads the cache. One that is missing or damaged is empty; it may come from a
// stranger, as the folder may.
func readCache(root *os.Root) (c cache) {
	f, err := root.Open(cacheFile)
	if err != nil {
		return cache{}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCache))
	if err != nil || json.Unmarshal(data, &c) != nil || c.Schema != cacheSchema {
		return cache{}
	}
	safetext.Scrub(&c, safetext.Line)
	for name, e := range c.Runs {
		if e.Folder != name { // scrubbed, or invented
			delete(c.Runs, name)
		}
	}
	return c
}

// stateOf identifies the content of the files that an entry is read from, as make does: by
// size and time.
func stateOf(root *os.Root, name string) string {
	var b strings.Builder
	for _, file := range []string{store.JournalFile, store.ResultsFile, store.PlanFile, store.LabFile, store.ReportFile} {
		info, err := root.Lstat(filepath.Join(name, filepath.FromSlash(file)))
		if err != nil || !info.Mode().IsRegular() {
			b.WriteString("-;")
			continue
		}
		fmt.Fprintf(&b, "%d@%d;", info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
