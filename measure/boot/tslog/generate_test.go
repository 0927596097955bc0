package tslog

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// truth is a random log, and what happened in it by a model of its own: one stack for
// each thread at each moment.
type truth struct {
	rng   *rand.Rand
	lines []string
	raw   int64 // of the counter
	time  int64 // without the jumps of the counter
	main  string
	jumps int

	threads []*simulated
	boots   int      // the thread of start_init
	spans   []string // "track from to path", of all that ended or was open at the end
	moments []moment // the time since the moment before
	holds   []*simulatedHold
	start   int64 // ENTER of the main function
	done    int64 // its EXIT, or the end
	end     int64
}

// simulated is a thread.
type simulated struct {
	id    int
	track string
	born  int64
	stack []simulatedSpan
}

type simulatedSpan struct {
	label, function, topic string // topic of a wait
	start                  int64
}

func (s *simulated) labels() (out []string) {
	for _, f := range s.stack {
		out = append(out, f.label)
	}
	return out
}

type simulatedHold struct {
	thread     *simulated
	track      string
	topic      string
	start, end int64 // end is -1 while it lasts
}

// moment is an interval between two lines, and the stacks of all threads in it.
type moment struct {
	from, to int64
	stacks   [][]string
	topics   []string // that each thread waits for, with nothing above
	tracks   []string
}

// generate makes a random log of a kernel whose main function is main.
func generate(seed uint64, main string) *truth {
	t := &truth{rng: rand.New(rand.NewPCG(seed, 1)), main: main, raw: 1_000_000_000, time: 1_000_000_000, done: -1}
	for id := range 1 + t.rng.IntN(5) {
		t.threads = append(t.threads, &simulated{id: id, track: fmt.Sprintf("thread 0x%x", id), born: -1 << 62})
	}
	first := t.threads[0]
	for range t.rng.IntN(4) { // a loader
		t.step(first, t.rng.IntN(10))
	}
	t.closeAll(first)
	t.enter(first, main, "")
	t.start = t.time
	for range 20 + t.rng.IntN(120) {
		t.step(t.threads[t.rng.IntN(len(t.threads))], t.rng.IntN(100))
	}
	t.finish(first)
	return t
}

// finish ends the boot: in the main function, or in another thread, before or after the
// main function has returned.
func (t *truth) finish(first *simulated) {
	of := t.threads[t.rng.IntN(len(t.threads))]
	t.boots = of.id
	if of != first && t.rng.IntN(2) == 0 {
		t.enter(of, last, "")
		t.popTo(first, 0)
		t.done = t.time
		for range t.rng.IntN(10) {
			t.step(t.threads[t.rng.IntN(len(t.threads))], t.rng.IntN(100))
		}
	}
	t.enter(of, last, "")
	for range t.rng.IntN(4) {
		t.step(of, t.rng.IntN(40))
	}
	for i := len(of.stack) - 1; i >= 0; i-- {
		if of.stack[i].function == last {
			t.popTo(of, i)
			break
		}
	}
	t.end = t.time
	if t.done < 0 {
		t.done = t.end
	}
	for _, s := range t.threads {
		t.note(s, 0)
	}
	t.line("0x0", "EVENT", "after the end")
}

// line writes an entry, after some time. Sometimes the counter goes back, which
// hides how long it was.
func (t *truth) line(thread, kind, rest string) {
	took := int64(t.rng.IntN(1000))
	if t.rng.IntN(60) == 0 && t.end == 0 && len(t.lines) > 0 {
		t.raw -= 1 + int64(t.rng.IntN(5000))
		t.jumps++
		took = 0
	}
	t.raw, t.time = t.raw+took, t.time+took
	if took > 0 {
		m := moment{from: t.time - took, to: t.time}
		for _, s := range t.threads {
			topic := ""
			if n := len(s.stack); n > 0 {
				topic = s.stack[n-1].topic
			}
			m.stacks, m.topics, m.tracks = append(m.stacks, s.labels()), append(m.topics, topic), append(m.tracks, s.track)
		}
		t.moments = append(t.moments, m)
	}
	t.lines = append(t.lines, fmt.Sprintf("%s %d %s %s", thread, t.raw, kind, rest))
}

func (s *simulated) name() string { return fmt.Sprintf("0x%x", s.id) }

// step lets a thread do something. what is less than 100.
func (t *truth) step(s *simulated, what int) {
	switch {
	case what < 40 && len(s.stack) < 12:
		arg := ""
		if t.rng.IntN(3) == 0 {
			arg = fmt.Sprintf("dev%d on bus", t.rng.IntN(3))
		}
		t.enter(s, fmt.Sprintf("f%d", t.rng.IntN(5)), arg)
	case what < 70:
		t.exit(s)
	case what < 76 && len(s.stack) < 12:
		topic := t.topic()
		t.line(s.name(), "EVENT", "WAIT "+topic)
		s.stack = append(s.stack, simulatedSpan{label: "WAIT " + topic, topic: topic, start: t.time})
	case what < 82:
		t.unwait(s)
	case what < 88:
		t.hold(s, t.topic())
	case what < 94:
		t.release(s, t.topic())
	case what < 96 && s.id > 0:
		t.restart(s)
	default:
		t.line(s.name(), "EVENT", "something happened")
	}
}

func (t *truth) topic() string { return fmt.Sprintf("topic %d", t.rng.IntN(2)) }

