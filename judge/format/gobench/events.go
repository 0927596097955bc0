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

// packageName names a package at the beginning of a sentence. Events of one test program may have none.
func packageName(pkg string) string {
	if pkg == "" {
		return "The package without a name"
	}
	return "The package " + pkg
}

// textOfEvents returns the output of go test in a file of events, and sets lines. An event may have a part of a line.
// Lines that are not events stay as they are. Where another package continues, a line "pkg: NAME" says so.
func (r *reader) textOfEvents(data []byte) []byte {
	var out bytes.Buffer
	parts := map[string]string{} // package → the beginning of its line
	first := map[string]int{}    // package → the line of the file with this beginning
	ended := map[string]bool{}   // packages whose last run has an action that ends it
	said := map[string]bool{}    // packages whose output says that they failed
	last, number := "", 0
	put := func(line string, from int) {
		out.WriteString(line + "\n")
		r.lines = append(r.lines, from)
	}
	putOf := func(pkg, line string) {
		said[pkg] = said[pkg] || strings.HasPrefix(line, "FAIL") || failLine.MatchString(line) || crashLine.MatchString(line)
		if pkg != last && pkg != "" {
			put("pkg: "+pkg, first[pkg])
			last = pkg
		}
		put(line, first[pkg])
	}
	start := map[string]int{} // package → the line of the first event of its last run
	cut := func(pkg string) {
		r.p.Cut(&r.out, start[pkg], "%s has no action pass, fail or skip, so the file may be incomplete.", packageName(pkg))
	}
	// began notes the line of a run that begins. A file may have several, one after the other.
	began := func(pkg, action string) {
		first := start[pkg] == 0 || ended[pkg]
		if again := action == "start" && !first; again {
			cut(pkg)
		} else if !first {
			return
		}
		start[pkg], ended[pkg], said[pkg] = number, false, false
	}
	// end writes the last line of a package, which has no line break.
	end := func(pkg string) {
		line := parts[pkg]
		delete(parts, pkg)
		if line == "" {
			return
		}
		if resultLine.MatchString(line) {
			r.p.Cut(&r.out, first[pkg], "The output of the package %q ends without a line break. It may be incomplete, and its "+
				"last value may be wrong.", pkg)
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
			if e.Test != "" || e.Action == "" || strings.HasPrefix(e.Action, "build-") { // of go build, without a package
				continue
			}
			end(e.Package)
			began(e.Package, e.Action)
			switch e.Action {
			case "fail":
				if !said[e.Package] {
					r.p.Fail(&r.out, number, "%s failed, so values of its benchmarks may be missing.", packageName(e.Package))
				}
				ended[e.Package] = true
			case "pass", "skip":
				ended[e.Package] = true
			}
			continue
		}
		began(e.Package, e.Action)
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
	for _, pkg := range slices.Sorted(maps.Keys(start)) {
		if !ended[pkg] {
			cut(pkg)
		}
	}
	return out.Bytes()
}
