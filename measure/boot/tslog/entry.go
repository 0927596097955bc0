package tslog

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot"
)

// label is a REST.
type label struct {
	name, arg string
	function  int32 // the label that is the name alone
}

// thread is one of the threads that have an identifier, and what it does.
type thread struct {
	id    uint64
	track int
	stack []int          // open spans
	holds map[int32]hold // open
}

// hold is the time in which a thread holds a topic.
type hold struct {
	track      int
	start, end int64
	depth      int
}

// wait is a span in which a thread waits for a topic.
type wait struct {
	span  int
	topic int32
}

// labelNumber returns the number of a REST.
func (l *log) labelNumber(rest []byte) int32 {
	if n, ok := l.names[string(rest)]; ok {
		return n
	}
	text := boot.ValidText(bytes.TrimRight(rest, " "))
	name, arg, _ := strings.Cut(text, " ")
	n := int32(len(l.labels))
	l.labels = append(l.labels, label{name: name, arg: strings.TrimLeft(arg, " "), function: n})
	l.names[string(rest)] = n
	if arg != "" {
		// The call may have changed l.labels.
		function := l.labelNumber([]byte(name))
		l.labels[n].function = function
	}
	return n
}

// addEntry adds an entry, and returns what is wrong with it, or "".
func (l *log) addEntry(e entry) string {
	if problem := l.advanceClock(e.tsc); problem != "" {
		return problem
	}
	if l.end >= 0 {
		l.counts.after++
		return ""
	}
	t := l.latest
	if t == nil || t.id != e.thread {
		t = l.threadOf(e.thread)
		l.latest = t
	}
	switch e.kind {
	case enter:
		return l.enterFunction(t, l.labelNumber(e.rest))
	case exit:
		l.exitFunction(t, l.labelNumber(e.rest))
	case newThread:
		l.restart(t, boot.ValidText(e.rest))
	case event:
		return l.addEvent(t, e.rest)
	}
	return ""
}

// advanceClock moves the time to that of an entry. A counter that goes back is taken to go on
// from where it was.
func (l *log) advanceClock(tsc uint64) string {
	if !l.started {
		l.started, l.first = true, int64(tsc)
	} else if tsc < l.rawTime {
		back := int64(l.rawTime - tsc)
		if l.shift > math.MaxInt64/4-back {
			return "the times go back by too much; this is not a tslog"
		}
		l.shift += back
		l.counts.backward++
	}
	l.rawTime = tsc
	l.time = int64(tsc) + l.shift
	return ""
}

func (l *log) threadOf(id uint64) *thread {
	t := l.byThread[id]
	if t == nil {
		t = &thread{id: id, track: l.addTrack(fmt.Sprintf("thread 0x%x", id), id, math.MinInt64), holds: map[int32]hold{}}
		l.byThread[id] = t
	}
	return t
}

func (l *log) addTrack(name string, id uint64, begins int64) int {
	l.tracks = append(l.tracks, bootmodel.Track{Name: name, ID: fmt.Sprintf("0x%x", id), Parent: -1,
		Kind: bootmodel.KindKernel})
	l.begins = append(l.begins, begins)
	return len(l.tracks) - 1
}

// pushSpan opens a span.
func (l *log) pushSpan(t *thread, s bootmodel.Span, function int32) {
	s.Track, s.Parent, s.Start, s.Open = t.track, -1, l.time, true
	if n := len(t.stack); n > 0 {
		s.Parent = t.stack[n-1]
	}
	t.stack = append(t.stack, len(l.spans))
	l.spans = append(l.spans, s)
	l.fns = append(l.fns, function)
}

// popSpans closes the spans of the stack from depth on. All but the lowest are unfinished.
func (l *log) popSpans(t *thread, depth int) {
	for _, i := range t.stack[depth:] {
		l.spans[i].End, l.spans[i].Open = l.time, false
	}
	l.counts.unfinished += len(t.stack) - depth - 1
	t.stack = t.stack[:depth]
}

func (l *log) enterFunction(t *thread, at int32) string {
	if len(t.stack) == maxDepth {
		return fmt.Sprintf("more than %d functions of thread 0x%x are open; this is not the tslog of a boot", maxDepth, t.id)
	}
	x := l.labels[at]
	for i, name := range [...]string{mainFreeBSD, mainNetBSD} {
		if l.mains[i] < 0 && x.name == name {
			l.mains[i] = len(l.spans)
		}
	}
	l.pushSpan(t, bootmodel.Span{Name: x.name, Arg: x.arg}, x.function)
	return ""
}

func (l *log) exitFunction(t *thread, at int32) {
	x := l.labels[at]
	found := -1
	for i := len(t.stack) - 1; i >= 0; i-- {
		if l.fns[t.stack[i]] != x.function {
			continue
		}
		if found < 0 {
			found = i
		}
		if x.arg == "" || l.spans[t.stack[i]].Arg == x.arg {
			found = i
			break
		}
	}
	if x.name == last {
		l.end = l.time
		if found >= 0 {
			l.ended = t.stack[found]
		}
	}
	if found < 0 {
		l.counts.strayExit++
		return
	}
	l.popSpans(t, found)
}

// restart begins a new thread: identifiers are used again.
func (l *log) restart(t *thread, name string) {
	if len(t.stack) > 0 {
		l.counts.unfinished++
		l.popSpans(t, 0)
	}
	for topic, h := range t.holds {
		h.end = l.time
		l.holds[topic] = append(l.holds[topic], h)
	}
	clear(t.holds)
	t.track = l.addTrack(name, t.id, l.time)
}

func (l *log) addEvent(t *thread, rest []byte) string {
	what, topic, _ := bytes.Cut(rest, []byte(" "))
	if len(topic) == 0 {
		what = nil
	}
	switch string(what) {
	case "WAIT":
		if len(t.stack) == maxDepth {
			return fmt.Sprintf("more than %d functions of thread 0x%x are open; this is not the tslog of a boot", maxDepth, t.id)
		}
		l.waits = append(l.waits, wait{len(l.spans), l.labelNumber(topic)})
		l.pushSpan(t, bootmodel.Span{Name: "WAIT", Arg: boot.ValidText(topic), Wait: true}, -1-l.labelNumber(topic))
	case "UNWAIT":
		l.endWait(t, -1-l.labelNumber(topic))
	case "HOLD":
		h, ok := t.holds[l.labelNumber(topic)]
		if !ok {
			h = hold{track: t.track, start: l.time}
		}
		h.depth++
		t.holds[l.labelNumber(topic)] = h
	case "RELEASE":
		l.release(t, l.labelNumber(topic))
	default:
		l.marks = append(l.marks, bootmodel.Mark{Name: boot.ValidText(rest), At: l.time, UncertaintyNS: l.exactly,
			How: "an event of " + l.tracks[t.track].Name})
	}
	return ""
}

func (l *log) endWait(t *thread, topic int32) {
	for i := len(t.stack) - 1; i >= 0; i-- {
		if l.fns[t.stack[i]] == topic {
			l.popSpans(t, i)
			return
		}
	}
	l.counts.strayUnwait++
}

// release ends a hold. A thread that releases what it did not take has held it since
// it began.
func (l *log) release(t *thread, topic int32) {
	h, ok := t.holds[topic]
	if !ok {
		h = hold{track: t.track, start: l.begins[t.track], depth: 1}
	}
	if h.depth--; h.depth > 0 {
		t.holds[topic] = h
		return
	}
	h.end = l.time
	l.holds[topic] = append(l.holds[topic], h)
	delete(t.holds, topic)
}
