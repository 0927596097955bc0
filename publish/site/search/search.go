// Package search writes the index that the search page reads: no server is needed. The
// page lists all titles, so it is useful without the script too.
package search

import (
	"bytes"
	_ "embed"
	"encoding/json"
)

// Script is the program of the search page.
//
//go:embed search.js
var Script []byte

// Entry is a post in the index.
type Entry struct {
	Path, Title, Date string
	Terms             string // words in lower case, each once, with spaces
}

// Index writes the index as JSON: a list of [path, title, date, terms].
func Index(entries []Entry) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("[")
	enc := json.NewEncoder(&out)
	for i, e := range entries {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := enc.Encode([4]string{e.Path, e.Title, e.Date, e.Terms}); err != nil {
			return nil, err
		}
	}
	out.WriteString("]\n")
	return out.Bytes(), nil
}
