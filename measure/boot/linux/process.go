package linux

import (
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
)

// running is a process of which the end was not read yet.
type running struct {
	track int
	span  int
	name  string
}

// processes adds a track for every process, with a span for each program that it
// executed. The time until the first is that of a copy of its parent. Processes that began
// before the events have no start.
func (b *builder) processes(events []event) {
	// The lines of several CPUs may be out of order by less than their resolution.
	slices.SortStableFunc(events, func(x, y event) int { return int(x.at - y.at) })
	end := events[len(events)-1].at
	at := map[string]*running{}
	for _, e := range events {
		p := at[e.pid]
		switch e.kind {
		case "fork":
			b.addFork(at, e)
		case "exec":
			if p == nil {
				p = b.process(e.pid, e.other, -1)
				at[e.pid] = p
			} else if p.span >= 0 {
				b.r.Spans[p.span].End, b.r.Spans[p.span].Open = e.at, false
			}
			p.name = e.other
			b.r.Tracks[p.track].Name = e.other
			b.program(p, e.other, e.at)
			if e.pid == "1" {
				b.userland(e)
			}
		case "exit":
			if p != nil && p.span >= 0 {
				b.r.Spans[p.span].End, b.r.Spans[p.span].Open = e.at, false
			}
			delete(at, e.pid)
		}
	}
	for _, p := range at {
		if p.span >= 0 {
			b.r.Spans[p.span].End = end
		}
	}
}

// addFork adds the child of a process, as a copy of it. Kernel threads are left out: they
// never execute anything, and have no span of their own.
func (b *builder) addFork(at map[string]*running, e event) {
	if e.pid == "2" || e.pid == "0" {
		return
	}
	parent, of := -1, e.comm
	if p := at[e.pid]; p != nil {
		parent, of = p.track, p.name
	}
	p := b.process(e.other, "fork of "+of, parent)
	at[e.other] = p
	b.program(p, "fork of "+of, e.at)
}

func (b *builder) process(pid, title string, parent int) *running {
	b.r.Tracks = append(b.r.Tracks, bootmodel.Track{Name: title, ID: pid, Parent: parent, Kind: bootmodel.KindProcess})
	return &running{track: len(b.r.Tracks) - 1, span: -1, name: title}
}

func (b *builder) program(p *running, title string, at int64) {
	p.span = len(b.r.Spans)
	b.r.Spans = append(b.r.Spans, bootmodel.Span{Name: title, Track: p.track, Clock: b.trace, Parent: -1, Start: at,
		End: at, Open: true})
}

// userland moves the mark of the first userland instruction to the exec of process 1,
// which is more exact than the kernel's message before it.
func (b *builder) userland(e event) {
	const how = "process 1 executed "
	for i, m := range b.r.Marks {
		if m.Name != bootmodel.MarkUserland {
			continue
		}
		if !strings.HasPrefix(m.How, how) {
			b.r.Marks[i] = bootmodel.Mark{Name: bootmodel.MarkUserland, Clock: b.trace, At: e.at, How: how + e.other}
		}
		return
	}
	b.r.Marks = append(b.r.Marks, bootmodel.Mark{Name: bootmodel.MarkUserland, Clock: b.trace, At: e.at,
		How: how + e.other})
}
