package tslog

import (
	"bytes"
	"encoding/binary"
	"slices"

	"bakeoff/measure/boot"
)

// kind is what an entry says.
type kind byte

const (
	enter kind = iota
	exit
	newThread
	event
)

// entry is a line of debug.tslog.
type entry struct {
	thread, tsc uint64
	kind        kind
	rest        []byte // a part of the line
}

// parseEntry reads "0xTHREAD TSC TYPE REST".
func parseEntry(line []byte) (e entry, ok bool) {
	if len(line) < 4 || line[0] != '0' || line[1] != 'x' {
		return e, false
	}
	i := 2
	for ; i < len(line) && line[i] != ' '; i++ {
		c := line[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return e, false
		}
		if e.thread >= 1<<60 {
			return e, false
		}
		e.thread = e.thread<<4 | uint64(c)
	}
	from := i + 1
	if i == 2 || from >= len(line) {
		return e, false
	}
	if e.tsc, i = parseNumber(line, from); i == from || i >= len(line) || line[i] != ' ' {
		return e, false
	}
	line = line[i+1:]
	space := bytes.IndexByte(line, ' ')
	if space < 0 || space+1 == len(line) {
		return e, false
	}
	switch string(line[:space]) {
	case "ENTER":
		e.kind = enter
	case "EXIT":
		e.kind = exit
	case "THREAD":
		e.kind = newThread
	case "EVENT":
		e.kind = event
	default:
		return e, false
	}
	e.rest = line[space+1:]
	return e, e.rest[0] != ' '
}

// parseNumber reads decimal digits from i, and returns where they end; i itself if there
// are none or too many.
func parseNumber(line []byte, i int) (v uint64, end int) {
	end = i
	for ; end < len(line) && line[end] >= '0' && line[end] <= '9'; end++ {
		if end-i == 18 {
			return 0, i
		}
		v = v*10 + uint64(line[end]-'0')
	}
	return v, end
}

// process is a line of debug.tslog_user.
type process struct {
	pid, parent, fork, exit uint64
	exec, namei             string
}

// parseProcess reads PID PPID FORK EXIT "EXEC" "NAMEI".
func parseProcess(line []byte) (p process, ok bool) {
	at := 0
	for _, v := range []*uint64{&p.pid, &p.parent, &p.fork, &p.exit} {
		n, end := parseNumber(line, at)
		if end == at || end >= len(line) || line[end] != ' ' {
			return p, false
		}
		*v, at = n, end+1
	}
	rest := line[at:]
	if len(rest) < 5 || rest[0] != '"' || rest[len(rest)-1] != '"' {
		return p, false
	}
	exec, namei, ok := bytes.Cut(rest[1:len(rest)-1], []byte(`" "`))
	p.exec, p.namei = boot.ValidText(exec), boot.ValidText(namei)
	return p, ok
}

// withoutName removes the name that sysctl writes without -n: "debug.tslog: ".
func withoutName(line []byte) []byte {
	for _, name := range []string{"debug.tslog_user", "debug.tslog"} {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if rest = bytes.TrimLeft(rest, " "); ok && len(rest) > 0 && (rest[0] == ':' || rest[0] == '=') {
			return bytes.TrimLeft(rest[1:], " ")
		}
	}
	return line
}

// rank says how sure it is that a number is the frequency of the counter.
type rank int

const (
	lone  rank = iota + 1 // a line that is just a number
	after                 // such a line right after the output of the other sysctls
	named                 // with the name of the sysctl, or as sysctl -b writes it
)

// frequency is a number that may be the frequency of the counter.
type frequency struct {
	hz   float64
	rank rank
	line int
}

// frequencies are the names of the sysctls that hold the frequency of the counter of amd64 and of
// arm64. The sysctls of other counters have similar names.
var frequencies = []string{"machdep.tsc_freq", "kern.timecounter.tc.ARM MPCore Timecounter.frequency"}

// parseFrequency reads the frequency of the counter, with or without the name of its sysctl. It
// is at least 1 MHz. Above mostHz no counter exists, but a guest on a busy host measures that.
func parseFrequency(line []byte) (f frequency, ok bool) {
	line, f.rank = bytes.TrimRight(line, " "), lone
	if i := bytes.LastIndexAny(line, ":="); i >= 0 {
		if !slices.Contains(frequencies, string(bytes.TrimRight(line[:i], " :="))) {
			return f, false
		}
		line, f.rank = bytes.TrimLeft(line[i+1:], " "), named
	}
	n, end := parseNumber(line, 0)
	f.hz = float64(n)
	return f, end > 0 && end == len(line) && n >= leastHz
}

const leastHz, mostHz = 1e6, 1e11

// cutFrequency reads what sysctl -b writes of a frequency: eight bytes, the lowest first, at the
// start of the file or after the zero byte that ends the text before. One of these bytes may be
// that of a line end. The highest bytes are zero. They may be missing at the end of the file:
// readers of text files remove zero bytes there. Text is no frequency: eight bytes of text would
// be above mostHz, and what is shorter ends with a line end.
func cutFrequency(data []byte, first bool) (f frequency, rest []byte, ok bool) {
	if !first && data[0] != 0 {
		return f, data, false
	} else if !first {
		data = data[1:]
	}
	value := data[:min(8, len(data))]
	n := binary.LittleEndian.Uint64(append(bytes.Clone(value), make([]byte, 8-len(value))...))
	if n < leastHz || n > mostHz || len(value) < 8 && bytes.HasSuffix(value, []byte("\n")) {
		return f, data, false
	}
	return frequency{hz: float64(n), rank: named}, data[len(value):], true
}
