package tslog

import (
	"fmt"
	"slices"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/measure/boot"
)

// recording makes a recording of what was read.
func (l *log) recording() (bootmodel.Recording, error) {
	r := bootmodel.Recording{
		Schema: bootmodel.Schema,
		Clocks: []bootmodel.Clock{{Name: ClockName, Source: name, Hz: l.frequency.hz, UncertaintyNS: l.exactly}},
		Tracks: []bootmodel.Track{}, Spans: []bootmodel.Span{}, Marks: []bootmodel.Mark{},
	}
	l.processes = slices.DeleteFunc(l.processes, func(p process) bool { return p.fork == 0 }) // unused lines of the sysctl
	if !l.started && len(l.processes) == 0 && l.skipped.Count > 0 {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "%s%s", boot.At(l.file, l.skipped.Line), l.skipped.Why)
	}
	if !l.started && len(l.processes) == 0 {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "%sthe file has no entry; record a boot of a kernel with the "+
			"option "+
			"TSLOG", boot.At(l.file, max(l.line, 1)))
	}
	if l.started {
		if err := l.addBoot(&r); err != nil {
			return bootmodel.Recording{}, err
		}
	}
	l.addProcesses(&r)
	r.Notes = append(r.Notes, l.skipped.Notes(name)...)
	if l.wrongHz > 0 {
		r.Notes = append(r.Notes, bootmodel.Note{Source: name, Text: fmt.Sprintf("The system measured a frequency of its "+
			"counter of %s. No counter is that fast, so this value is left out.", unit.Format(l.wrongHz, "Hz"))})
	}
	if f, other := l.frequency, l.other; other.rank > 0 && other.hz != f.hz {
		r.Notes = append(r.Notes, bootmodel.Note{Source: name, Text: fmt.Sprintf("The file has two numbers that may be the "+
			"frequency of the counter: %s in line %d and %s in line %d. The times are computed with the first of these.",
			unit.Format(f.hz, "Hz"), f.line, unit.Format(other.hz, "Hz"), other.line)})
	}
	bootmodel.SortMarks(&r)
	return r, nil
}

// addBoot adds what debug.tslog says.
func (l *log) addBoot(r *bootmodel.Recording) error {
	if l.end < 0 {
		return fault.New(fault.Invalid, "%sthe log ends here, before the EXIT of %s: it was cut off; record it again "+
			"with a larger "+
			"buffer (kernel option TSLOGSIZE)", boot.At(l.file, l.lastLine), last)
	}
	main := l.mains[0]
	r.System = "freebsd"
	if main < 0 {
		main, r.System = l.mains[1], "netbsd"
	}
	if main < 0 {
		return fault.New(fault.Invalid, "%s%s exits, but no line above is the ENTER of the main function (FreeBSD: %s, "+
			"NetBSD: "+
			"%s); the first lines were lost, so record the boot again", boot.At(l.file, l.lastLine), last, mainFreeBSD,
			mainNetBSD)
	}
	open := l.closeOpen()
	r.Marks = append(l.marks, bootmodel.Mark{Name: bootmodel.MarkLog, At: l.first, UncertaintyNS: l.exactly,
		How: "the first " +
			"line of the log"},
		bootmodel.Mark{Name: markMain, At: l.spans[main].Start, UncertaintyNS: l.exactly,
			How: "ENTER of " + l.spans[main].Name},
		bootmodel.Mark{Name: bootmodel.MarkUserland, At: l.end, UncertaintyNS: l.exactly,
			How: "EXIT of " + last + ", the last function of the kernel before process 1"})
	spare := l.chargeWaits(main)
	l.orderSpans(r, main)
	r.Tracks = l.tracks
	r.Notes = l.notesOn(open, spare)
	return nil
}

// closeOpen closes what is open when the boot ends, and counts it.
func (l *log) closeOpen() (open int) {
	for _, t := range l.byThread {
		for _, i := range t.stack {
			l.spans[i].End = l.end
		}
		open += len(t.stack)
		for topic, h := range t.holds {
			h.end = l.end
			l.holds[topic] = append(l.holds[topic], h)
		}
	}
	return open
}

func (l *log) notesOn(open int, spare bool) (notes []bootmodel.Note) {
	for _, n := range []struct {
		count int
		text  string
	}{
		{l.counts.backward, "The counter went back %d times; the times after it continue from the last value."},
		{l.counts.unfinished, "%d functions have no EXIT; they end with the function that called them."},
		{l.counts.strayExit, "%d lines are the EXIT of a function that was not entered; they were left out."},
		{l.counts.strayUnwait, "%d lines end a wait that did not begin; they were left out."},
		{open, "%d functions had not returned when the boot ended; they end at that time."},
		{l.counts.after, "%d lines come after the EXIT of " + last + ", which ends the boot; they were left out."},
	} {
		if n.count > 0 {
			notes = append(notes, bootmodel.Note{Source: name, Text: fmt.Sprintf(n.text, n.count)})
		}
	}
	if spare {
		notes = append(notes, bootmodel.Note{Source: name, Lost: true,
			Text: "The log has too many waits: those of threads " +
				"other than the main thread were not attributed to the threads that they waited for."})
	}
	return notes
}
