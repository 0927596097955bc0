package printk

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/measure/boot"
)

// colors are escape sequences of terminals.
var colors = lazy.Compile("\x1b(\\[[0-9;?]*[ -/]*[@-~]|[()][0-9A-Za-z]|[=>78cDEHM])")

// inJSON is a line of a console that LAVA (output.yaml) or Docker (json-file) wrapped in JSON.
var inJSON = lazy.Compile(`^(?:- \{.*"msg"|\{.*"log"): *("(?:[^"\\]|\\.)*")`)

// ofYAML changes the escape sequences of YAML that JSON and Go do not have.
var ofYAML = strings.NewReplacer(`\\`, `\\`, `\e`, `\x1b`, `\0`, `\x00`, `\/`, `/`)

// unwrapped is the line of the console in a line of inJSON; otherwise the line itself.
func unwrapped(line []byte) []byte {
	if !bytes.HasPrefix(line, []byte("{")) && !bytes.HasPrefix(line, []byte("- {")) {
		return line
	}
	m := inJSON.FindSubmatch(line)
	if m == nil {
		return line
	}
	var text string
	if json.Unmarshal(m[1], &text) != nil {
		var err error
		if text, err = strconv.Unquote(ofYAML.Replace(string(m[1]))); err != nil {
			return line
		}
	}
	return []byte(text)
}

// printable is a line without its ends, escape sequences and zero bytes. Some consoles end lines
// with LF CR, so CR may be at the start.
func printable(line []byte) []byte {
	line = bytes.Trim(unwrapped(line), "\r\n")
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = colors.ReplaceAll(line, nil)
	}
	if bytes.IndexByte(line, 0) >= 0 {
		line = bytes.ReplaceAll(line, []byte{0}, nil)
	}
	return line
}

type stamp struct {
	at      int64
	digits  int // after the point
	caller  string
	program bool // a program wrote the line, not the kernel
	xen     bool // the hypervisor wrote it
	console bool // a time of the console stood before that of the kernel
	narrow  bool // the time has less than the width of a kernel's
	rest    []byte
}

// ofXen is what Xen writes before each line, also before its time stamp.
var ofXen = []byte("(XEN) ")

// maxPrefix is how many bytes may stand before the time stamp of the kernel.
const maxPrefix = 120

// parseStamp reads what a line begins with: a priority (<6>), the time in brackets, and the
// caller in brackets. Before the time, syslog, dmesg --decode, terminals and programs such as
// ts write what they like. There, the time must have the width that kernels give it.
func parseStamp(line []byte) (stamp, bool) {
	if s, ok := parseRecord(line); ok {
		return s, true
	}
	if len(line) > 2 && line[0] == '<' {
		if i := bytes.IndexByte(line[:min(len(line), 8)], '>'); i > 0 {
			line = line[i+1:]
		}
	}
	s, ok := stampAt(line, false)
	_, wide := stampAt(line, true)
	s.narrow = ok && !wide
	xen := false
	for from := 0; !ok; from++ {
		i := bytes.IndexByte(line[from:min(len(line), maxPrefix)], '[')
		if i < 0 {
			return stamp{}, false
		}
		from += i
		s, ok = stampAt(line[from:], true)
		xen = bytes.HasSuffix(line[:from], ofXen)
		if from >= min(len(line), maxPrefix) {
			break
		}
	}
	if !ok {
		return stamp{}, false
	}
	// The time of a console stands before that of the kernel.
	if inner, ok := stampAt(bytes.TrimLeft(s.rest, " "), true); ok {
		s, s.console = inner, true
	}
	if caller, rest, ok := parseCaller(s.rest); ok {
		s.caller, s.rest = caller, rest
	}
	s.rest = bytes.TrimPrefix(s.rest, []byte(" "))
	s.xen = xen || bytes.HasPrefix(s.rest, ofXen)
	return s, true
}

var (
	// record is what a line of /dev/kmsg begins with: priority with facility, number, time in
	// microseconds, flags, and more that a comma separates (Documentation/ABI/testing/dev-kmsg).
	record = lazy.Compile(`^([0-9]{1,4}),[0-9]{1,20},([0-9]{1,15}),[-c+](?:,(?:caller=([TC][0-9]+)|[^;]{1,80}))*;`)
	// recordKey is a line with a property of the device that the record above is about.
	recordKey = lazy.Compile(`^ [A-Z_]+=`)
)

// parseRecord reads a line as /dev/kmsg gives it.
func parseRecord(line []byte) (stamp, bool) {
	m := record.FindSubmatch(line)
	if m == nil {
		return stamp{}, false
	}
	priority, _ := strconv.Atoi(string(m[1])) // digits, and few: see record
	at, _ := strconv.ParseInt(string(m[2]), 10, 64)
	return stamp{at: at, digits: 6, caller: string(m[3]), program: priority > 7, rest: line[len(m[0]):]}, true
}

