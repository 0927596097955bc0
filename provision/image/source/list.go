package source

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/strictjson"
)

// Entry is a source that a person added.
type Entry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Address string `json:"address"`
}

// Defaults are the sources before a person changes the list.
var Defaults = []Entry{
	{"alpine", "alpine", "https://dl-cdn.alpinelinux.org/alpine/latest-stable"},
	{"smartos", "imgapi", "https://images.smartos.org"},
}

// ListSchema is the schema of the file with the sources.
const ListSchema = "bakeoff/image-sources/v1"

type list struct {
	Schema  string  `json:"schema"`
	Sources []Entry `json:"sources"`
}

// maxEntries bounds the sources.
const maxEntries = 1000

// ParseEntries reads the file with the sources. Errors are of kind fault.Invalid.
func ParseEntries(b []byte) ([]Entry, error) {
	var l list
	if err := strictjson.Decode(b, &l); err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	if l.Schema != ListSchema || len(l.Sources) > maxEntries {
		return nil, fault.New(fault.Invalid, "the list has the schema %q instead of %s, or more than %d sources", l.Schema,
			ListSchema, maxEntries)
	}
	seen := map[string]bool{}
	for _, e := range l.Sources {
		if !name.Valid(e.Name, maxName) || seen[e.Name] {
			return nil, fault.New(fault.Invalid, "%q is not a valid name of a source, or two sources have it", e.Name)
		}
		seen[e.Name] = true
	}
	return l.Sources, nil
}

const maxName = 64

// Load reads the sources in a file; Defaults if it does not exist.
func Load(file string) ([]Entry, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return slices.Clone(Defaults), nil
	}
	if err != nil {
		return nil, fault.Op("image sources", err)
	}
	out, err := ParseEntries(b)
	return out, fault.WithFix(fault.Op(file, err), "correct the file, or remove it to get the first list back")
}

// Save writes the sources to a file.
func Save(file string, all []Entry) error {
	b, err := json.MarshalIndent(list{ListSchema, append([]Entry{}, all...)}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fault.Op("image sources", err)
	}
	return fault.Op("image sources", atomicfile.Write(file, append(b, '\n'), 0o644))
}

// Add adds a source to a list. Errors are of kind fault.Invalid.
func Add(all []Entry, e Entry) ([]Entry, error) {
	if !name.Valid(e.Name, maxName) {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%q is not a name", e.Name), "use letters, digits, . _ and -")
	}
	if slices.ContainsFunc(all, func(o Entry) bool { return o.Name == e.Name }) {
		return nil, fault.WithFix(fault.New(fault.Invalid, "there is a source %q already", e.Name),
			"remove it first, with --remove "+e.Name)
	}
	return append(all, e), nil
}

// Find returns the source with a name. Errors are of kind fault.NotFound.
func Find(all []Entry, n string) (Entry, error) {
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == n })
	if i < 0 {
		return Entry{}, fault.WithFix(fault.New(fault.NotFound, "there is no source %q", n),
			"bakeoff image sources lists them")
	}
	return all[i], nil
}
