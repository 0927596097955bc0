// Package linux is the source of Linux boots: the kernel log with initcall_debug, and
// the processes that the kernel's tracing recorded.
//
// The kernel logs, among other lines,
//
//	calling  NAME+OFFSET/SIZE [MODULE] @ PID
//	probe of DEVICE returned RESULT after N usecs
//	initcall NAME+OFFSET/SIZE [MODULE] returned RESULT after N usecs
//	initcall COOKIE_NAME+OFFSET/SIZE [MODULE] returned after N usecs
//
// (the last of an asynchronous call: newer kernels give no result; the cookie is not part of the name). For the
// microseconds of initcalls, old kernels divide nanoseconds by 1,024. The file trace of tracefs holds
//
//	COMM-PID [CPU] FLAGS SECONDS: sched_process_exec: filename=FILE pid=PID old_pid=PID
//
// with sched_process_fork and sched_process_exit. The clock of the trace differs from
// that of the log by a constant, which readings of both tell.
//
// Source: init/main.c, kernel/async.c, drivers/base/dd.c, include/trace/events/sched.h of Linux 6.1.
package linux

import (
	"bytes"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/printk"
)

// New returns the source.
func New() boot.Source { return source{} }

type source struct{}

const name = "linux"

// Doc implements boot.Source.
func (source) Doc() boot.SourceDoc {
	return boot.SourceDoc{
		Name:  name,
		Reads: "the kernel log of Linux with initcall_debug, and processes from tracefs",
		Get: "boot with initcall_debug log_buf_len=4M trace_event=sched:sched_process_fork,sched:sched_process_exec," +
			"sched:sched_process_exit, then bakeoff-agent boot-events > FILE (or: dmesg; cat /sys/kernel/tracing/trace)",
		Says: "The span of an initcall runs from its line calling to its line initcall. If the kernel writes those lines " +
			"to its console (loglevel=8), a span printk is the time between two initcalls in which the kernel wrote them. The " +
			"span clock correction is the time that the clock of the log lost before Linux found a stable clock. The span " +
			"kernel runs from the first line to the start of process 1. The part of it that no initcall covers is cut at the " +
			"lines of the log; each piece has the name of the line before it. The kernel logs only the end of a probe, with " +
			"its duration: bakeoff computes the start. A probe that fits into the initcall that was running belongs to that " +
			"initcall. Until the kernel has a clock source, the durations of probes are whole timer ticks. Until a process " +
			"executes a program, it is a copy of its parent.",
	}
}

var (
	wordSched = []byte("sched_process_")
)

// initcallLine is a line of initcall_debug. A trace has do_one_initcall, which is none.
var initcallLine = lazy.Compile(`(?:calling  |\binitcall )[^ \n]+\+0x[0-9a-f]`)

// Recognizes implements boot.Source.
func (source) Recognizes(head []byte) bool {
	if bytes.HasPrefix(head, []byte(magic)) {
		return true
	}
	if printk.Stamped(head) && bytes.Contains(head, []byte("Linux version ")) {
		return true
	}
	return initcallLine.Match(head) || bytes.Contains(head, wordSched)
}

// Read implements boot.Source.
func (source) Read(file string, data []byte) (bootmodel.Recording, error) {
	if err := boot.CheckSize(file, data); err != nil {
		return bootmodel.Recording{}, err
	}
	in, err := splitFile(file, data)
	if err != nil {
		return bootmodel.Recording{}, err
	}
	b := builder{r: bootmodel.Recording{
		Schema: bootmodel.Schema, System: "linux", Tracks: []bootmodel.Track{}, Spans: []bootmodel.Span{},
		Marks: []bootmodel.Mark{},
		Notes: append(in.notes, in.skipped.Notes(name)...),
	}}
	if in.log != nil {
		log, err := printk.Parse(file, in.log)
		switch {
		case err != nil && len(in.events) == 0:
			return bootmodel.Recording{}, err
		case err != nil:
			b.addNote(true, "The kernel log cannot be read: "+boot.ValidText(err.Error())+".")
			in.log = nil
		case log.Hz != 1e6:
			return bootmodel.Recording{}, fault.New(fault.Invalid, "%sthe times of this log are not in "+
				"microseconds, so the log is not from Linux; name another --source", boot.At(file, log.Lines[0].Number))
		default:
			b.r.Clocks = append(b.r.Clocks, bootmodel.Clock{Name: "log", Source: name, Hz: 1e6,
				UncertaintyNS: bootmodel.Exact()})
			b.addKernelLog(log)
		}
	}
	if len(in.events) > 0 {
		b.placeTrace(in)
		b.processes(in.events)
	}
	if len(b.r.Spans) == 0 {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "%sthe file has no events except those of kernel threads; "+
			"record the events from the start of the boot", boot.At(file, 1))
	}
	b.placeMonotonic(in)
	bootmodel.SortMarks(&b.r)
	return b.r, nil
}

// builder makes a recording.
type builder struct {
	r     bootmodel.Recording
	trace int // the clock of the processes
}

func (b *builder) addTrack(t bootmodel.Track) int {
	b.r.Tracks = append(b.r.Tracks, t)
	return len(b.r.Tracks) - 1
}

func (b *builder) addNote(lost bool, text string) {
	b.r.Notes = append(b.r.Notes, bootmodel.Note{Source: name, Lost: lost, Text: text})
}
