package gobench

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/lazy"
)

// eventLine is an event of go test -json. Other programs may have written it again, with
// blanks or in another order.
var eventLine = lazy.Compile(`(?m)^\{ ?(?:"(?:Time|ImportPath|Package|Test|Output|Elapsed)": ?` +
	`(?:"[^"\n]*"|[0-9.]+), ?)*"Action": ?"`)

// event is the part of an event that is read (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// textOfEvents returns the output of go test in a file of events, and sets lines. An event may have a part of a line.
// Lines that are not events stay as they are. Where another package continues, a line "pkg: NAME" says so.
func (r *reader) textOfEvents(data []byte) []byte {
	var out bytes.Buffer
	parts := map[string]string{} // package → the beginning of its line
	first := map[string]int{}    // package → the line of the file with this beginning
	last, number := "", 0
	put := func(line string, from int) {
		out.WriteString(line + "\n")
		r.lines = append(r.lines, from)
	}
	putOf := func(pkg, line string) {
		if pkg != last && pkg != "" {
			put("pkg: "+pkg, first[pkg])
			last = pkg
		}
		put(line, first[pkg])
	}
	// end writes the last line of a package, which has no line break.
	end := func(pkg string) {
		line := parts[pkg]
		delete(parts, pkg)
		if line == "" {
			return
		}
		if resultLine.MatchString(line) {
			r.p.Warn(first[pkg], "The output of the package %q ends without a line break. It may be incomplete, and its last "+
				"value may be wrong.", pkg)
		}
		putOf(pkg, line)
	}
	for raw := range bytes.Lines(data) {
		number++
		var e event
		if raw = bytes.TrimRight(raw, "\r\n"); len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &e) != nil {
			put(string(raw), number)
			continue
		}
		if e.Action != "output" {
			if e.Test == "" {
				end(e.Package)
			}
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
			putOf(e.Package, line)
			rest, first[e.Package] = after, number
		}
		parts[e.Package] = rest
	}
	for _, pkg := range slices.Sorted(maps.Keys(parts)) {
		end(pkg)
	}
	return out.Bytes()
}
