// Package ftrace is the source of function graphs of Linux.
//
// The file trace of tracefs has, with the tracer function_graph and the options
// funcgraph-abstime and funcgraph-proc, lines such as
//
//	18.024566 |   0)   swapper-1    |               |    __sysvec_apic_timer_interrupt() {
//	18.024570 |   0)   swapper-1    | + 14.591 us   |      handle_softirqs();
//	18.024589 |   0)   swapper-1    | + 21.787 us   |    }
//
// The time of a line with {, and of one with ;, is that of the call, and the time of one with
// } that of the return. The options funcgraph-args, funcgraph-retval and funcgraph-retaddr add
// arguments between the parentheses, and comments at the end of a line.
//
// Source: Documentation/trace/ftrace.rst of Linux 6.1, and kernel/trace/trace_functions_graph.c.
package ftrace

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/measure/boot"
)

// New returns the source.
func New() boot.Source { return source{} }

type source struct{}

const name = "ftrace"

var header = []byte("# tracer: function_graph")

// Doc implements boot.Source.
func (source) Doc() boot.SourceDoc {
	return boot.SourceDoc{
		Name:  name,
		Reads: "function graphs that Linux traced, with absolute times",
		Get: "boot with ftrace=function_graph ftrace_graph_filter=do_one_initcall ftrace_graph_max_depth=3 " +
			"trace_buf_size=16M " +
			"trace_options=funcgraph-abstime,funcgraph-proc, then cat /sys/kernel/tracing/trace > FILE",
		Says: "Every task has a track. The times of calls are accurate to 1 µs. For a function that calls no other, " +
			"bakeoff uses the duration in the trace, which is in nanoseconds. Tracing itself takes time in every function, so " +
			"compare traces with traces only. The time of a function deeper than the limit (ftrace_graph_max_depth) is part " +
			"of the time of the function that called it.",
	}
}

// Recognizes implements boot.Source.
func (source) Recognizes(head []byte) bool {
	return bytes.HasPrefix(head, header) || bytes.Contains(head, append([]byte("\n"), header...))
}

// Read implements boot.Source.
func (source) Read(file string, data []byte) (bootmodel.Recording, error) {
	if err := boot.CheckSize(file, data); err != nil {
		return bootmodel.Recording{}, err
	}
	g := graph{file: file, tasks: map[string]*task{}, on: map[string]string{}, r: bootmodel.Recording{
		Schema: bootmodel.Schema, System: "linux",
		Clocks: []bootmodel.Clock{{Name: "trace", Source: name, Hz: 1e9, UncertaintyNS: bootmodel.Exact()}},
		Tracks: []bootmodel.Track{}, Spans: []bootmodel.Span{}, Marks: []bootmodel.Mark{},
	}}
	if !bytes.Contains(data, header) {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "%sthe file has no line %q; set current_tracer to "+
			"function_graph",
			boot.At(file, 1), header)
	}
	for line := range bytes.Lines(data) {
		g.line++
		if err := g.addLine(bytes.TrimRight(line, "\r\n")); err != nil {
			return bootmodel.Recording{}, err
		}
	}
	return g.finishRecording()
}

// graph is what was read so far. Times are nanoseconds.
type graph struct {
	file    string
	line    int
	latest  int64
	first   int64
	seen    bool
	tasks   map[string]*task
	order   []*task
	on      map[string]string // the task of each CPU, as far as switches tell
	r       bootmodel.Recording
	skipped boot.Skipped
	strays  int // returns from functions whose call is in no line
	endless int // calls of functions whose return is in no line
}

// task is a thread, or a CPU of which nobody knows what it runs.
type task struct {
	track int
	open  []call
	free  int64 // when the last function ended that was called from the innermost open one
}

// call is a function that has not returned.
type call struct{ span, depth int }

// maxDepth bounds the stack of a task. The kernel's is 50.
const maxDepth = 1000

// addLine adds a line.
func (g *graph) addLine(line []byte) error {
	text := strings.TrimSpace(string(line))
	switch {
	case len(line) > boot.MaxLine:
		g.skipped.Add(g.line, "the line is too long")
		return nil
	case text == "" || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "-----"):
		return nil
	case strings.HasPrefix(text, "CPU:") && strings.Contains(text, "LOST"):
		g.noteLostEvents(text)
		return nil
	}
	if cpu, to, ok := parseSwitch(text); ok {
		g.on[cpu] = to
		return nil
	}
	e, problem := parseLine(text)
	if problem != "" {
		g.skipped.Add(g.line, problem)
		return nil
	}
	if !g.seen {
		g.seen, g.first = true, e.at
	}
	g.latest = max(g.latest, e.at)
	t := g.taskOf(e)
	switch {
	case e.comment != "":
		g.r.Marks = append(g.r.Marks, bootmodel.Mark{Name: e.comment, At: e.at, UncertaintyNS: &resolution,
			How: "a comment in the trace of " + g.r.Tracks[t.track].Name})
	case e.kind == enter || e.kind == leaf:
		if len(t.open) == maxDepth {
			return g.wrongLine(fmt.Sprintf("more than %d functions are open", maxDepth))
		}
		g.addCall(t, e)
	case e.kind == leave:
		g.endCall(t, e)
	}
	return nil
}

