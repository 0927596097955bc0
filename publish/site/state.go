package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"bakeoff/base/atomicfile"
	"bakeoff/publish/runsite"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/output"
)

// stateFile holds what the last build knew. It is a cache: without it, or with one of
// another program, everything is built again.
const stateFile = ".bakeoff-site.json"

// stateName is the name of the state for an output: another one has a state of its own,
// because a build removes what the state names.
func stateName(outside string) string {
	if outside == "" {
		return stateFile
	}
	if abs, err := filepath.Abs(outside); err == nil {
		outside = abs
	}
	return ".bakeoff-site-" + content.Short(outside) + ".json"
}

// maxState bounds the state that is read, in bytes.
const maxState = 256 << 20

// state is what a build leaves for the next one. Its file has two lines, so that both can
// be read at once: Files, and the rest.
type state struct {
	Engine string                  `json:"engine"` // of the program and the settings
	Output map[string]output.Entry `json:"output"`
	Files  map[string]fileState    `json:"-"` // by name below the site
	// Runs are those of the index, by folder.
	Runs map[string]runsite.Entry `json:"runs,omitempty"`
}

// fileState is a source file as the last build read it.
type fileState struct {
	Size  int64         `json:"s"`
	Nanos int64         `json:"t"`
	Read  int64         `json:"r"` // when it was read, Unix nanoseconds
	Post  *content.Post `json:"p,omitempty"`
	Image *imageState   `json:"i,omitempty"`
	Sum   string        `json:"d,omitempty"` // digest of a static file

	Warnings []string `json:"w,omitempty"`
}

type imageState struct{ Width, Height int }

// racy is how close to a reading a file may have changed without another time: file
// systems store times in steps.
const racy = int64(2e9)

// isFresh reports whether the file is surely the one that was read.
func (f fileState) isFresh(info fs.FileInfo) bool {
	return f.Size == info.Size() && f.Nanos == info.ModTime().UnixNano() && f.Nanos < f.Read-racy
}

// readState reads the state of the last build; damaged or foreign ones count as none.
func readState(root *os.Root, name, engine string) state {
	none := state{Engine: engine, Files: map[string]fileState{}}
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxState {
		return none
	}
	text, err := root.ReadFile(name)
	if err != nil {
		return none
	}
	return decodeState(text, engine)
}

func decodeState(text []byte, engine string) state {
	none := state{Engine: engine, Files: map[string]fileState{}}
	files, rest, _ := bytes.Cut(text, []byte("\n"))
	var s state
	var problems [2]error
	parallel(2, func(i int) {
		if i == 0 {
			problems[i] = json.Unmarshal(files, &s.Files)
		} else {
			problems[i] = json.Unmarshal(rest, &s)
		}
	})
	if errors.Join(problems[:]...) != nil {
		return none
	}
	if s.Engine != engine {
		// What was written is still known, so that it can be removed.
		none.Output = s.Output
		for name, e := range none.Output {
			e.Key = ""
			none.Output[name] = e
		}
		return none
	}
	if s.Files == nil {
		s.Files = none.Files
	}
	return s
}

// writeState replaces the state in one step.
func (s state) writeState(root *os.Root, name string) error {
	files, err := json.Marshal(s.Files)
	if err != nil {
		return err
	}
	rest, err := json.Marshal(s)
	if err != nil {
		return err
	}
	text := append(append(files, '\n'), rest...)
	return atomicfile.WriteUnsyncedIn(root, name, text, 0o644)
}
