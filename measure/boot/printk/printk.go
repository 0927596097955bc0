// Package printk reads kernel logs whose lines have time stamps: those of Linux,
// NetBSD and FreeBSD, as dmesg, /dev/kmsg, the journal, syslog and serial consoles give
// them.
package printk

import (
	"bytes"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/measure/boot"
)

// Line is a line with a time stamp.
type Line struct {
	Number int   // in the file, from 1
	At     int64 // ticks of the log's clock
	// Caller is what Linux prints with CONFIG_PRINTK_CALLER: T and a thread, or C and
	// a CPU; "" without.
	Caller string
	Text   string // valid UTF-8, without the time stamp
}

// Log is a kernel log.
type Log struct {
	Lines []Line // their times do not decrease
	Hz    float64
	// Unstamped counts lines without a time stamp: output of firmware and programs on
	// the same console. They are left out.
	Unstamped int
	// Programs counts lines of the journal or of /dev/kmsg that programs wrote. They are left out.
	Programs int
	// Xen counts lines of the hypervisor in the log of a kernel. They are left out, because the
	// clock of Xen is another.
	Xen int
	// Backward counts lines whose time was before that of the line above. They have
	// the time of that line.
	Backward int
	// Skipped are lines that could not be read.
	Skipped boot.Skipped
	// Unknown is what stands between the time stamp and the message of the first line that
	// shows it, if nobody knows what it is; "" otherwise. UnknownLine is that line.
	Unknown     string
	UnknownLine int
}

// restart is the time, in seconds, by which a clock must go back to have been started
// again. Processors of one machine differ by less.
const restart = 1

// stampedLine is a line with the number of digits of its time.
type stampedLine struct {
	Line
	digits int
	xen    bool
	// console tells that a time of the console stood before the time, and narrow that the time itself is
	// too short for one of Linux.
	console, narrow bool
}

// Parse reads a kernel log. Errors are of kind fault.Invalid, and each line of them
// begins with name:line.
func Parse(name string, data []byte) (Log, error) {
	var log Log
	var all []stampedLine
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if len(line) > boot.MaxLine {
			log.Skipped.Add(number, "it is too long for a line of a kernel log")
			continue
		}
		line = printable(line)
		s, ok := parseStamp(line)
		switch {
		case ok && s.program:
			log.Programs++
		case ok:
			all = append(all, stampedLine{
				Line{Number: number, At: s.at, Caller: s.caller, Text: boot.ValidText(s.rest)},
				s.digits, s.xen, s.console, s.narrow,
			})
		case len(all) > 0 && recordKey.Match(line): // of the record above
		case len(bytes.TrimSpace(line)) > 0:
			log.Unstamped++
		}
	}
	if len(all) == 0 {
		line, problem := notStamped(data)
		return Log{}, fault.New(fault.Invalid, "%s%s", boot.At(name, line), problem)
	}
	all = log.journal(log.oneClock(log.withoutXen(log.withoutConsole(all))))
	if again := log.orderLines(all); again > 0 {
		return Log{}, fault.New(fault.Invalid, "%sthe clock starts again, so this is a second boot; cut the file to one boot",
			boot.At(name, again))
	}
	log.removePrefixes()
	return log, nil
}

// withoutConsole leaves out lines with only the time of the console, such as those of firmware: its clock is another.
func (l *Log) withoutConsole(all []stampedLine) []stampedLine {
	if _, ok := lists.Find(all, func(line stampedLine) bool { return line.console }); !ok {
		return all
	}
	kept := lists.Filter(all, func(line stampedLine) bool { return line.console || !line.narrow })
	l.Unstamped += len(all) - len(kept)
	return kept
}

// withoutXen returns the lines of the kernel. If there are none, this is the log of Xen.
func (l *Log) withoutXen(all []stampedLine) []stampedLine {
	kernel := lists.Filter(all, func(line stampedLine) bool { return !line.xen })
	if len(kernel) == 0 {
		return all
	}
	l.Xen = len(all) - len(kernel)
	return kernel
}

// oneClock returns the lines whose times have as many digits as most have.
func (l *Log) oneClock(all []stampedLine) []stampedLine {
	var count [10]int
	digits := all[0].digits
	for _, line := range all {
		if count[line.digits]++; count[line.digits] > count[digits] {
			digits = line.digits
		}
	}
	l.Hz = float64(pow10(digits))
	if count[digits] == len(all) {
		return all
	}
	kept := all[:0]
	for _, line := range all {
		if line.digits != digits {
			l.Skipped.Add(line.Number, "its time has another number of digits after the point than the times of the other "+
				"lines")
			continue
		}
		kept = append(kept, line)
	}
	return kept
}

// orderLines adds the lines in the order of their times. A single line that is far from its
// neighbors was damaged. If the clock starts again, order returns the number of that line.
func (l *Log) orderLines(all []stampedLine) (again int) {
	const damaged = "its time is far from that of the lines around it"
	back := int64(restart * l.Hz)
	var latest, before int64 // of the last line, and of the one before
	for i, line := range all {
		if line.At < latest && strings.HasPrefix(line.Text, "Linux version ") {
			return line.Number // also after a boot that was shorter than restart
		}
		if latest-line.At >= back {
			last := len(l.Lines) - 1
			switch {
			case i+1 < len(all) && latest-all[i+1].At < back: // the next line goes on
				l.Skipped.Add(line.Number, damaged)
				continue
			case last > 0 && before-line.At < back && line.At > 0:
				l.Skipped.Add(l.Lines[last].Number, damaged)
				l.Lines, latest = l.Lines[:last], before
			default:
				return line.Number
			}
		}
		if line.At < latest {
			line.At = latest
			l.Backward++
		}
		before, latest = latest, line.At
		l.Lines = append(l.Lines, line.Line)
	}
	return 0
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

// Stamped reports whether a line of head has a time stamp, or a time that Parse refuses
// with a reason: whether a file that begins with head may be a kernel log.
func Stamped(head []byte) bool {
	for line := range bytes.Lines(head) {
		if _, ok := parseStamp(printable(line)); ok {
			return true
		}
	}
	_, problem := notStamped(head)
	return problem != noTime
}
