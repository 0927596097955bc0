package ftrace

import (
	"cmp"
	"strconv"
	"strings"

	"bakeoff/measure/boot"
)

// kind is what a line says.
type kind byte

const (
	nothing kind = iota // an arrow of an interrupt
	enter
	leave
	leaf
)

// entry is a line of the graph.
type entry struct {
	at               int64 // nanoseconds
	cpu, task        string
	took             int64 // nanoseconds, of a leaf
	kind             kind
	depth            int // blanks before the function: the kernel indents what a function calls
	function, module string
	comment          string
}

// parseLine reads TIME | CPU) TASK | DURATION | FUNCTION. TASK may be missing, and a
// column may come before DURATION (latency-format).
func parseLine(text string) (e entry, problem string) {
	parts := strings.SplitN(text, "|", 5)
	at, ok := nanoseconds(strings.TrimSpace(parts[0]), 1e9, 6)
	if !ok || len(parts) < 3 {
		return e, "the line does not begin with a time such as 1.234567 |"
	}
	e.at = at
	cpu, rest, ok := strings.Cut(strings.TrimSpace(parts[1]), ")")
	if e.cpu = cpu; !ok || !boot.AreDigits(cpu) {
		return e, "the line does not name its CPU"
	}
	took := strings.TrimSpace(rest)
	if len(parts) > 3 || strings.Contains(took, "==") {
		e.task = boot.ValidText(took)
		took = strings.TrimSpace(parts[len(parts)-2])
	}
	column := parts[len(parts)-1]
	function := strings.TrimSpace(column)
	e.depth = len(column) - len(strings.TrimLeft(column, " "))
	call, _, _ := strings.Cut(function, " /*") // funcgraph-retval and funcgraph-retaddr write comments
	call, arguments, _ := strings.Cut(call, "(")
	switch {
	case strings.HasPrefix(function, "/*"):
		e.comment = cmp.Or(boot.ValidText(strings.TrimSpace(strings.Trim(function, "/*"))), "comment")
	case strings.HasPrefix(function, "}"):
		e.kind = leave
	case strings.HasSuffix(arguments, ") {"):
		e.kind = enter
		e.function, e.module = splitModule(call)
	case strings.HasSuffix(arguments, ");"):
		e.kind = leaf
		e.function, e.module = splitModule(call)
		if e.took, ok = duration(took); !ok {
			return e, "the function has no duration in microseconds"
		}
	case function == "" || strings.Contains(text, "==="):
		return e, ""
	default:
		return e, "the line is neither a call nor a return"
	}
	if (e.kind == enter || e.kind == leaf) && e.function == "" {
		return e, "the function has no name"
	}
	return e, ""
}

// splitModule splits "virtio_init [virtio]".
func splitModule(s string) (function, module string) {
	function, module, _ = strings.Cut(s, " [")
	return boot.ValidText(strings.TrimSpace(function)), boot.ValidText(strings.TrimSuffix(module, "]"))
}

// duration reads "1.443 us" with a sign of its size before it, in nanoseconds.
func duration(s string) (int64, bool) {
	s, ok := strings.CutSuffix(strings.TrimLeft(s, "+!#*@$ "), " us")
	if !ok {
		return 0, false
	}
	return nanoseconds(s, 1e3, 3)
}

// nanoseconds reads a number of units of unit nanoseconds, with a number of digits
// after the point. Longer durations have fewer.
func nanoseconds(s string, unit int64, most int) (int64, bool) {
	whole, part, _ := strings.Cut(s, ".")
	if !boot.AreDigits(whole) || part != "" && !boot.AreDigits(part) || len(part) > most {
		return 0, false
	}
	n, _ := strconv.ParseInt(whole, 10, 64)
	n *= unit
	for _, c := range part {
		unit /= 10
		n += int64(c-'0') * unit
	}
	return n, true
}

// parseSwitch reads "0)   swapper-1   =>   kthreadd-2".
func parseSwitch(text string) (cpu, to string, ok bool) {
	before, after, ok := strings.Cut(text, " => ")
	if !ok || strings.Contains(text, "|") {
		return "", "", false
	}
	cpu, _, ok = strings.Cut(before, ")")
	to = boot.ValidText(strings.TrimSpace(after))
	return cpu, to, ok && boot.AreDigits(cpu) && to != ""
}
