package tslog

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

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

// frequencies end the names of the sysctls that hold the frequency of the counter:
// machdep.tsc_freq of amd64, and
// kern.timecounter.tc.ARM MPCore Timecounter.frequency of arm64.
var frequencies = []string{"tsc_freq", ".frequency"}

// parseFrequency reads the frequency of the counter, with or without the name of its sysctl. It
// is at least 1 MHz. Above mostHz no counter exists, but a guest on a busy host measures that.
func parseFrequency(line []byte) (hz float64, ok bool) {
	line = bytes.TrimRight(line, " ")
	if i := bytes.LastIndexAny(line, ":="); i >= 0 {
		of := string(bytes.TrimRight(line[:i], " :="))
		if !slices.ContainsFunc(frequencies, func(end string) bool { return strings.HasSuffix(of, end) }) {
			return 0, false
		}
		line = bytes.TrimLeft(line[i+1:], " ")
	}
	n, end := parseNumber(line, 0)
	return float64(n), end > 0 && end == len(line) && n >= leastHz
}

const leastHz, mostHz = 1e6, 1e11

// binaryFrequency reads what sysctl -b writes of a frequency: eight bytes, the lowest first,
// after the zero byte that ends the text before. The highest bytes, which are zero, may be
// missing: readers of text files remove zero bytes at the end.
func binaryFrequency(line []byte) (hz float64, ok bool) {
	if len(line) > 1 && line[0] == 0 && len(line) != 8 {
		line = line[1:]
	}
	if len(line) > 8 || bytes.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return 0, false // text
	}
	n := binary.LittleEndian.Uint64(append(bytes.Clone(line), make([]byte, 8-len(line))...))
	return float64(n), n >= leastHz && n <= mostHz
}
