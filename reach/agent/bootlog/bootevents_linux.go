package bootlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/clock"
)

// processEvents are the trace events of processes.
var processEvents = []string{"sched_process_fork", "sched_process_exec", "sched_process_exit"}

// tracefs is where the kernel's tracing is. bootParameter makes it record processes from
// the start.
const (
	tracefs       = "/sys/kernel/tracing"
	bootParameter = "trace_event=sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit"
)

// openTracing makes the kernel's tracing accessible.
func openTracing() error {
	if _, err := os.Stat(filepath.Join(tracefs, "trace")); err == nil {
		return nil
	}
	if err := unix.Mount("tracefs", tracefs, "tracefs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fault.New(fault.Unsupported, "the kernel's tracing cannot be read: mount tracefs on %s: %w", tracefs, err)
	}
	return nil
}

// startBootEvents makes the kernel record the processes that start from now on.
func startBootEvents() error {
	if err := openTracing(); err != nil {
		return err
	}
	for _, event := range processEvents {
		path := filepath.Join(tracefs, "events/sched", event, "enable")
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return fault.Wrap(fault.Unsupported, "boot-events", err)
		}
	}
	return nil
}

// writeBootEvents writes what the kernel recorded of its boot.
func writeBootEvents(w io.Writer) error {
	fmt.Fprintln(w, bootEventsMagic)
	kmsg, err := unix.Open("/dev/kmsg", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(fault.Unsupported, "boot-events: open /dev/kmsg", err)
	}
	defer unix.Close(kmsg)
	if err := writeTrace(w); err != nil {
		return err
	}
	return writeKmsg(w, kmsg)
}

// writeTrace writes the events of processes.
func writeTrace(w io.Writer) error {
	if err := openTracing(); err != nil {
		fmt.Fprintf(w, "%sNo process was recorded: %s.\n", bootEventsLost, strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	for _, event := range processEvents {
		on, err := os.ReadFile(filepath.Join(tracefs, "events/sched", event, "enable"))
		if err == nil && !strings.HasPrefix(string(on), "1") {
			err = errors.New("it is off")
		}
		if err != nil {
			fmt.Fprintf(w, "%sThe event %s was not recorded: %v. Boot with %s.\n", bootEventsLost, event, err, bootParameter)
		}
	}
	before, after, err := markTrace()
	if err != nil {
		fmt.Fprintf(w, "%sThe clock of the trace could not be read: %v.\n", bootEventsLost, err)
	}
	trace, err := os.Open(filepath.Join(tracefs, "trace"))
	if err != nil {
		return fault.Wrap(fault.Lab, "boot-events", err)
	}
	defer trace.Close()
	marked, err := copyTrace(w, trace)
	if marked >= 0 {
		fmt.Fprintf(w, "%s%d %d %d\n", bootEventsTraceClock, before, marked, after)
	}
	return err
}

// markTrace writes traceMark into the trace, and returns CLOCK_MONOTONIC before and after.
// It writes twice, because the first write takes long; the last counts.
func markTrace() (before, after int64, err error) {
	f, err := os.OpenFile(filepath.Join(tracefs, "trace_marker"), os.O_WRONLY, 0)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for range 2 {
		before = clock.Monotonic()
		_, err = f.WriteString(traceMark)
		after = clock.Monotonic()
	}
	return before, after, err
}

// endMark is what boot-events writes into the kernel's log to read its clock. Its priority
// keeps it off the console, whose output would take long.
const endMark = "bakeoff-agent: end of the recorded boot"

// writeKmsg writes the kernel's log up to a message of our own, and when that was on
// CLOCK_MONOTONIC.
func writeKmsg(w io.Writer, kmsg int) error {
	before := clock.Monotonic()
	_, err := unix.Write(kmsg, []byte("<7>"+endMark+"\n"))
	after := clock.Monotonic()
	if err != nil {
		fmt.Fprintf(w, "%sThe clock of the log could not be compared with CLOCK_MONOTONIC: %v.\n", bootEventsLost, err)
	}
	next, copied := uint64(0), 0
	buf := make([]byte, 16<<10)
	for copied < bootEventsLimit {
		n, err := unix.Read(kmsg, buf)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EPIPE): // EPIPE: it was overwritten meanwhile
			continue
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return nil
		case err != nil:
			return fault.Wrap(fault.Lab, "boot-events: read /dev/kmsg", err)
		}
		r, ok := parseKmsg(string(buf[:n]))
		if !ok {
			continue
		}
		if r.sequence > next {
			fmt.Fprintf(w, "%sThe kernel overwrote %d lines of its log. Make it larger (log_buf_len=4M).\n", bootEventsLost,
				r.sequence-next)
		}
		next = r.sequence + 1
		if strings.HasPrefix(r.text, endMark) {
			fmt.Fprintf(w, "%s%d %d %d\n", bootEventsClock, before, r.micros*1000, after)
			continue
		}
		line := r.line()
		copied += len(line)
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%sThe kernel's log has more than %d MiB, so its end was left out.\n", bootEventsLost,
		bootEventsLimit>>20)
	return nil
}
