package linux

import (
	"slices"
	"strconv"
	"strings"

	"bakeoff/measure/boot"
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
}

// parseMessage reads a line of initcall_debug.
func parseMessage(text string) (m message, ok bool) {
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
	if m.took = took; async {
		m.took = took * 1024 / 1000 // kernel/async.c divides nanoseconds by 1,024
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

// function splits "virtio_init+0x0/0x1000 [virtio]".
func function(symbol string) (name, module string) {
	name, module, _ = strings.Cut(symbol, " [")
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
