// Package bootmodel is the model of a boot: what happened, in which thread, on which
// clock, and when.
//
// A Recording has spans (something began and ended) and marks (something was
// reached). Several sources may contribute to one recording, each with a clock of
// its own; Clock says how its readings are placed on the reference clock, and how
// uncertain that is. Package measure/boot reads recordings.
//
// The package is plain data and arithmetic. It starts nothing, and links nothing
// that acts on a machine.
package bootmodel

// Schema is that of Recording.
const Schema = "bakeoff/boot-recording/v1"

// Recording is what is known of one boot.
type Recording struct {
	Schema string `json:"schema"`
	// System is the operating system that booted: linux, freebsd, netbsd; "" if no
	// source says.
	System string `json:"system,omitempty"`
	// Command is the command line of the kernel; "" if no source says it.
	Command string `json:"command_line,omitempty"`
	// Clocks are those of the sources. The first is the reference clock: that of
	// every time that is shown.
	Clocks []Clock `json:"clocks"`
	// Tracks are threads and processes.
	Tracks []Track `json:"tracks"`
	// Spans are ordered so that a parent comes before its children, and the
	// children of one parent are in the order of their starts.
	Spans []Span `json:"spans"`
	// Marks are in the order of their times on the reference clock.
	Marks []Mark `json:"marks"`
	// Root is the index of the span that is the boot: what the boot waited for lies
	// below it, and the self times of it and of all spans below it add up to its
	// length. nil if the source knows no such span.
	Root *int `json:"root,omitempty"`
	// Notes say what a source lost, cut off or corrected. A page shows them first.
	Notes []Note `json:"notes,omitempty"`
}

// Clock is the clock of a source.
type Clock struct {
	Name   string `json:"name"`   // tsc, guest, host
	Source string `json:"source"` // the source that read it: tslog, linux, qemu
	// Hz is the number of ticks of a second; 0 if unknown. The times of such a
	// clock are shown in ticks.
	Hz float64 `json:"hz"`
	// OffsetNS is the reading of the reference clock, in nanoseconds, at tick 0 of
	// this clock; 0 for the reference clock itself.
	OffsetNS float64 `json:"offset_ns"`
	// UncertaintyNS is the greatest error of OffsetNS, in nanoseconds. nil means
	// that it is unknown: the clock is placed by assumption, which Note says.
	UncertaintyNS *float64 `json:"uncertainty_ns"`
	Note          string   `json:"note,omitempty"`
}

// Track is a thread or a process: a row of the flame chart.
type Track struct {
	// Name is what the system calls it: thread 0, init, systemd-udevd.
	Name string `json:"name"`
	// ID is the number of the process or thread; "" if the source has none.
	ID string `json:"id,omitempty"`
	// Parent is the index of the track that created it, or -1.
	Parent int `json:"parent"`
	// Kind is kernel, process or firmware.
	Kind string `json:"kind"`
}

// The kinds of tracks.
const (
	KindFirmware = "firmware"
	KindKernel   = "kernel"
	KindProcess  = "process"
)

// Span is something that began and ended.
type Span struct {
	// Name is the function, the initcall, the program or the unit; Arg what it
	// worked on: a device, a file. Arg may be "".
	Name string `json:"name"`
	Arg  string `json:"arg,omitempty"`
	// Track and Clock are indices.
	Track int `json:"track"`
	Clock int `json:"clock"`
	// Parent is the index of the span that encloses this one, or -1. A span
	// lies within its parent. The parent may be on another track: while a thread
	// waits for another, the work of the other is a child of the wait.
	Parent int `json:"parent"`
	// Start and End are ticks of the clock; Start ≤ End.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Wait tells that the track did nothing itself.
	Wait bool `json:"wait,omitempty"`
	// Open tells that the end was not recorded: End is that of the recording.
	Open bool `json:"open,omitempty"`
	// Charged tells that the span repeats a part of a span of another track, below
	// the wait that waited for it. Sums over all spans leave such spans out.
	Charged bool `json:"charged,omitempty"`
}

// Label is the name with the argument, as frames of stacks have it.
func (s Span) Label() string {
	if s.Arg == "" {
		return s.Name
	}
	return s.Name + " " + s.Arg
}