func (t *truth) enter(s *simulated, function, arg string) {
	label := function
	if arg != "" {
		label += " " + arg
	}
	t.line(s.name(), "ENTER", label)
	s.stack = append(s.stack, simulatedSpan{label: label, function: function, start: t.time})
}

// exit returns from a function, but never from the main function or start_init. Sometimes those
// above it have no EXIT.
func (t *truth) exit(s *simulated) {
	low := len(s.stack)
	for low > 0 && s.stack[low-1].function != t.main && s.stack[low-1].function != last {
		low--
	}
	if low == len(s.stack) {
		return
	}
	i := len(s.stack) - 1
	if t.rng.IntN(8) == 0 {
		i = low + t.rng.IntN(len(s.stack)-low)
	}
	if s.stack[i].function == "" {
		return
	}
	for _, above := range s.stack[i+1:] {
		if above.function == s.stack[i].function {
			return // EXIT would mean the other
		}
	}
	t.popTo(s, i)
}

// popTo writes the EXIT of a function, with or without its argument.
func (t *truth) popTo(s *simulated, i int) {
	rest := s.stack[i].label
	if t.rng.IntN(2) == 0 {
		rest = s.stack[i].function
	}
	t.line(s.name(), "EXIT", rest)
	t.note(s, i)
	s.stack = s.stack[:i]
}

// closeAll ends everything on a stack, the innermost first.
func (t *truth) closeAll(s *simulated) {
	for len(s.stack) > 0 {
		i := len(s.stack) - 1
		if s.stack[i].topic == "" {
			t.popTo(s, i)
			continue
		}
		t.line(s.name(), "EVENT", "UNWAIT "+s.stack[i].topic)
		t.note(s, i)
		s.stack = s.stack[:i]
	}
}

func (t *truth) unwait(s *simulated) {
	for i := len(s.stack) - 1; i >= 0; i-- {
		if s.stack[i].function == t.main || s.stack[i].function == last {
			return
		}
		if s.stack[i].topic != "" {
			t.line(s.name(), "EVENT", "UNWAIT "+s.stack[i].topic)
			t.note(s, i)
			s.stack = s.stack[:i]
			return
		}
	}
}

func (t *truth) hold(s *simulated, topic string) {
	if t.held(s, topic) != nil {
		return
	}
	t.line(s.name(), "EVENT", "HOLD "+topic)
	t.holds = append(t.holds, &simulatedHold{s, s.track, topic, t.time, -1})
}

// held is the hold of a topic that lasts.
func (t *truth) held(s *simulated, topic string) *simulatedHold {
	for _, h := range t.holds {
		if h.thread == s && h.topic == topic && h.end < 0 {
			return h
		}
	}
	return nil
}

func (t *truth) release(s *simulated, topic string) {
	t.line(s.name(), "EVENT", "RELEASE "+topic)
	h := t.held(s, topic)
	if h == nil {
		h = &simulatedHold{s, s.track, topic, s.born, -1}
		t.holds = append(t.holds, h)
	}
	h.end = t.time
}

func (t *truth) restart(s *simulated) {
	for _, f := range s.stack {
		if f.function == last {
			return
		}
	}
	name := fmt.Sprintf("born %d", len(t.lines))
	t.line(s.name(), "THREAD", name)
	t.note(s, 0)
	for _, h := range t.holds {
		if h.thread == s && h.end < 0 {
			h.end = t.time
		}
	}
	s.stack, s.track, s.born = nil, name, t.time
}

// note writes down the spans of a stack from i on, which end now.
func (t *truth) note(s *simulated, i int) {
	for j := i; j < len(s.stack); j++ {
		t.spans = append(t.spans, fmt.Sprintf("%s %d %d %s", s.track, s.stack[j].start, t.time,
			strings.Join(s.labels()[:j+1], ";")))
	}
}

// path is where the boot was in a moment: the stack of the thread that boots, and below a
// wait that of the thread that holds its topic.
func (t *truth) path(m moment) string {
	boots := 0
	out := []string{}
	if m.from >= t.done {
		boots = t.boots
		out = append(out, t.main)
	}
	stack := m.stacks[boots]
	if m.from < t.done {
		for i, f := range stack {
			if f == t.main {
				stack = stack[i:]
				break
			}
		}
	}
	out = append(out, stack...)
	if topic := m.topics[boots]; topic != "" {
		if i := t.holder(m, topic, boots); i >= 0 {
			out = append(out, m.stacks[i]...)
		}
	}
	return strings.Join(out, ";")
}

// holder is the thread that holds a topic in a moment and releases it last, or -1.
func (t *truth) holder(m moment, topic string, not int) int {
	best, latest := -1, int64(-1)
	for _, h := range t.holds {
		end := h.end
		if end < 0 {
			end = t.end
		}
		at := h.thread.id
		if at == not || m.tracks[at] != h.track || h.topic != topic || h.start > m.from || end < m.to {
			continue
		}
		if end > latest {
			best, latest = at, end
		}
	}
	return best
}

// boot is how long the boot was in each path.
func (t *truth) boot() map[string]int64 {
	out := map[string]int64{}
	for _, m := range t.moments {
		if m.from >= t.start && m.to <= t.end {
			out[t.path(m)] += m.to - m.from
		}
	}
	return out
}

func (t *truth) text() string { return strings.Join(t.lines, "\n") + "\n" }
