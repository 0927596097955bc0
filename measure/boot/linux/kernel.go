package linux

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot/printk"
)

// consoleTime is the least time, in microseconds, that is shown as the output of a line.
const consoleTime = 10

// clockBehind is the least time, in microseconds, that is shown as a correction of the clock.
// Less may be the output of lines.
const clockBehind = 10_000

// Names of spans that are not functions.
const (
	spanKernel    = "kernel"
	spanPrintk    = "printk"
	spanProbe     = "probe"
	spanInitramfs = "unpack initramfs"
	spanClock     = "clock correction"
)

// kernelLog builds the trees of the kernel log.
type kernelLog struct {
	root     *node
	userland int64 // when the kernel starts process 1; -1 if the log does not say
	open     map[string][]*pending
	threads  map[string]*node // of initcalls of other threads, and of process 1
	order    []string         // the keys of threads
	probes   []*node          // that fit nowhere
	unpack   *node
	plain    *printk.Line // the line before, if no initcall was open
	returned *printk.Line // the line before, if it ended an initcall
	fine     bool         // durations are microseconds, and no longer whole timer ticks
	by       shift        // of the kernel
	loud     bool         // the console shows the lines of initcall_debug
	behind   bool         // the clock of the log fell behind until it was corrected
	lostHead int
	called   int // lines of initcalls
}

// pending is an initcall that was called and has not returned.
type pending struct {
	symbol    string
	node      *node
	corrected bool // the clock of the log was corrected meanwhile
}

// addKernelLog adds what the kernel log says.
func (b *builder) addKernelLog(log printk.Log) {
	lines := log.Lines
	b.r.Notes = append(b.r.Notes, log.Notes(name)...)
	marks, _ := log.Marks()
	b.r.Marks = append(b.r.Marks, marks...)
	k := kernelLog{root: &node{name: spanKernel, start: lines[0].At}, userland: -1, open: map[string][]*pending{},
		threads: map[string]*node{}}
	for _, m := range marks {
		if m.Name == bootmodel.MarkUserland {
			k.userland = m.At
		}
	}
	b.r.Command = commandLine(lines)
	k.loud, k.by = logsDebug(b.r.Command), shiftOf(lines)
	last := lines[len(lines)-1].At
	if k.root.end = last; k.userland >= 0 {
		k.root.end = k.userland
	}
	for i := range lines {
		k.addLogLine(&lines[i])
	}
	k.writeTrees(b, last)
	if k.behind {
		b.addNote(false, "The clock of the log fell behind until Linux corrected it: spans before the span "+spanClock+
			" are too short.")
	}
	if k.called == 0 && promised(b.r.Command) {
		b.addNote(true, "The command line has initcall_debug, but no line of the log is about an initcall. The kernel logs "+
			"initcalls with the lowest priority: copy what dmesg prints without -l; or, if the file is the output of a "+
			"console, add loglevel=8 to the command line.")
	}
	if k.lostHead > 0 {
		b.addNote(true, fmt.Sprintf("The log has the returns of %d initcalls without their calls: the kernel overwrote "+
			"its log. Make the log larger (log_buf_len=4M).", k.lostHead))
	}
}

// commandLine is what the log says was given to the kernel; "" if it does not.
func commandLine(lines []printk.Line) string {
	for _, prefix := range []string{"Command line: ", "Kernel command line: "} {
		for _, l := range lines {
			if words, ok := strings.CutPrefix(l.Text, prefix); ok {
				return words
			}
		}
	}
	return ""
}

// promised reports whether a command line makes the kernel log its initcalls.
func promised(words string) bool {
	yes := false
	for word := range strings.FieldsSeq(words) {
		switch name, value, _ := strings.Cut(word, "="); {
		case word == "--": // what follows is for process 1
			return yes
		case name == "initcall_debug":
			yes = !slices.Contains([]string{"0", "n", "N", "off"}, value)
		}
	}
	return yes
}

