package runsite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	"bakeoff/base/bounded"
	"bakeoff/base/safetext"
	"bakeoff/lab/store"
)

// cacheFile keeps what the last Build read, so that the next one reads only what changed.
const cacheFile = ".bakeoff-site.json"

const cacheSchema = "bakeoff/runsite/v2"

// maxCache bounds the cache, in bytes.
const maxCache = 256 << 20

// cache is what the last Build knew.
type cache struct {
	Schema string           `json:"schema"`
	Runs   map[string]Entry `json:"runs"` // by folder
	// Pages are those of the index, relative to the folder, with their identities.
	Pages map[string]string `json:"pages"`
}

// readCache reads the cache. One that is missing or damaged is empty; it may come from a
// stranger, as the folder may.
func readCache(root *os.Root) (c cache) {
	data, err := bounded.ReadIn(root, cacheFile, maxCache)
	if err != nil {
		return cache{}
	}
	return decodeCache(data)
}

func decodeCache(data []byte) (c cache) {
	if json.Unmarshal(data, &c) != nil || c.Schema != cacheSchema {
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
// size and time. It is "" if the folder is not that of a run.
func stateOf(root *os.Root, name string) string {
	dir, err := root.OpenRoot(name) // once: a root walks every part of a name
	if err != nil {
		return ""
	}
	defer dir.Close()
	state := make([]byte, 0, 160)
	for _, file := range []string{store.JournalFile, store.ResultsFile, store.PlanFile, store.LabFile, store.ReportFile} {
		info, err := dir.Lstat(filepath.FromSlash(file))
		switch {
		case err == nil && info.Mode().IsRegular():
			state = strconv.AppendInt(state, info.Size(), 10)
			state = strconv.AppendInt(append(state, '@'), info.ModTime().UnixNano(), 10)
		case file == store.JournalFile:
			return ""
		default:
			state = append(state, '-')
		}
		state = append(state, ';')
	}
	return string(state)
}
