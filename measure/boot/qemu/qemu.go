// Package qemu is the source of what QEMU writes when it traces how the firmware reads
// the kernel: when the processor started, and when the firmware gave control away. bakeoff
// adds what the guest writes to a debug port.
package qemu

import (
	"bytes"
	"fmt"
	"strconv"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/measure/boot"
)

// New returns the source.
func New() boot.Source { return source{} }

type source struct{}

const (
	name         = "qemu"
	spanFirmware = "firmware"
)

// Doc implements boot.Source.
func (source) Doc() boot.SourceDoc {
	return boot.SourceDoc{
		Name:  name,
		Reads: "the trace of QEMU with times",
		Get:   "qemu-system-x86_64 -msg timestamp=on -trace 'fw_cfg_*' -trace pic_ioport_write … 2> FILE",
		Says: "The processor starts between two events: the last one of the thread that prepares the machine, and the " +
			"first one of a processor. bakeoff takes the middle. The firmware starts the kernel right after it has read the " +
			"last part of the kernel, its command line or its RAM disk, and before the next event of the processor. The trace " +
			"does not show a kernel that a boot loader reads from a disk. A line that the guest writes to a debug port " +
			"(option debug-port of the driver qemu) begins a span, which ends at the next such line.",
	}
}

// event is the beginning of a line: thread, seconds and microseconds of Unix time, name.
var event = lazy.Compile(`^([0-9]{1,10})@([0-9]{1,11})\.([0-9]{6}):([a-z0-9_]+)(.*)$`)

var recognized = lazy.Compile(`(?m)^[0-9]{1,10}@[0-9]{1,11}\.[0-9]{6}:(fw_cfg|pic_ioport)_`)

// Recognizes implements boot.Source.
func (source) Recognizes(head []byte) bool { return recognized.Match(head) }

// Read implements boot.Source.
func (source) Read(file string, data []byte) (bootmodel.Recording, error) {
	r, _, err := Read(file, data)
	return r, err
}

// entry is one event.
type entry struct {
	thread string
	at     int64 // microseconds since the first event
	name   string
	key    int64 // of fw_cfg_select; -1 for other events
}

// Read reads a log. startNS is the time of its first event on the host's clock, in
// nanoseconds of Unix time: the recording's clock is 0 then.
func Read(file string, data []byte) (r bootmodel.Recording, startNS int64, err error) {
	if err := boot.CheckSize(file, data); err != nil {
		return bootmodel.Recording{}, 0, err
	}
	in, err := parseEvents(file, data)
	if err != nil {
		return bootmodel.Recording{}, 0, err
	}
	events := in.events
	r = bootmodel.Recording{
		Schema: bootmodel.Schema,
		Clocks: []bootmodel.Clock{{Name: "host", Source: name, Hz: 1e6, UncertaintyNS: bootmodel.Exact()}},
		Tracks: []bootmodel.Track{{Name: "firmware", Parent: -1, Kind: bootmodel.KindFirmware}},
		Spans:  []bootmodel.Span{}, Marks: []bootmodel.Mark{}, Notes: in.skipped.Notes(name),
	}
	if in.back {
		r.Notes = append(r.Notes, bootmodel.Note{Source: name,
			Text: "The clock of the host was set back while QEMU started. The marks may be wrong by the same time."})
	}
	vcpu, ok := processor(events)
	if ok {
		r.Marks = append(r.Marks, vcpu)
	}
	done, found := entered(events)
	if found {
		kernel := done
		kernel.Name = bootmodel.MarkKernel
		r.Marks = append(r.Marks, done, kernel)
	}
	if ok && found && done.At >= vcpu.At {
		r.Spans = append(r.Spans, bootmodel.Span{Name: spanFirmware, Parent: -1, Start: vcpu.At, End: done.At})
	}
	in.addPortSpans(&r)
	if len(r.Marks) == 0 {
		return bootmodel.Recording{}, 0, fault.New(fault.Invalid, "%s:1: the trace has no read over fw_cfg: either the "+
			"machine did not start, or QEMU ran without -trace 'fw_cfg_*'", file)
	}
	bootmodel.SortMarks(&r)
	return r, in.start * 1000, nil
}