// logsDebug reports whether the kernel writes messages of its lowest priority, such as those of
// initcall_debug, to its console: if its command line says so.
func logsDebug(words string) (yes bool) {
	for word := range strings.FieldsSeq(words) {
		switch level, ok := strings.CutPrefix(word, "loglevel="); {
		case ok:
			yes = len(level) == 1 && level >= "8" // KERN_DEBUG is 7
		case word == "ignore_loglevel":
			return true
		case word == "debug":
			yes = true
		case word == "quiet":
			yes = false
		}
	}
	return yes
}

// writeTrees adds the trees to the recording.
func (k *kernelLog) writeTrees(b *builder, last int64) {
	main := b.addTrack(bootmodel.Track{Name: "kernel", ID: "1", Parent: -1, Kind: bootmodel.KindKernel})
	k.root.endOpen()
	k.root.writeNode(&b.r, main, -1)
	for _, pid := range k.order {
		t := k.threads[pid]
		t.end = last
		t.endOpen()
		at := b.addTrack(bootmodel.Track{Name: "initcalls of " + pid, ID: pid, Parent: -1, Kind: bootmodel.KindKernel})
		for _, c := range t.children {
			c.writeNode(&b.r, at, -1)
		}
	}
	for i, lane := range k.probes {
		lane.end = last
		lane.endOpen()
		at := b.addTrack(bootmodel.Track{Name: fmt.Sprint("other probes ", i+1), Parent: -1, Kind: bootmodel.KindKernel})
		for _, c := range lane.children {
			c.writeNode(&b.r, at, -1)
		}
	}
	if k.unpack != nil {
		if k.unpack.open {
			k.unpack.end = last
		}
		k.unpack.writeNode(&b.r, b.addTrack(bootmodel.Track{Name: spanInitramfs, Parent: -1, Kind: bootmodel.KindKernel}), -1)
	}
}

func (k *kernelLog) addLogLine(l *printk.Line) {
	m, ok := parseMessage(l.Text, k.by)
	if m.pid == "0" && k.isEarly(l) {
		m.pid = "1" // process 1 goes on where the idle thread began
	}
	k.addGap(l, m)
	k.plain, k.returned = nil, nil
	k.fine = k.fine || m.fine
	if ok && m.kind != "probe" {
		k.called++
	}
	switch {
	case ok && m.kind == "calling":
		k.calling(l, m)
	case ok && m.kind == "initcall":
		k.initcall(l, m)
	case ok:
		k.addProbe(l, m)
	default:
		k.addOtherLine(l)
	}
}

// addGap adds what passed since the line before while no initcall was open. Between two
// initcalls the kernel writes the line of the first, and nothing else.
func (k *kernelLog) addGap(l *printk.Line, m message) {
	if !k.isEarly(l) {
		return
	}
	switch {
	case k.plain != nil && l.At > k.plain.At:
		title, arg := printk.Name(k.plain.Text)
		k.root.children = append(k.root.children, &node{name: title, arg: arg, start: k.plain.At, end: l.At})
	case k.loud && k.returned != nil && m.kind == "calling" && m.pid == "1" && l.At >= k.returned.At+consoleTime:
		k.root.children = append(k.root.children, &node{name: spanPrintk, start: k.returned.At, end: l.At})
	}
}

func (k *kernelLog) isEarly(l *printk.Line) bool { return k.userland < 0 || l.At <= k.userland }

// parentTree is the tree of a thread at the time of a line.
func (k *kernelLog) parentTree(l *printk.Line, pid string) *node {
	if open := k.open[pid]; len(open) > 0 {
		return open[len(open)-1].node
	}
	if pid == "1" && k.isEarly(l) {
		return k.root
	}
	t := k.threads[pid]
	if t == nil {
		t = &node{}
		k.threads[pid] = t
		k.order = append(k.order, pid)
	}
	return t
}

func (k *kernelLog) calling(l *printk.Line, m message) {
	parent := k.parentTree(l, m.pid)
	n := &node{name: m.name, arg: m.argument(), start: l.At, end: l.At, open: true}
	if i := len(parent.children); i > 0 {
		n.start = max(n.start, parent.children[i-1].end)
	}
	parent.children = append(parent.children, n)
	k.open[m.pid] = append(k.open[m.pid], &pending{symbol: m.symbol, node: n})
}

