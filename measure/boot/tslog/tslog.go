// Package tslog is the source of FreeBSD's and NetBSD's tslog(4).
//
// A line of debug.tslog is "0xTHREAD TSC TYPE REST". TYPE and REST are
//
//	ENTER FUNCTION[ ARGUMENT]   the thread calls the function
//	EXIT FUNCTION[ ARGUMENT]    it returns from the nearest open call of the function
//	THREAD NAME                 it is a new thread, with an empty stack
//	EVENT WAIT|UNWAIT TOPIC     it waits for a topic
//	EVENT HOLD|RELEASE TOPIC    others that wait for the topic wait for this thread
//	EVENT TEXT                  something happened
//
// A line of debug.tslog_user is a process: PID PPID FORK EXIT "EXEC" "NAMEI", with FORK
// and EXIT in the same ticks.
//
// Source: sys/kern/kern_tslog.c of FreeBSD, and tslog.sh of its boot profiling scripts
// (C. Percival, Profiling the FreeBSD kernel boot).
package tslog

import (
	"bytes"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/measure/boot"
)

// New returns the source.
func New() boot.Source { return source{} }

type source struct{}

const name = "tslog"

// ClockName is the name of the clock of a recording: the time stamp counter. On arm64 it is the
// counter of the system.
const ClockName = "tsc"

// The functions that begin and end a boot.
const (
	mainFreeBSD = "mi_startup"
	mainNetBSD  = "main"
	last        = "start_init"
)

// Marks that other sources do not have.
const markMain = "main function" // the first call of mi_startup or main

// Doc implements boot.Source.
func (source) Doc() boot.SourceDoc {
	return boot.SourceDoc{
		Name:  name,
		Reads: "debug.tslog and debug.tslog_user of FreeBSD and NetBSD (kernel option TSLOG)",
		Get: "sysctl -n debug.tslog debug.tslog_user machdep.tsc_freq > FILE (arm64: 'kern.timecounter.tc.ARM MPCore " +
			"Timecounter.frequency' instead of machdep.tsc_freq)",
		Says: "The boot begins with the call of the main function (FreeBSD: mi_startup, NetBSD: main) and ends when " +
			"start_init exits. A thread can wait for a topic, such as a lock, that another thread holds. The span of the wait " +
			"then contains what the other thread ran meanwhile; if several threads hold the topic, it is the thread that " +
			"releases it last. If the main function exits before start_init, the boot continues in the thread of start_init. " +
			"A function without an EXIT ends with the function that called it. The times are ticks of the time stamp counter. " +
			"Their frequency is known only if the file has a line that is just a number, or the name of the sysctl and a " +
			"number. If the file has both, bakeoff uses the number with the name.",
	}
}

// Recognizes implements boot.Source. Other lines may be around the entries: a serial console
// has them.
func (source) Recognizes(head []byte) bool {
	for line := range bytes.Lines(head) {
		line = withoutName(bytes.Trim(line, "\r\n\x00"))
		if _, ok := parseEntry(line); ok {
			return true
		}
		if _, ok := parseProcess(line); ok {
			return true
		}
	}
	return false
}

// Read implements boot.Source.
func (source) Read(file string, data []byte) (bootmodel.Recording, error) {
	if err := boot.CheckSize(file, data); err != nil {
		return bootmodel.Recording{}, err
	}
	l := newLog(file)
	if err := l.readLines(data); err != nil {
		return bootmodel.Recording{}, err
	}
	return l.recording()
}

// maxProblems is after how many wrong entries reading ends.
const maxProblems = 20

// readLines reads the lines.
func (l *log) readLines(data []byte) error {
	const perSpan = 80 // bytes of its two lines, about
	l.spans, l.fns = make([]bootmodel.Span, 0, len(data)/perSpan), make([]int32, 0, len(data)/perSpan)
	for wrong := 0; len(data) > 0 && wrong < maxProblems; {
		if f, rest, ok := cutFrequency(data, l.line == 0); ok {
			data, f.line = rest, l.line+1
			l.addFrequency(f)
			continue
		}
		line := data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		l.line++
		if problem := l.addLine(line); problem != "" {
			wrong++
			l.problems.Add(boot.At(l.file, l.line), "%s", problem)
		}
	}
	return l.problems.Err()
}

// addLine reads a line. It returns what is wrong with an entry that cannot belong to a boot,
// or "". Lines that are nothing of the sysctls are left out.
func (l *log) addLine(line []byte) string {
	if len(line) > boot.MaxLine {
		l.skipped.Add(l.line, "the line is too long; this is not a tslog")
		return ""
	}
	line = withoutName(bytes.Trim(line, "\r\x00"))
	if e, ok := parseEntry(line); ok {
		l.lastLine, l.atOutput = l.line, true
		return l.addEntry(e)
	}
	switch p, ok := parseProcess(line); {
	case ok:
		l.processes, l.atOutput = append(l.processes, p), true
	case len(bytes.TrimSpace(line)) == 0:
	default:
		f, ok := parseFrequency(line)
		f.line = l.line
		if f.rank == lone && l.atOutput {
			f.rank = after
		}
		l.atOutput = false
		if ok && l.addFrequency(f) {
			return ""
		}
		l.skipped.Add(l.line, "this is neither an entry of debug.tslog (0xTHREAD TSC ENTER|EXIT|THREAD|EVENT NAME) nor a "+
			"process of debug.tslog_user (PID PPID FORK EXIT \"EXEC\" \"NAMEI\"); remove what is not from these sysctls")
	}
	return ""
}

// addFrequency keeps the surest of the numbers that may be the frequency of the counter. It reports
// whether f may be one.
func (l *log) addFrequency(f frequency) bool {
	switch {
	case f.hz > mostHz && f.rank == lone:
		return false
	case f.hz > mostHz:
		l.wrongHz = f.hz
	case f.rank > l.frequency.rank:
		l.other, l.frequency = l.frequency, f
	case f.hz != l.frequency.hz && l.other.rank == 0:
		l.other = f
	}
	return true
}

// The longest stack of a thread.
const maxDepth = 10000

// log is what was read so far.
type log struct {
	file     string
	line     int
	lastLine int // that of the last entry
	problems fault.List
	skipped  boot.Skipped
	wrongHz  float64 // a frequency that no counter has

	frequency frequency // of the counter; its rank is 0 if the file does not say it
	other     frequency // another number that may be it; its rank is 0 if there is none
	atOutput  bool      // the line before is an entry or a process

	names    map[string]int32 // of REST, by its text
	labels   []label
	byThread map[uint64]*thread
	latest   *thread // that of the last entry

	started bool   // an entry was read
	rawTime uint64 // of the last entry, as it says
	shift   int64  // from there to the time of the boot
	time    int64
	first   int64
	end     int64 // of the boot; -1 before
	ended   int   // the span of start_init, or -1

	spans   []bootmodel.Span
	fns     []int32 // of every span: label.function, or a wait's topic below 0
	tracks  []bootmodel.Track
	begins  []int64 // of every track
	marks   []bootmodel.Mark
	holds   map[int32][]hold // by topic
	waits   []wait
	mains   [2]int // the spans of mi_startup and main, or -1
	counts  counts
	exactly *float64

	processes []process
}

// counts are what a reader must know.
type counts struct{ backward, unfinished, strayExit, strayUnwait, after int }

func newLog(file string) *log {
	return &log{file: file, names: map[string]int32{}, byThread: map[uint64]*thread{}, end: -1, ended: -1,
		holds: map[int32][]hold{}, mains: [2]int{-1, -1}, exactly: bootmodel.Exact()}
}
