package bootlog

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"bakeoff/reach/agent/command"
)

// What boot-events prints is text:
//
//	# bakeoff boot events 1
//	# lost: SENTENCE          something is missing
//	# trace clock: A B C      CLOCK_MONOTONIC was A, then the clock of the trace B, then the former C; in nanoseconds
//	# entries-in-buffer/entries-written: N/M …
//	lines of the file trace of tracefs about processes
//	lines of the kernel's log, as dmesg prints them
//	# clock: A B C            the same of the clock of the kernel's log
//
// measure/boot/linux reads it.
const (
	bootEventsMagic      = "# bakeoff boot events 1"
	bootEventsClock      = "# clock: "
	bootEventsTraceClock = "# trace clock: "
	bootEventsLost       = "# lost: "
)

// bootEventsLimit bounds what boot-events copies of each of the two, in bytes.
const bootEventsLimit = 64 << 20

// RunEvents is the subcommand `boot-events`.
func RunEvents(c command.Call) int {
	f, _ := c.Flags("boot-events")
	start := f.Bool("start", false, "record the processes that start from now on")
	if err := f.Parse(c.Args); err != nil {
		return c.Fail(command.UsageError("boot-events takes no argument but --start"))
	}
	if *start {
		return c.Done(startBootEvents())
	}
	w := bufio.NewWriter(c.Stdout)
	err := writeBootEvents(w)
	if flushed := w.Flush(); err == nil {
		err = flushed
	}
	return c.Done(err)
}

// kmsgRecord is a record of /dev/kmsg:
// "priority,sequence,microseconds,flags[,caller=T1];text\n KEY=value\n".
type kmsgRecord struct {
	sequence, micros uint64
	caller, text     string
}

func parseKmsg(record string) (r kmsgRecord, ok bool) {
	head, text, ok := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 4 {
		return r, false
	}
	var err1, err2 error
	r.sequence, err1 = strconv.ParseUint(fields[1], 10, 64)
	r.micros, err2 = strconv.ParseUint(fields[2], 10, 63)
	for _, f := range fields[4:] {
		if who, found := strings.CutPrefix(f, "caller="); found {
			r.caller = "[" + who + "]"
		}
	}
	r.text, _, _ = strings.Cut(text, "\n")
	return r, err1 == nil && err2 == nil
}

// line is the record as dmesg prints it.
func (r kmsgRecord) line() string {
	return fmt.Sprintf("[%5d.%06d]%s %s\n", r.micros/1e6, r.micros%1e6, r.caller, r.text)
}

// traceMark is what boot-events writes into the trace to read its clock.
const traceMark = "bakeoff-agent: clock"

// copyTrace copies what the trace says of processes, and how many events were lost. It
// returns when traceMark was written, in nanoseconds; -1 if it is not there.
func copyTrace(w io.Writer, trace io.Reader) (marked int64, err error) {
	in := bufio.NewScanner(io.LimitReader(trace, bootEventsLimit))
	in.Buffer(nil, 1<<20)
	marked = -1
	read := 0
	for in.Scan() {
		line := in.Text()
		read += len(line) + 1
		if before, text, ok := strings.Cut(line, ": tracing_mark_write: "); ok && text == traceMark {
			marked = traceTime(before[strings.LastIndexByte(before, ' ')+1:])
			continue
		}
		if strings.Contains(line, ": sched_process_") || strings.HasPrefix(line, "# entries-in-buffer/entries-written: ") {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return -1, err
			}
		}
	}
	if read >= bootEventsLimit {
		fmt.Fprintf(w, "%sThe trace has more than %d MiB, so its end was left out.\n", bootEventsLost, bootEventsLimit>>20)
	}
	return marked, in.Err()
}

// traceTime reads SECONDS.MICROSECONDS as nanoseconds; -1 if it is something else.
func traceTime(s string) int64 {
	whole, part, ok := strings.Cut(s, ".")
	seconds, err1 := strconv.ParseInt(whole, 10, 32)
	micros, err2 := strconv.ParseInt(part, 10, 32)
	if !ok || len(part) != 6 || err1 != nil || err2 != nil {
		return -1
	}
	return seconds*1e9 + micros*1e3
}
