package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json` (go doc test2json), and of the build
// (go help buildjson).
type event struct {
	Time        time.Time
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// heldBytes bounds what is kept of the output of one test.
const heldBytes = 64 << 10

type key struct{ pkg, test string }

// summary is what was seen so far.
type summary struct {
	refuse         *regexp.Regexp
	verbose        bool // output is printed when it comes
	output         map[key]string
	parents        map[key]bool // tests that have subtests: only leaves are counted
	passed, failed int
	failures       []string            // names, for the end
	skipped        map[string][]string // reason → tests
	perPackage     map[string]*count
	broken         int                  // packages that failed outside of their tests
	ended          map[string]bool      // packages that ended
	running        map[string]bool      // packages that started and have not ended
	began          map[string]time.Time // first sign of life of a package's tests
	slow           []slow               // top-level tests that took at least slowFrom
	lanes          []lane
}

// lane is what follows a line such as "lane 1: packages that change the machine".
type lane struct {
	name         string
	packages     int
	began, ended time.Time // of its tests
}

// slow is a test and the seconds that it took.
type slow struct {
	name    string
	seconds float64
}

// slowFrom is in seconds. At the end the slowestShown slowest of these tests are named.
const (
	slowFrom     = 10
	slowestShown = 10
)

type count struct{ passed, failed, skipped int }

func newSummary() *summary {
	return &summary{output: map[key]string{}, parents: map[key]bool{}, skipped: map[string][]string{},
		perPackage: map[string]*count{}, running: map[string]bool{}, ended: map[string]bool{},
		began: map[string]time.Time{}}
}

// line reads one line; what is not JSON (the go command's own words) is
// passed on.
func (s *summary) line(line []byte, out io.Writer) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		if name, _, ok := strings.Cut(string(line), ":"); ok && strings.HasPrefix(name, "lane ") {
			s.lanes = append(s.lanes, lane{name: name})
		}
		out.Write(line)
		return
	}
	e.Package = cmp.Or(e.Package, e.ImportPath)
	k := key{e.Package, e.Test}
	if _, ok := s.began[e.Package]; !ok && e.Action != "start" {
		s.began[e.Package] = e.Time
	}
	switch e.Action {
	case "start":
		s.running[e.Package] = true
	case "build-output":
		io.WriteString(out, e.Output)
	case "output":
		if s.verbose && e.Test != "" {
			io.WriteString(out, e.Output)
		}
		if len(s.output[k]) < heldBytes {
			s.output[k] += e.Output
		}
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
			s.parents[key{e.Package, e.Test[:i]}] = true
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.packageEnds(e, out)
		} else {
			s.testEnds(e, out)
		}
		delete(s.output, k)
	}
}

func (s *summary) testEnds(e event, out io.Writer) {
	k := key{e.Package, e.Test}
	c := s.countsOf(e.Package)
	name := short(e.Package) + "." + e.Test
	if e.Elapsed >= slowFrom && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, slow{name, e.Elapsed})
	}
	switch {
	case e.Action == "fail":
		// A parent that failed only because of its subtests has nothing to say.
		if said := testOutput(s.output[k]); !s.parents[k] || said != "" {
			fmt.Fprintf(out, "--- FAIL %s (%.1f s)\n", name, e.Elapsed)
			if !s.verbose {
				io.WriteString(out, s.output[k])
			}
			s.fail(c, name)
		}
	case e.Action == "skip":
		reason := cmp.Or(testOutput(s.output[k]), "it gives no reason")
		if s.refuse != nil && s.refuse.MatchString(reason) {
			fmt.Fprintf(out, "--- FAIL %s skipped, and must not here: %s\n", name, reason)
			s.fail(c, name)
			return
		}
		s.skipped[reason] = append(s.skipped[reason], name)
		c.skipped++
	case !s.parents[k]:
		s.passed++
		c.passed++
	}
}

func (s *summary) fail(c *count, name string) {
	s.failed++
	c.failed++
	s.failures = append(s.failures, name)
}

func (s *summary) packageEnds(e event, out io.Writer) {
	s.ended[e.Package] = true
	delete(s.running, e.Package)
	c := s.countsOf(e.Package)
	word := "ok  "
	switch {
	case e.Action == "fail":
		word = "FAIL"
		if c.failed == 0 {
			// A build that failed, a panic, a TestMain: no test stands for it.
			s.broken++
			fmt.Fprintf(out, "--- FAIL %s outside of its tests\n%s", short(e.Package), s.restOf(e.Package))
		}
	case c.passed+c.failed+c.skipped == 0:
		return // no test files
	}
	// Elapsed contains the time for which the package waited for its turn.
	began := s.began[e.Package]
	took := e.Time.Sub(began).Seconds()
	if n := len(s.lanes); n > 0 {
		l := &s.lanes[n-1]
		if l.packages++; l.packages == 1 || began.Before(l.began) {
			l.began = began
		}
		if e.Time.After(l.ended) {
			l.ended = e.Time
		}
	}
	fmt.Fprintf(out, "%s %-28s %6.1f s  %d passed, %d failed, %d skipped\n", word, short(e.Package), took, c.passed,
		c.failed, c.skipped)
}

// restOf returns what is held of the package and of tests that never ended.
func (s *summary) restOf(pkg string) string {
	var parts []string
	for k, text := range s.output {
		if k.pkg == pkg {
			parts = append(parts, text)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "")
}

// end prints the skipped tests under their reasons, the slowest tests and the counts.
// packages are those that must have been tested.
func (s *summary) end(out io.Writer, packages []string) int {
	if len(s.ended) == 0 {
		fmt.Fprintln(out, "testsummary: no package was tested")
		return 2
	}
	for pkg := range s.running {
		s.broken++
		fmt.Fprintf(out, "--- FAIL %s never ended\n", short(pkg))
	}
	for _, pkg := range packages {
		if !s.ended[pkg] && !s.running[pkg] {
			s.broken++
			fmt.Fprintf(out, "--- FAIL %s was not tested\n", short(pkg))
		}
	}
	skipped := 0
	for _, reason := range slices.Sorted(maps.Keys(s.skipped)) {
		tests := s.skipped[reason]
		skipped += len(tests)
		fmt.Fprintf(out, "skipped %d: %s\n", len(tests), reason)
		for _, t := range tests {
			fmt.Fprintf(out, "    %s\n", t)
		}
	}
	slices.SortFunc(s.slow, func(a, b slow) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name))
	})
	for _, t := range s.slow[:min(len(s.slow), slowestShown)] {
		fmt.Fprintf(out, "slow: %s, %.0f s\n", t.name, t.seconds)
	}
	for _, l := range s.lanes {
		fmt.Fprintf(out, "%s: %d packages in %.0f s\n", l.name, l.packages, l.ended.Sub(l.began).Seconds())
	}
	for _, name := range s.failures {
		fmt.Fprintf(out, "failed: %s\n", name)
	}
	if s.broken > 0 {
		fmt.Fprintf(out, "%d packages failed outside of their tests\n", s.broken)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed+s.broken, skipped)
	if s.failed+s.broken > 0 {
		return 1
	}
	return 0
}

func (s *summary) countsOf(pkg string) *count {
	if s.perPackage[pkg] == nil {
		s.perPackage[pkg] = &count{}
	}
	return s.perPackage[pkg]
}

// short is a package's path without the module.
func short(pkg string) string {
	if _, p, ok := strings.Cut(pkg, "/"); ok {
		return p
	}
	return pkg
}

// testOutput returns what a test itself said: its output without the lines of the
// framework and without "file_test.go:12: ".
func testOutput(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if m := place.FindString(line); m != "" {
			line = line[len(m):]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " ")
}

var place = regexp.MustCompile(`^[\w.-]+\.go:\d+: `)
