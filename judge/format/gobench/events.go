package gobench

import (
	"bytes"
	"encoding/json"
	"strings"

	"bakeoff/base/lazy"
)

// eventLine is an event of go test -json. Other programs may have written it again, with
// blanks or in another order.
var eventLine = lazy.Compile(`(?m)^\{ ?(?:"(?:Time|ImportPath|Package|Test|Output|Elapsed)": ?` +
	`(?:"[^"\n]*"|[0-9.]+), ?)*"Action": ?"`)

// event is the part of an event that is read (go doc test2json).
type event struct {
	Action, Package, Output string
}

// textOfEvents returns the output of go test in a file of events, and the line of the
// file from which each line of it comes. An event may have a part of a line. Lines
// that are not events stay as they are. Where another package continues, a line
// "pkg: NAME" says so.
func textOfEvents(data []byte) (text []byte, lines []int) {
	var out bytes.Buffer
	parts := map[string]string{} // package → the beginning of its line
	first := map[string]int{}    // package → the line of the file with this beginning
	last, number := "", 0
	put := func(line string, from int) {
		out.WriteString(line + "\n")
		lines = append(lines, from)
	}
	for raw := range bytes.Lines(data) {
		number++
		var e event
		if raw = bytes.TrimRight(raw, "\r\n"); len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &e) != nil {
			put(string(raw), number)
			continue
		}
		if e.Action != "output" {
			continue
		}
		if parts[e.Package] == "" {
			first[e.Package] = number
		}
		rest := parts[e.Package] + e.Output
		for {
			line, after, whole := strings.Cut(rest, "\n")
			if !whole {
				break
			}
			if e.Package != last && e.Package != "" {
				put("pkg: "+e.Package, first[e.Package])
				last = e.Package
			}
			put(line, first[e.Package])
			rest, first[e.Package] = after, number
		}
		parts[e.Package] = rest
	}
	return out.Bytes(), lines
}