// resolution is the error of times: they are cut to microseconds.
var resolution = 1000.0

func (g *graph) wrongLine(problem string) error {
	return fault.New(fault.Invalid, "%s%s; copy the file trace of tracefs, with the options funcgraph-abstime and "+
		"funcgraph-proc",
		boot.At(g.file, g.line), problem)
}

func (g *graph) taskOf(e entry) *task {
	id := cmp.Or(e.task, g.on[e.cpu])
	id = cmp.Or(id, "CPU "+e.cpu)
	t := g.tasks[id]
	if t == nil {
		track := bootmodel.Track{Name: id, Parent: -1, Kind: bootmodel.KindKernel}
		if i := strings.LastIndexByte(id, '-'); i > 0 {
			track.Name, track.ID = id[:i], id[i+1:]
		}
		t = &task{track: len(g.r.Tracks)}
		g.tasks[id] = t
		g.order = append(g.order, t)
		g.r.Tracks = append(g.r.Tracks, track)
	}
	return t
}

// addCall adds a call. A function that begins in the microsecond in which the one before
// it ended begins after it.
func (g *graph) addCall(t *task, e entry) {
	start := max(e.at, t.free)
	s := bootmodel.Span{Name: e.function, Arg: e.module, Track: t.track, Parent: -1, Start: start, End: start, Open: true}
	if n := len(t.open); n > 0 {
		s.Parent = t.open[n-1].span
	}
	t.free = start
	if e.kind == leaf {
		s.Open, s.End = false, start+e.took
		t.free = s.End
		g.latest = max(g.latest, s.End)
	} else {
		t.open = append(t.open, call{len(g.r.Spans), e.depth})
	}
	g.r.Spans = append(g.r.Spans, s)
}

// endCall ends the innermost function that is as deep as the return. If the call is in no line, no
// function ends. Functions that are deeper have no return in the trace; they end here.
func (g *graph) endCall(t *task, e entry) {
	n := len(t.open)
	for n > 0 && t.open[n-1].depth > e.depth {
		n--
	}
	if n == 0 || t.open[n-1].depth < e.depth {
		g.strays++
		return
	}
	end := max(e.at, t.free)
	for _, c := range t.open[n-1:] {
		g.r.Spans[c.span].End = end
	}
	g.r.Spans[t.open[n-1].span].Open = false
	g.endless += len(t.open) - n
	t.free, t.open = end, t.open[:n-1]
	g.latest = max(g.latest, end)
}

// noteLostEvents notes that a CPU lost events: nobody knows what ended meanwhile.
func (g *graph) noteLostEvents(text string) {
	g.r.Notes = append(g.r.Notes, bootmodel.Note{Source: name, Lost: true,
		Text: fmt.Sprintf("Line %d: the kernel lost events (%s). Functions that were running at that time end there.", g.line,
			boot.ValidText(text))})
	for _, t := range g.order {
		g.cutOpenCalls(t)
	}
}

// cutOpenCalls ends what is open, where the task was seen last.
func (g *graph) cutOpenCalls(t *task) {
	for _, c := range t.open {
		g.r.Spans[c.span].End = max(g.latest, t.free)
	}
	if len(t.open) > 0 {
		t.free = max(g.latest, t.free)
	}
	t.open = nil
}

func (g *graph) finishRecording() (bootmodel.Recording, error) {
	if !g.seen && g.skipped.Count > 0 {
		g.line = g.skipped.Line
		return bootmodel.Recording{}, g.wrongLine(g.skipped.Why)
	}
	if !g.seen {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "%sthe trace has no entry; record it again", boot.At(g.file,
			g.line))
	}
	for _, t := range g.order {
		g.latest = max(g.latest, t.free)
	}
	for _, t := range g.order {
		g.cutOpenCalls(t)
	}
	g.r.Notes = append(g.r.Notes, g.skipped.Notes(name)...)
	for _, n := range []struct {
		count int
		text  string
	}{
		{g.strays, "%d returns have no call in the trace; they were left out."},
		{g.endless, "%d calls have no return in the trace; they end with the function that called them."},
	} {
		if n.count > 0 {
			g.r.Notes = append(g.r.Notes, bootmodel.Note{Source: name, Lost: true, Text: fmt.Sprintf(n.text, n.count)})
		}
	}
	g.r.Marks = append(g.r.Marks, bootmodel.Mark{Name: bootmodel.MarkLog, At: g.first, UncertaintyNS: &resolution,
		How: "the first line of the trace"})
	bootmodel.SortMarks(&g.r)
	return g.r, nil
}
