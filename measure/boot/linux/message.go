package linux

import (
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/printk"
)

// message is a line of initcall_debug.
type message struct {
	kind   string // calling, initcall, probe
	symbol string // with offset and module, as both lines of an initcall have it
	name   string // the function or the device
	module string
	pid    string // of calling
	result string // "" for 0, and for 1 of a probe: success
	took   int64  // microseconds
	fine   bool   // took is no whole number of milliseconds, and so of timer ticks
}

// shift says how a kernel makes the microseconds of its initcalls: new ones divide nanoseconds by 1,000, and
// old ones by 1,024.
type shift string

const (
	by1000       shift = "by 1,000"
	by1024       shift = "by 1,024"
	shiftUnknown shift = "unknown"
)

var version = lazy.Compile(`^Linux version ([0-9]{1,3})\.([0-9]{1,5})`)

// shiftOf tells the shift by the version that a log names. The patch "init: use ktime_us_delta() to make
// initcall_debug log more precise" is from February 2022, between 5.17 and 5.19.
func shiftOf(lines []printk.Line) shift {
	for _, l := range lines {
		m := version.FindStringSubmatch(l.Text)
		if m == nil {
			continue
		}
		major, _ := strconv.Atoi(m[1]) // digits, and few
		minor, _ := strconv.Atoi(m[2])
		switch n := major*100_000 + minor; {
		case n < 500_017:
			return by1024
		case n >= 500_019:
			return by1000
		}
		return shiftUnknown
	}
	return shiftUnknown
}

// parseMessage reads a line of initcall_debug of a kernel with this shift.
func parseMessage(text string, by shift) (m message, ok bool) {
	if rest, found := strings.CutPrefix(text, "calling  "); found {
		m.kind = "calling"
		i := strings.LastIndex(rest, " @ ")
		if i < 0 {
			return m, false
		}
		m.symbol = rest[:i]
		m.pid, _, _ = strings.Cut(rest[i+3:], " ")
		m.name, m.module = function(m.symbol)
		return m, m.name != "" && boot.AreDigits(m.pid)
	}
	rest, found := strings.CutPrefix(text, "initcall ")
	m.kind = "initcall"
	if !found {
		m.kind = "probe"
		if rest, found = strings.CutPrefix(text, "probe of "); !found {
			return m, false
		}
	}
	i := strings.LastIndex(rest, " returned ")
	if i < 0 {
		return m, false
	}
	words := strings.Fields(rest[i:]) // returned RESULT after N usecs
	async := len(words) > 1 && words[1] == "after"
	if async { // it has no result
		words = slices.Insert(words, 1, "0")
	}
	if len(words) < 5 || words[2] != "after" || words[4] != "usecs" {
		return m, false
	}
	result, err := strconv.ParseInt(words[1], 10, 32)
	took, err2 := strconv.ParseInt(words[3], 10, 48)
	if err != nil || err2 != nil || took < 0 {
		return m, false
	}
	m.took, m.fine = took, took%1000 != 0
	if async || m.kind == "initcall" && by == by1024 { // kernel/async.c always divides by 1,024
		ns := took * 1024 // up to 1,023 more
		m.took, m.fine = (ns+512)/1000, (ns+1023)/1e6*1e6 < ns
	}
	if result != 0 && (m.kind == "initcall" || result != 1) {
		m.result = "returned " + words[1]
	}
	m.symbol = rest[:i]
	if m.name = m.symbol; m.kind == "initcall" {
		m.name, m.module = function(m.symbol)
	}
	return m, m.name != ""
}

// cookie numbers an asynchronous call: 3_virtio_init. The numbers differ from boot to boot.
var cookie = lazy.Compile(`^[0-9]+_`)

// function splits "virtio_init+0x0/0x1000 [virtio]".
func function(symbol string) (name, module string) {
	name, module, _ = strings.Cut(symbol, " [")
	name = strings.TrimPrefix(name, cookie.FindString(name))
	name, _, _ = strings.Cut(name, "+0x")
	return strings.TrimSpace(name), strings.TrimSuffix(module, "]")
}

// argument is what a span has besides its name.
func (m message) argument() string {
	if m.module == "" || m.result == "" {
		return m.module + m.result
	}
	return m.module + " " + m.result
}