// The names of marks that sources and drivers share. A source may have others.
const (
	MarkHypervisor = "hypervisor start" // the process of the hypervisor was started
	MarkVCPU       = "vCPU start"       // the first instruction of the machine
	MarkFirmware   = "firmware done"    // the firmware gave control away
	MarkKernel     = "kernel entry"     // the first instruction of the kernel
	// MarkClock is when the monotonic clock of the guest was 0: when its kernel begins to
	// keep time.
	MarkClock    = "guest clock zero"
	MarkLog      = "first kernel message"       // the clock of the kernel's log runs
	MarkSerial   = "first serial byte"          // the guest wrote to its serial line
	MarkRoot     = "root mounted"               // the root file system is there
	MarkUserland = "first userland instruction" // process 1 runs
	MarkService  = "service ready"              // what the boot was for answers
	MarkReady    = "environment ready"          // its driver says so
	MarkFinished = "startup finished"           // systemd has no job of the startup left
	// MarkDown and MarkSSH are of machines that are rebooted.
	MarkDown = "machine down"
	MarkSSH  = "SSH answers"
)

// Mark is a moment.
type Mark struct {
	Name  string `json:"name"`
	Clock int    `json:"clock"` // index
	At    int64  `json:"at"`    // ticks of the clock
	// UncertaintyNS is the greatest error of At, in nanoseconds; nil if it is unknown.
	UncertaintyNS *float64 `json:"uncertainty_ns"`
	// How says how the moment was seen: "first byte on the serial line".
	How string `json:"how,omitempty"`
}

// Note is what a reader must know of a recording.
type Note struct {
	Source string `json:"source"`
	// Lost tells that something is missing: the source lost or cut off events.
	Lost bool   `json:"lost,omitempty"`
	Text string `json:"text"` // a full sentence
}

// Known reports whether the times of the clock can be placed on the reference clock.
func (c Clock) Known() bool { return c.Hz > 0 }

// NS is a reading of a clock on the reference clock, in nanoseconds. For a
// clock with an unknown frequency it is the number of ticks.
func (r Recording) NS(clock int, ticks int64) float64 {
	c := r.Clocks[clock]
	if !c.Known() {
		return float64(ticks)
	}
	return c.OffsetNS + float64(ticks)*1e9/c.Hz
}

// Times are the start and the end of span i on the reference clock, in nanoseconds.
func (r Recording) Times(i int) (start, end float64) {
	s := r.Spans[i]
	return r.NS(s.Clock, s.Start), r.NS(s.Clock, s.End)
}

// Self is the time of every span without its children, in ticks of its clock. Children
// on a clock of another frequency are converted and rounded to whole ticks.
func (r Recording) Self() []int64 {
	self := make([]int64, len(r.Spans))
	for i, s := range r.Spans {
		self[i] += s.End - s.Start
		if s.Parent < 0 {
			continue
		}
		self[s.Parent] -= r.Ticks(s.End-s.Start, s.Clock, r.Spans[s.Parent].Clock)
	}
	return self
}

// Ticks converts a duration from ticks of one clock into whole ticks of another. It stays
// as it is if the frequency of one is unknown.
func (r Recording) Ticks(took int64, from, to int) int64 {
	mine, its := r.Clocks[from].Hz, r.Clocks[to].Hz
	if mine != its && mine > 0 && its > 0 {
		return int64(float64(took)*its/mine + 0.5)
	}
	return took
}

// Path is the labels of span i and of all that enclose it, the outermost first.
func (r Recording) Path(i int) []string {
	n := 0
	for at := i; at >= 0; at = r.Spans[at].Parent {
		n++
	}
	path := make([]string, n)
	for at := i; at >= 0; at = r.Spans[at].Parent {
		n--
		path[n] = r.Spans[at].Label()
	}
	return path
}

// Exact is the uncertainty of what is known to the tick.
func Exact() *float64 { return new(float64) }

// Advice is what a recording suggests to change.
type Advice struct {
	// Name identifies the kind of advice: console, calibration, delay, self-test,
	// decompression, absent-hardware, initramfs.
	Name string `json:"name"`
	// Text says in full sentences what took the time.
	Text string `json:"text"`
	// Spans are the indices of the spans that are the evidence, the most expensive
	// first.
	Spans []int `json:"spans"`
	// CostNS is the time that those spans took, in nanoseconds; ticks if their clock
	// has an unknown frequency. It bounds what the knob can save.
	CostNS float64 `json:"cost_ns"`
	// Knob says what to change, Argument what to add to the kernel's command line for
	// that; "" if the knob is none of the command line.
	Knob     string `json:"knob"`
	Argument string `json:"argument,omitempty"`
}
