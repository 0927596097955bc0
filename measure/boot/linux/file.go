package linux

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/measure/boot"
)

// Lines that bakeoff-agent boot-events writes besides the trace and the kernel log: what
// was lost, and readings of the clocks of both, each between two readings of
// CLOCK_MONOTONIC, in nanoseconds.
const (
	magic      = "# bakeoff boot events 1"
	lost       = "# lost: "
	logClock   = "# clock: "
	traceClock = "# trace clock: "
)

// reading is what two clocks showed: the first was between after and before when the
// second showed at. All are nanoseconds.
type reading struct{ after, at, before int64 }

// event is a line of the trace about a process.
type event struct {
	line  int
	at    int64 // microseconds
	comm  string
	pid   string // that did it
	kind  string // fork, exec, exit
	other string // fork: the child; exec: the file
	child string // fork: the name of the child
}

// input is a file, taken apart.
type input struct {
	log    []byte // the file with the lines of the trace blanked; nil without a kernel log
	events []event
	notes  []bootmodel.Note
	// skipped are lines that cannot be read.
	skipped boot.Skipped
	// The clocks of the kernel log and of the trace, against CLOCK_MONOTONIC; nil if
	// nobody read them.
	clock, trace *reading
}

// splitFile takes a file apart into a kernel log and a trace.
func splitFile(file string, data []byte) (in input, err error) {
	log := make([]byte, 0, len(data))
	number, logged := 0, false
	for line := range bytes.Lines(data) {
		number++
		text := bytes.Trim(line, "\r\n")
		switch {
		case len(text) > boot.MaxLine:
			in.skipped.Add(number, "it is too long for a line of a kernel log")
			log = append(log, '\n')
			continue
		case bytes.HasPrefix(text, []byte("#")):
			if problem := in.comment(string(text)); problem != "" {
				in.skipped.Add(number, problem)
			}
			log = append(log, '\n')
			continue
		}
		if e, ok, problem := parseEvent(string(text)); problem != "" {
			in.skipped.Add(number, problem)
			log = append(log, '\n')
			continue
		} else if ok {
			e.line = number
			in.events = append(in.events, e)
			log = append(log, '\n')
			continue
		}
		logged = logged || len(bytes.TrimSpace(text)) > 0
		log = append(log, line...)
	}
	if logged {
		in.log = log
	} else if len(in.events) == 0 && in.skipped.Count > 0 {
		return in, fault.New(fault.Invalid, "%s%s", boot.At(file, in.skipped.Line), in.skipped.Why)
	} else if len(in.events) == 0 {
		return in, fault.New(fault.Invalid, "%sthe file has neither kernel messages nor process events; record the boot "+
			"again",
			boot.At(file, max(number, 1)))
	}
	return in, nil
}

// comment reads a line that begins with #, and returns what is wrong with it, or "".
func (in *input) comment(text string) (problem string) {
	if what, ok := strings.CutPrefix(text, lost); ok {
		in.notes = append(in.notes, bootmodel.Note{Source: name, Lost: true, Text: boot.ValidText(what)})
		return ""
	}
	for word, to := range map[string]**reading{logClock: &in.clock, traceClock: &in.trace} {
		if what, ok := strings.CutPrefix(text, word); ok {
			r, ok := parseReading(what)
			if !ok {
				return "this should be three times in nanoseconds; record the boot again"
			}
			*to = &r
			return ""
		}
	}
	// # entries-in-buffer/entries-written: 140080/250280   #P:4
	what, ok := strings.CutPrefix(text, "# entries-in-buffer/entries-written: ")
	if !ok {
		return ""
	}
	counts, _, _ := strings.Cut(what, " ")
	kept, written, ok := strings.Cut(counts, "/")
	k, err1 := strconv.ParseUint(kept, 10, 63)
	w, err2 := strconv.ParseUint(written, 10, 63)
	if !ok || err1 != nil || err2 != nil || k > w {
		return "these are not counts of entries; copy the file trace again"
	}
	if k < w {
		in.notes = append(in.notes, bootmodel.Note{Source: name, Lost: true, Text: fmt.Sprintf("The kernel overwrote %d of "+
			"%d events, because its trace buffer was full. Make the buffer larger (trace_buf_size=16M).", w-k, w)})
	}
	return ""
}

// parseReading reads "AFTER AT BEFORE".
func parseReading(s string) (r reading, ok bool) {
	words := strings.Fields(s)
	if len(words) != 3 {
		return r, false
	}
	for i, to := range []*int64{&r.after, &r.at, &r.before} {
		n, err := strconv.ParseInt(words[i], 10, 62)
		if err != nil || n < 0 {
			return r, false
		}
		*to = n
	}
	return r, r.after <= r.before
}

// parseEvent reads a line such as
//
//	sh-45      [000] .....     1.234567: sched_process_fork: comm=sh pid=45 child_comm=sh child_pid=46
//
// Older kernels have no flags.
func parseEvent(line string) (e event, ok bool, problem string) {
	before, after, found := strings.Cut(line, ": sched_process_")
	if !found {
		return e, false, ""
	}
	kind, text, found := strings.Cut(after, ": ")
	if !found || kind != "fork" && kind != "exec" && kind != "exit" {
		return e, false, ""
	}
	i := strings.LastIndexByte(before, ' ')
	at, ok := parseMicros(before[i+1:])
	task, _, _ := strings.Cut(before, " [")
	task = strings.TrimSpace(task)
	dash := strings.LastIndexByte(task, '-')
	if !ok || dash < 0 || !boot.AreDigits(task[dash+1:]) {
		return e, false, "this event has no task or no time in seconds; use the clock local (trace_clock)"
	}
	e = event{at: at, comm: boot.ValidText(task[:dash]), pid: task[dash+1:], kind: kind}
	switch kind {
	case "fork":
		e.child = boot.ValidText(fieldBetween(text, "child_comm=", " child_pid="))
		e.other = fieldBetween(text, "child_pid=", " ")
		if !boot.AreDigits(e.other) {
			return e, false, "this event does not name the new process"
		}
	case "exec":
		e.other = boot.ValidText(fieldBetween(text, "filename=", " pid="))
		if e.other == "" {
			return e, false, "this event does not name the program"
		}
	}
	return e, true, ""
}

// fieldBetween is what lies between two words of s, or after the first.
func fieldBetween(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	if i := strings.LastIndex(s, to); i >= 0 {
		s = s[:i]
	}
	return s
}

// parseMicros reads SECONDS.MICROSECONDS.
func parseMicros(s string) (int64, bool) {
	whole, part, ok := strings.Cut(s, ".")
	if !ok || len(part) != 6 || !boot.AreDigits(whole) || !boot.AreDigits(part) {
		return 0, false
	}
	a, _ := strconv.ParseInt(whole, 10, 64)
	b, _ := strconv.ParseInt(part, 10, 64)
	return a*1e6 + b, true
}
