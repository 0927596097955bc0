// Package trace writes recordings of boots in the formats of other programs: folded
// stacks, speedscope, Perfetto and pprof.
package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
)

// Format is a format that Write writes.
type Format struct {
	Name  string // of --format
	Doc   string
	write func(io.Writer, bootmodel.Recording) error
}

// Formats returns the formats in the order in which help lists them.
func Formats() []Format {
	return []Format{
		{"folded", "one line per stack, with its own time, for flamegraph.pl and inferno", writeFolded},
		{"speedscope", "the file format of speedscope.app", writeSpeedscope},
		{"perfetto", "trace events as JSON, for ui.perfetto.dev and chrome://tracing", writePerfetto},
		{"pprof", "a profile for go tool pprof", writePprof},
	}
}

// Write writes a recording in the format name.
func Write(w io.Writer, name string, r bootmodel.Recording) error {
	f, ok := lists.Find(Formats(), func(f Format) bool { return f.Name == name })
	if !ok {
		names := lists.Map(Formats(), func(f Format) string { return f.Name })
		return fault.New(fault.Invalid, "--format must be one of %s (got %q)", strings.Join(names, ", "), name)
	}
	return f.write(w, r)
}

// ticksClock reports whether times are written in ticks: those of the one clock of the
// spans. Otherwise they are nanoseconds of the reference clock.
func ticksClock(r bootmodel.Recording) (clock int, ok bool) {
	for i, s := range r.Spans {
		if i > 0 && s.Clock != clock {
			return 0, false
		}
		clock = s.Clock
	}
	return clock, true
}

// unitOf is what the times are in, for a recording whose spans have one clock.
func unitOf(r bootmodel.Recording) string {
	clock, ok := ticksClock(r)
	if !ok || len(r.Clocks) == 0 {
		return "nanoseconds"
	}
	switch r.Clocks[clock].Hz {
	case 1e9:
		return "nanoseconds"
	case 1e6:
		return "microseconds"
	case 1e3:
		return "milliseconds"
	}
	return "ticks"
}

// included tells which spans belong to the stacks: the root and all below it, or, for a
// recording without a root, all that repeat no other.
func included(r bootmodel.Recording) []bool {
	in := make([]bool, len(r.Spans))
	for i, s := range r.Spans {
		switch {
		case r.Root == nil:
			in[i] = !s.Charged
		case i == *r.Root:
			in[i] = true
		default:
			in[i] = s.Parent >= 0 && in[s.Parent]
		}
	}
	return in
}

// stack is a path of labels, and the self time of all spans that have it.
type stack struct {
	parent int // index, or -1
	label  string
	self   int64
	count  int64
}

// foldStacks adds up the self times of spans with the same path. A parent comes before its
// children. A wait is not a frame: its time belongs to what waits.
func foldStacks(r bootmodel.Recording) []stack {
	type key struct {
		parent    int
		name, arg string
	}
	var out []stack
	at := map[key]int{}
	of := make([]int, len(r.Spans))
	in, self := included(r), selfTimes(r)
	for i, s := range r.Spans {
		of[i] = -1
		if !in[i] {
			continue
		}
		parent := -1
		if s.Parent >= 0 && in[s.Parent] {
			parent = of[s.Parent]
		}
		if s.Wait && parent >= 0 {
			of[i] = parent
			out[parent].self += self[i]
			continue
		}
		k := key{parent, s.Name, s.Arg}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			out = append(out, stack{parent: parent, label: s.Label()})
		}
		of[i] = n
		out[n].self += self[i]
		out[n].count++
	}
	return out
}

// selfTimes are the self times of all spans, in ticks if there is one clock.
func selfTimes(r bootmodel.Recording) []int64 {
	if _, ok := ticksClock(r); ok {
		return r.Self()
	}
	// A copy with all times in nanoseconds of the reference clock.
	ns := r
	ns.Spans = slices.Clone(r.Spans)
	for i := range ns.Spans {
		from, to := r.Times(i)
		ns.Spans[i].Start, ns.Spans[i].End, ns.Spans[i].Clock = int64(from+0.5), int64(to+0.5), 0
	}
	self := ns.Self()
	for i := range self {
		self[i] = max(self[i], 0) // clocks that were merged overlap by their uncertainty
	}
	return self
}

// writeFolded writes "frame;frame;frame ticks", in the order in which the stacks
// appeared. Stacks that took no time are left out.
func writeFolded(w io.Writer, r bootmodel.Recording) error {
	all := foldStacks(r)
	lines := make([]string, len(all)) // of every stack, without the value
	clean := strings.NewReplacer(";", ",", "\n", " ", "\r", " ")
	for i, s := range all {
		lines[i] = clean.Replace(s.label)
		if s.parent >= 0 {
			lines[i] = lines[s.parent] + ";" + lines[i]
		}
		if s.self <= 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s %d\n", lines[i], s.self); err != nil {
			return err
		}
	}
	return nil
}
