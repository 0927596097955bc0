package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
)

// measures reports whether the tool measured a column.
func (t *Tool) measures(col *Column) bool {
	return col.Formula == "" && (len(t.Columns) == 0 || slices.Contains(t.Columns, col.Name))
}

// hasArgument reports whether one of the tool's arguments is one of args, alone or
// with =value.
func (t *Tool) hasArgument(args ...string) bool {
	return slices.ContainsFunc(strings.Fields(t.Settings), func(f string) bool {
		name, _, _ := strings.Cut(f, "=")
		return slices.Contains(args, name) || slices.Contains(args, f)
	})
}

// optionNumber returns the number of --name=N.
func (t *Tool) optionNumber(name string) (float64, bool) {
	for _, f := range strings.Fields(t.Settings) {
		if v, ok := strings.CutPrefix(f, "--"+name+"="); ok {
			n, err := strconv.ParseFloat(v, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// divisions returns how many integer divisions one event of the tool takes,
// where that is known.
//
// Source: sysbench, src/tests/cpu/sb_cpu.c: for every c from 3 up to
// --cpu-max-prime it divides by l = 2, 3, … while l ≤ √c, until one leaves no
// remainder.
func (t *Tool) divisions() (float64, bool) {
	if !t.sysbenchCPU() {
		return 0, false
	}
	limit, ok := t.optionNumber("cpu-max-prime")
	if !ok {
		limit = 10_000 // its default
	}
	if !(limit >= 10 && limit <= 1e5) {
		return 0, false // not a realistic setting, and counting would take long
	}
	n := 0
	for c := 3; c < int(limit); c++ {
		for l := 2; l*l <= c; l++ {
			n++
			if c%l == 0 {
				break
			}
		}
	}
	return float64(n), true
}

func (t *Tool) sysbenchCPU() bool { return t.Name == "sysbench" && t.hasArgument("--test=cpu", "cpu") }

// emptyLoop reports whether col was measured by a tool whose work compilers are
// known to remove.
func (t *Table) emptyLoop(col *Column) bool {
	return slices.ContainsFunc(t.Experiment.Tools, func(tool Tool) bool {
		return tool.sysbenchCPU() &&
			tool.measures(col)
	})
}

// trap is behavior of a tool, with these settings, that its figures do not show.
type trap struct {
	found  func(t *Table, tool *Tool, col *Column) bool
	weight Weight
	text   string
}

// traps come from the manuals and sources of the tools.
var traps = []trap{
	{func(_ *Table, tool *Tool, col *Column) bool {
		return tool.Name == "sysbench" && tool.hasArgument("--test=memory", "memory") &&
			!tool.hasArgument("--memory-block-size")
	}, Undoes, "sysbench memory uses its default blocks of 1 KiB: it times the overhead of its loop, not memory; " +
		"write --memory-block-size=1M"},
	{func(_ *Table, tool *Tool, col *Column) bool {
		return tool.Name == "openssl" && tool.hasArgument("speed") && !tool.hasArgument("-elapsed")
	}, Undoes, "openssl speed divides by CPU time unless -elapsed is given: it does not count time that a hypervisor or " +
		"a neighbor takes"},
	{func(t *Table, tool *Tool, col *Column) bool {
		return tool.Name == "wrk" && perSecond(col.Unit)
	}, Qualifies, "wrk counts errors as requests, and a 404 is a fast request: the article prints no count of errors"},
	{func(_ *Table, tool *Tool, col *Column) bool {
		closed := slices.Contains([]string{"wrk", "ab", "siege", "hey"}, tool.Name)
		return closed && col.Unit == "s" && col.Better == "lower"
	}, Undoes, "a closed loop waits for the server that it measures: its latencies hide queueing"},
	{func(_ *Table, tool *Tool, col *Column) bool {
		return tool.Name == "siege" && slices.ContainsFunc(strings.Fields(tool.Settings), func(f string) bool {
			return strings.HasPrefix(f, "-d") && f != "-d0"
		})
	}, Qualifies, "siege -d makes its clients sleep between requests: the clients determine a part of the rate"},
	{func(_ *Table, tool *Tool, col *Column) bool {
		return tool.Name == "pgbench" && tool.hasArgument("-C")
	}, Qualifies, "pgbench -C opens a connection for every transaction: every figure includes the cost of a connection"},
	{func(_ *Table, tool *Tool, col *Column) bool {
		settings := strings.Join(strings.Fields(tool.Settings), " ")
		return tool.Name == "nginx" && strings.Contains(settings, "worker_processes auto")
	}, Qualifies, "nginx with worker_processes auto counts the CPUs of the machine: an environment with a CPU limit " +
		"runs more workers than it has CPUs, and an environment without a limit does not"},
	{func(t *Table, tool *Tool, col *Column) bool {
		mb, ok := tool.numberAfter("-s")
		moves := strings.HasSuffix(col.Unit, "B/s") || col.Unit == "seek/s"
		return tool.Name == "bonnie++" && moves && ok && t.Experiment.Machine.Memory > 0 &&
			mb*(1<<20) < 2*float64(t.Experiment.Machine.Memory)
	}, Qualifies, "bonnie++ used a file smaller than twice the memory: the cache served a part of it"},
	{func(_ *Table, tool *Tool, col *Column) bool {
		return tool.Name == "fio" && !tool.hasArgument("--direct=1", "--direct") && !tool.hasArgument("--size", "--filesize")
	}, Qualifies, "fio without --direct and with no stated size: the cache may have answered"},
}

// numberAfter returns the number that follows an argument.
func (t *Tool) numberAfter(arg string) (float64, bool) {
	f := strings.Fields(t.Settings)
	if i := slices.Index(f, arg); i >= 0 && i+1 < len(f) {
		n, err := strconv.ParseFloat(f[i+1], 64)
		return n, err == nil
	}
	return 0, false
}

// errorsCounted reports whether a column counts failed requests.
func (t *Table) errorsCounted() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Unit == "error" || c.Unit == "error/s" })
}

// trapped lists the traps of a column.
func (t *Table) trapped(col *Column) (out []trap) {
	for i := range t.Experiment.Tools {
		tool := &t.Experiment.Tools[i]
		if !tool.measures(col) {
			continue
		}
		for _, k := range traps {
			if k.found(t, tool, col) && !(tool.Name == "wrk" && k.weight == Qualifies && t.errorsCounted()) {
				out = append(out, k)
			}
		}
	}
	return out
}

var toolCheck = Check{
	Name: "tool",
	Doc: "Some defaults of tools change what their figures mean. With blocks of 1 KiB, the memory test of sysbench " +
		"mainly measures the test's own loop. Without -elapsed, openssl speed divides the number of operations by " +
		"CPU time. wrk counts errors as requests, and its closed loop hides the time that requests wait in a " +
		"queue. With -d, siege sleeps between requests. With -C, pgbench opens a connection for each transaction. " +
		"With worker_processes auto, nginx counts the CPUs of the machine and ignores CPU limits. If a file is " +
		"smaller than twice the memory, the cache may serve a part of the file. If a client uses 90 % of its " +
		"CPU, the figure describes the client, not the server.",
	claim: func(t *Table, c *comparison) (out []Reason) {
		for _, k := range t.trapped(c.column) {
			out = append(out, Reason{Weight: k.weight, Text: k.text})
		}
		if busy := t.Experiment.Client.Busy; busy >= near && perSecond(c.column.Unit) {
			out = append(out, because(Undoes, "%s", busyClient(busy))...)
		}
		return out
	},
	table: func(t *Table) (out []string) {
		for i := range t.Columns {
			for _, k := range t.trapped(&t.Columns[i]) {
				out = lists.AddNew(out, k.text)
			}
		}
		if c := t.Experiment.Client; c.Busy >= near {
			out = append(out, busyClient(c.Busy))
		} else if t.Experiment.Link > 0 && c.Busy == 0 {
			out = append(out, "the article does not give the CPU use of the client: the client may have been the limit")
		}
		return out
	},
}

func busyClient(share float64) string {
	return fmt.Sprintf("the client used %s of its CPU: the figures measure the client, too", percent(share))
}
