// Package search writes the index that the search page reads: no server is needed. The
// page lists all titles, so it is useful without the script too.
package search

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Script is the program of the search page.
//
//go:embed search.js
var Script []byte

// Bounds of the words that the search finds.
const (
	maxTerms    = 400 // of a text
	longestTerm = 40  // bytes
)

// Terms are words in lower case.
type Terms map[string]struct{}

// Add adds the words of a text. Words of one or two letters do not count.
func (t Terms) Add(text string) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(t) >= maxTerms {
			return
		}
		if len(w) >= 3 && len(w) <= longestTerm {
			t[strings.ToLower(w)] = struct{}{}
		}
	}
}

// String are the words in order, with spaces.
func (t Terms) String() string { return strings.Join(slices.Sorted(maps.Keys(t)), " ") }

// Entry is a post or a run in the index.
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
