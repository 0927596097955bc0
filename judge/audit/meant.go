package audit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// fields are the names of all that a table may hold.
var fields = fieldNames(reflect.TypeFor[Table](), nil)

func fieldNames(t reflect.Type, names []string) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return names
	}
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		names = fieldNames(f.Type, names)
	}
	return names
}

// meant returns "did you mean X?" for the name nearest to a mistyped one, and
// otherwise what there is.
func meant(name string, known []string) string {
	best, bestAt := "", min(max(2, len(name)/3), len(name))+1
	for _, k := range known {
		if d := distance(name, k); d < bestAt {
			best, bestAt = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(known) == 0:
		return "there is none"
	case len(known) > 20:
		return "docs/audit.md shows the format by example"
	}
	return "there is " + strings.Join(known, ", ")
}

// distance counts the letters to insert, delete or replace that make b of a
// (Levenshtein 1966). Names longer than a line are as far as can be.
func distance(a, b string) int {
	if len(a) > 80 || len(b) > 80 {
		return 80
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := left
			if a[i] != b[j] {
				cost++
			}
			left = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
