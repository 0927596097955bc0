// Package printk reads kernel logs whose lines have time stamps: those of Linux,
// NetBSD and FreeBSD, as dmesg, the journal and serial consoles give them.
package printk

import (
	"bytes"
	"strings"

	"bakeoff/base/fault"
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
	// Backward counts lines whose time was before that of the line above. They have
	// the time of that line.
	Backward int
}

// restart is the time, in seconds, by which a clock must go back to have been started
// again. Processors of one machine differ by less.
const restart = 1

// Parse reads a kernel log. Errors are of kind fault.Invalid, and each line of them
// begins with name:line.
func Parse(name string, data []byte) (Log, error) {
	var log Log
	digits, number, latest := -1, 0, int64(0)
	for line := range bytes.Lines(data) {
		number++
		if len(line) > boot.MaxLine {
			return Log{}, fault.New(fault.Invalid, "%sthe line has more than %d bytes; this is no kernel log",
				boot.At(name, number), boot.MaxLine)
		}
		stamp, ok := parseStamp(bytes.TrimRight(line, "\r\n"))
		if !ok {
			if len(bytes.TrimSpace(line)) > 0 {
				log.Unstamped++
			}
			continue
		}
		if digits < 0 {
			digits, log.Hz = stamp.digits, float64(pow10(stamp.digits))
		}
		if stamp.digits != digits {
			return Log{}, fault.New(fault.Invalid, "%sthe time has %d digits after the point, and those above have %d; "+
				"read the "+
				"logs of one system at a time", boot.At(name, number), stamp.digits, digits)
		}
		if stamp.at < latest {
			if latest-stamp.at >= restart*pow10(digits) {
				return Log{}, fault.New(fault.Invalid, "%sthe clock starts again, so this is a second boot; cut the file to "+
					"one boot",
					boot.At(name, number))
			}
			stamp.at = latest
			log.Backward++
		}
		latest = stamp.at
		log.Lines = append(log.Lines, Line{Number: number, At: stamp.at, Caller: stamp.caller, Text: text(stamp.rest)})
	}
	if len(log.Lines) == 0 {
		return Log{}, fault.New(fault.Invalid, "%sno line begins with a time such as [    1.234567]; turn time stamps on "+
			"(Linux: printk.time=1, FreeBSD: kern.msgbuf_show_timestamp=2)", boot.At(name, 1))
	}
	return log, nil
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

type stamp struct {
	at     int64
	digits int // after the point
	caller string
	rest   []byte
}

// parseStamp reads what a line begins with: a priority (<6>, or "kern  :info  : "),
// the time in brackets, and the caller in brackets.
func parseStamp(line []byte) (stamp, bool) {
	if len(line) > 2 && line[0] == '<' {
		if i := bytes.IndexByte(line[:min(len(line), 8)], '>'); i > 0 {
			line = line[i+1:]
		}
	}
	if len(line) > 0 && line[0] >= 'a' && line[0] <= 'z' { // dmesg --decode
		i := bytes.Index(line, []byte(": ["))
		if i < 0 || i > 20 || bytes.Count(line[:i], []byte(":")) != 1 {
			return stamp{}, false
		}
		line = line[i+2:]
	}
	if len(line) < 3 || line[0] != '[' {
		return stamp{}, false
	}
	end := bytes.IndexByte(line[:min(len(line), 32)], ']')
	if end < 0 {
		return stamp{}, false
	}
	s, ok := parseTime(bytes.TrimLeft(line[1:end], " "))
	if !ok {
		return stamp{}, false
	}
	s.rest = line[end+1:]
	if len(s.rest) > 2 && s.rest[0] == '[' {
		if end := bytes.IndexByte(s.rest[:min(len(s.rest), 16)], ']'); end > 0 {
			who := string(bytes.TrimLeft(s.rest[1:end], " "))
			if isCaller(who) {
				s.caller, s.rest = who, s.rest[end+1:]
			}
		}
	}
	s.rest = bytes.TrimPrefix(s.rest, []byte(" "))
	return s, true
}

// parseTime reads SECONDS or SECONDS.FRACTION, each of at most nine digits.
func parseTime(b []byte) (s stamp, ok bool) {
	whole, fraction, point := bytes.Cut(b, []byte("."))
	if len(whole) == 0 || len(whole) > 9 || len(fraction) > 9 || point && len(fraction) == 0 {
		return s, false
	}
	for _, part := range [][]byte{whole, fraction} {
		for _, c := range part {
			if c < '0' || c > '9' {
				return s, false
			}
			s.at = s.at*10 + int64(c-'0')
		}
	}
	s.digits = len(fraction)
	return s, true
}

func isCaller(s string) bool {
	if len(s) < 2 || s[0] != 'T' && s[0] != 'C' {
		return false
	}
	return strings.Trim(s[1:], "0123456789") == ""
}

// Stamped reports whether a line of head has a time stamp: whether a file that begins
// with head may be a kernel log.
func Stamped(head []byte) bool {
	for line := range bytes.Lines(head) {
		if _, ok := parseStamp(bytes.TrimRight(line, "\r\n")); ok {
			return true
		}
	}
	return false
}
