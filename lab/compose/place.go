package compose

import (
	"path"
	"path/filepath"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
)

// file is a file or folder that --file places in every environment.
type file struct {
	from, to string
	word     string
}

// parseFiles reads values of --file: PATH[:TO]. Without TO, the file gets its name in
// /opt, a folder that every system has.
func parseFiles(texts []string) (out []file, err error) {
	for _, text := range texts {
		f := file{from: text, word: "--file " + yamltree.Show(text)}
		if i := strings.LastIndex(text, ":/"); i >= 0 {
			f.from, f.to = text[:i], text[i+1:]
		}
		name := filepath.Base(f.from)
		switch {
		case f.from == "":
			return nil, fault.WithFix(fault.New(fault.Invalid, "%s names no file", f.word),
				"write --file PATH or --file PATH:TO")
		case f.to == "" && (name == "." || name == ".." || name == "/"):
			return nil, fault.WithFix(fault.New(fault.Invalid, "%s: bakeoff cannot derive a name for the folder in "+
				"the environment from this path", f.word),
				"write where to place it, as in --file "+f.from+":/opt/work")
		case f.to == "":
			f.to = path.Join("/opt", name)
		}
		out = append(out, f)
	}
	return out, nil
}

// writeFiles writes the key files.
func writeFiles(w *writer, placed []file) {
	if len(placed) == 0 {
		return
	}
	w.own("files:")
	for _, f := range placed {
		w.put(origin{f.word, "from"}, "  - {from: %s, to: %s}", scalar(f.from), scalar(f.to))
	}
}

// remedy says how a command gets a word that is a file of the current folder.
func remedy(word string, placed []file) string {
	for _, f := range placed {
		if path.Clean(f.from) == path.Clean(word) {
			return "the command finds it at " + f.to
		}
	}
	return "add --file " + word + ", and write /opt/" + path.Base(word) + " in the command"
}