// kernelWidth is the least width of a time in brackets, as kernels write it: [%5lu.%06lu].
const kernelWidth = 12

// stampAt reads a time in brackets. wide tells that it must have the width of a kernel's.
func stampAt(line []byte, wide bool) (stamp, bool) {
	if len(line) < 3 || line[0] != '[' {
		return stamp{}, false
	}
	end := bytes.IndexByte(line[:min(len(line), 40)], ']')
	if end < 0 {
		return stamp{}, false
	}
	inside, _, delta := bytes.Cut(line[1:end], []byte(" <")) // dmesg --show-delta
	if delta && line[end-1] != '>' {
		return stamp{}, false
	}
	inside, cpu, hasCPU := bytes.Cut(inside, []byte("@")) // kernels of Amlogic: 0.000000@0
	s, ok := parseTime(bytes.Trim(inside, " "))           // the first line of journalctl -o short-delta has blanks behind
	if !ok || hasCPU && !boot.AreDigits(string(cpu)) || wide && (len(inside) < kernelWidth || s.digits < 6) {
		return stamp{}, false
	}
	if hasCPU {
		s.caller = "C" + string(cpu)
	}
	s.rest = line[end+1:]
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

// caller is what Linux prints with CONFIG_PRINTK_CALLER: [    T1] on its console, with a
// blank before it in dmesg. Some kernels add the name of the thread.
var caller = lazy.Compile(`^ ?\[ *([TC][0-9]+)([^0-9\]][^\]]{0,40})?\]:?`)

func parseCaller(rest []byte) (who string, after []byte, ok bool) {
	m := caller.FindSubmatch(rest)
	if m == nil {
		return "", rest, false
	}
	return string(m[1]), rest[len(m[0]):], true
}

// noTime is the problem of a file that has no times at all.
const noTime = "no line begins with a time such as [    1.234567]; turn time stamps on (Linux: printk.time=1, " +
	"FreeBSD: kern.msgbuf_show_timestamp=2)"

// decoded is what dmesg --decode writes before the time: the facility and the priority.
const decoded = `^(?:[a-z0-9]+ *:[a-z]+ *: )?`

// otherTimes are times of which the moments of a boot cannot be told, and what to do. dmesg
// writes the names of days and months in the language of its user.
var otherTimes = []struct {
	is      *lazy.Regexp
	problem string
}{
	{lazy.Compile(decoded + `\[[^][0-9][^][]{2,40} [ 0-9][0-9] [0-9:]{8} [0-9]{4}\]`),
		"the times are whole seconds of the wall clock (dmesg --ctime); use dmesg without -T"},
	{lazy.Compile(decoded + `\[([^][0-9 ]{2,20}[ 0-9][0-9] [0-9:]{5}| *\+[0-9]+\.[0-9]+)\]`),
		"the times are differences from line to line (dmesg --reltime or --human); use dmesg without -e and -H"},
	{lazy.Compile(decoded + `\[ *<? *[0-9]+\.[0-9]+>\]`),
		"the times are differences from line to line; use dmesg without --notime and -d"},
	{lazy.Compile(decoded + `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[,.][0-9]{6}[-+][0-9]{2}:[0-9]{2} [^ ]*[^k ][: ]`),
		"the times are those of the wall clock (dmesg --time-format=iso), which can be set during a boot; use dmesg " +
			"without it, or journalctl -k -o short-monotonic"},
	{lazy.Compile(`^([A-Z][a-z]{2} [ 0-9]{2}|[0-9]{4}-[0-9-]{5}[T ]|[0-9]{9,12}\.[0-9]{6})` +
		`[-+:.,0-9ZA-Z ]* ([^ ]+ )?kernel: `),
		"the times are those of syslog, which the kernel did not write; use dmesg, or journalctl -k -o short-monotonic"},
	{lazy.Compile(`^ *(\{ *)?"dmesg" *: *\[|^(data: |\x1e)? *\{.*"__MONOTONIC_TIMESTAMP"|` +
		`^\s+"__MONOTONIC_TIMESTAMP" *: `),
		"this is JSON of dmesg or journalctl; use dmesg without --json, or journalctl -k -o short-monotonic"},
	{lazy.Compile(`^__MONOTONIC_TIMESTAMP=|^[A-Z][a-z]{2} [0-9]{4}-[0-9-]{5} [0-9:.]{15} [^ ]+ \[s=[0-9a-f]`),
		"these are the fields of journalctl -o export or verbose; use journalctl -k -o short-monotonic"},
}

// notStamped says why a file without time stamps cannot be read, and in which line that
// shows.
func notStamped(data []byte) (line int, problem string) {
	const most = 1000 // lines
	for text := range bytes.Lines(data) {
		if line++; line > most {
			break
		}
		for _, other := range otherTimes {
			if len(text) <= 64<<10 && other.is.Match(printable(text)) {
				return line, other.problem
			}
		}
	}
	return 1, noTime
}