// input is a log, taken apart.
type input struct {
	events  []entry
	writes  []write // to the debug port
	start   int64   // the time of the first of both, in microseconds
	back    bool    // the clock went back
	skipped boot.Skipped
}

// parseEvents reads the events. Lines that are none are messages of QEMU.
func parseEvents(file string, data []byte) (in input, err error) {
	line, last, any := 0, int64(0), false
	for text := range bytes.Lines(data) {
		line++
		if len(text) > boot.MaxLine {
			in.skipped.Add(line, "it is too long for a line of QEMU's trace")
			continue
		}
		m := event.FindSubmatch(bytes.TrimRight(text, "\r\n"))
		if m == nil {
			continue
		}
		s, _ := strconv.ParseInt(string(m[2]), 10, 64) // bounded by the pattern
		us, _ := strconv.ParseInt(string(m[3]), 10, 64)
		e := entry{thread: string(m[1]), at: s*1e6 + us, name: string(m[4]), key: selectedKey(m[5])}
		if !any {
			in.start, any = e.at, true
		}
		e.at -= in.start
		if e.at < last {
			in.back, e.at = true, last
		}
		last = e.at
		if e.name == debugWrite {
			if w, ok := parseWrite(m[5]); ok {
				w.at = e.at
				in.writes = append(in.writes, w)
			}
			continue
		}
		in.events = append(in.events, e)
	}
	if len(in.events) == 0 && in.skipped.Count > 0 {
		return in, fault.New(fault.Invalid, "%s%s", boot.At(file, in.skipped.Line), in.skipped.Why)
	}
	if len(in.events) == 0 {
		return in, fault.New(fault.Invalid, "%s:1: no line has the form THREAD@SECONDS.MICROSECONDS:EVENT; "+
			"start QEMU with -msg timestamp=on -trace 'fw_cfg_*'", file)
	}
	return in, nil
}

var keyed = lazy.Compile(`\bkey 0x([0-9a-f]{1,4})\b`)

// selectedKey is the number of what is selected.
func selectedKey(rest []byte) int64 {
	m := keyed.FindSubmatch(rest)
	if m == nil {
		return -1
	}
	n, _ := strconv.ParseInt(string(m[1]), 16, 64)
	return n
}

// processor is the start of the processor: after the last event of the first thread and
// before the first event of another one.
func processor(events []entry) (bootmodel.Mark, bool) {
	for i, e := range events {
		if e.thread == events[0].thread {
			continue
		}
		half := float64(e.at-events[i-1].at) / 2 * 1000
		return bootmodel.Mark{Name: bootmodel.MarkVCPU, At: (e.at + events[i-1].at) / 2, UncertaintyNS: &half,
			How: "between QEMU's last preparation and the first request of the firmware"}, true
	}
	return bootmodel.Mark{}, false
}

// kernelKeys are those of fw_cfg under which QEMU offers a kernel, its command line and
// its RAM disk.
//
// Source: include/standard-headers/linux/qemu_fw_cfg.h of QEMU.
func kernelKey(k int64) bool {
	return k == 0x07 || k == 0x08 || k >= 0x0a && k <= 0x0b || k >= 0x10 && k <= 0x18
}

// entered is when the firmware gave control away: right after it had selected the last
// part of the kernel, and before the next event of a processor.
func entered(events []entry) (bootmodel.Mark, bool) {
	last := -1
	for i, e := range events {
		if e.thread != events[0].thread && e.name == "fw_cfg_select" && kernelKey(e.key) {
			last = i
		}
	}
	if last < 0 {
		return bootmodel.Mark{}, false
	}
	m := bootmodel.Mark{Name: bootmodel.MarkFirmware, At: events[last].at,
		How: "the firmware read the last part of the kernel, and then started the kernel"}
	for _, e := range events[last+1:] {
		if e.thread != events[0].thread {
			m.UncertaintyNS = new(float64(e.at-events[last].at) * 1000)
			m.How += fmt.Sprintf(" before %s", e.name)
			break
		}
	}
	return m, true
}