func (k *kernelLog) initcall(l *printk.Line, m message) {
	pid, depth := k.findOpenCall(m.symbol, l.Caller)
	if depth < 0 {
		k.lostHead++
		k.placeNode(&node{name: m.name, arg: m.argument(), start: l.At - m.took, end: l.At}, k.root)
		return
	}
	for _, p := range k.open[pid][depth:] { // those above have no end
		p.node.end, p.node.open = l.At, false
	}
	call := k.open[pid][depth]
	n := call.node
	n.arg = m.argument()
	k.open[pid] = k.open[pid][:depth]
	if pid == "1" && depth == 0 {
		k.returned = l
	}
	n.endOpen()
	wrote := l.At - m.took - n.start
	least := int64(consoleTime)
	if k.by == shiftUnknown {
		least += m.took * 24 / 1000
	}
	if len(n.children) > 0 {
		wrote = min(wrote, n.children[0].start-n.start)
	}
	before := ""
	switch {
	case !k.fine || wrote < least:
	case call.corrected && wrote >= clockBehind:
		before, k.behind = spanClock, true
	case k.loud:
		before = spanPrintk
	}
	if before != "" {
		n.children = append([]*node{{name: before, start: n.start, end: n.start + wrote}}, n.children...)
	}
}

// findOpenCall finds the open call of a symbol: by the thread that logs, or by the symbol alone.
func (k *kernelLog) findOpenCall(symbol, caller string) (pid string, depth int) {
	look := func(open []*pending) int {
		for i := len(open) - 1; i >= 0; i-- {
			if open[i].symbol == symbol {
				return i
			}
		}
		return -1
	}
	if pid, ok := strings.CutPrefix(caller, "T"); ok {
		if i := look(k.open[pid]); i >= 0 {
			return pid, i
		}
	}
	for _, pid := range append([]string{"1"}, k.order...) {
		if i := look(k.open[pid]); i >= 0 {
			return pid, i
		}
	}
	return "", -1
}

func (k *kernelLog) addProbe(l *printk.Line, m message) {
	n := &node{name: spanProbe, arg: strings.TrimSpace(m.name + " " + m.result), start: l.At - m.took, end: l.At}
	if pid, ok := strings.CutPrefix(l.Caller, "T"); ok && len(k.open[pid]) > 0 {
		k.placeNode(n, k.parentTree(l, pid))
		return
	}
	var only *node
	for _, pid := range append([]string{"1"}, k.order...) {
		if open := k.open[pid]; len(open) > 0 && open[len(open)-1].node.start <= n.start+slack {
			if only != nil {
				only = nil // several threads may have done it
				break
			}
			only = open[len(open)-1].node
		}
	}
	k.placeNode(n, only)
}

// placeNode adds n to a tree, or, if it does not fit, to the first of the others where it does.
func (k *kernelLog) placeNode(n, where *node) {
	if where != nil && where.insertEnded(n) {
		return
	}
	n.start = max(n.start, 0)
	for _, lane := range k.probes {
		if lane.insertEnded(n) {
			return
		}
	}
	lane := &node{}
	k.probes = append(k.probes, lane)
	lane.insertEnded(n)
}

func (k *kernelLog) addOtherLine(l *printk.Line) {
	if len(k.open["1"]) == 0 {
		k.plain = l
	}
	switch {
	case strings.HasPrefix(l.Text, "sched_clock: Marking stable"):
		// Until then the clock of the log follows the timer's ticks and falls behind if
		// they are late (kernel/sched/clock.c). All that it lost appears now.
		for _, call := range k.open["1"] {
			call.corrected = true
		}
	case k.unpack == nil && strings.HasPrefix(l.Text, "Trying to unpack rootfs image as initramfs"):
		k.unpack = &node{name: spanInitramfs, start: l.At, end: l.At, open: true}
	case k.unpack != nil && k.unpack.open && strings.HasPrefix(l.Text, "Freeing initrd memory: "):
		k.unpack.end, k.unpack.open = l.At, false
		k.unpack.arg = strings.TrimPrefix(l.Text, "Freeing initrd memory: ")
	}
}
