package boot

import (
	"cmp"
	"math"

	"bakeoff/base/bootmodel"
	"bakeoff/base/safetext"
	"bakeoff/measure/boot/linux"
)

// Console is the blob with the end of what a guest on the instruction clock has printed on
// its serial line. MaxConsole bounds it, in bytes: a console of that length lost its head.
const (
	Console    = "console.txt"
	MaxConsole = 1 << 20
)

// reportUserland is the first report of a guest on that clock.
const reportUserland = "userland"

// Spans of boots on the instruction clock.
const (
	spanBoot   = "boot"
	spanKernel = "firmware and kernel"
	spanBefore = "firmware and early kernel"
)

// counted is a boot on the instruction clock: the parts between the reports of the guest
// and, if the kernel printed its initcalls, those instead of the part up to userland. Nothing of it is
// on the controller's clock.
func (t trial) counted(console []byte) bootmodel.Recording {
	r := t.reports()
	if len(console) == 0 {
		return t.addParts(r)
	}
	of, err := linux.New().Read(Console, console)
	if err == nil {
		of, err = bootmodel.Merge(r, of)
	}
	if err != nil {
		r = t.addParts(r)
		r.Notes = append(r.Notes, bootmodel.Note{Source: "bakeoff", Lost: true, Text: "The console cannot be used: " +
			safetext.Clip(safetext.Line(err.Error()), 400) + "."})
		return r
	}
	of = t.programs(addBefore(of), -1)
	if len(console) >= MaxConsole {
		of.Notes = append(of.Notes, bootmodel.Note{Source: "bakeoff", Lost: true,
			Text: "The console printed more than is kept: its beginning is missing."})
	}
	return of
}

// reports are the marks of the guest. The last one ends the boot.
func (t trial) reports() bootmodel.Recording {
	r := bootmodel.Recording{Schema: bootmodel.Schema, Spans: []bootmodel.Span{},
		Tracks: []bootmodel.Track{{Name: "machine", Parent: -1, Kind: bootmodel.KindKernel}},
		Clocks: []bootmodel.Clock{{Name: bootmodel.ClockInstructions, Source: "bakeoff", Hz: 1e9,
			UncertaintyNS: bootmodel.Exact(),
			Note:          "Executed instructions. Where the guest sleeps, its clock is set forward to the next timer."}},
		Marks: []bootmodel.Mark{{Name: bootmodel.MarkVCPU, UncertaintyNS: bootmodel.Exact(),
			How: "the clock starts with it"}}}
	for i, c := range t.marks.Counts {
		m := bootmodel.Mark{Name: c.Name, At: c.At, UncertaintyNS: bootmodel.Exact(), How: "the guest reported " + c.Name}
		switch {
		case c.Name == reportUserland && i == 0:
			m.Name, m.How = bootmodel.MarkUserland, "the first program of the guest reported it"
		case i == len(t.marks.Counts)-1:
			m.Name = bootmodel.MarkService
		}
		r.Marks = append(r.Marks, m)
	}
	return r
}

// addParts adds a span for the whole boot, and below it one for each part between two reports.
func (t trial) addParts(r bootmodel.Recording) bootmodel.Recording {
	r.Root = new(0)
	r.Spans = append(r.Spans, bootmodel.Span{Name: spanBoot, Parent: -1, End: t.marks.instructions()})
	if c := t.marks.Counts[0]; c.Name == reportUserland {
		r.Spans = append(r.Spans, bootmodel.Span{Name: spanKernel, Parent: 0, End: c.At})
	}
	return t.programs(r, 0)
}

// programs adds what process 1 did after the first userland instruction, below a span or as
// a track of its own.
func (t trial) programs(r bootmodel.Recording, parent int) bootmodel.Recording {
	last, track := int64(0), 0
	for i, c := range t.marks.Counts {
		if c.Name != reportUserland || i > 0 {
			s := bootmodel.Span{Name: cmp.Or(c.Program, "process 1"), Arg: "up to the report " + c.Name, Parent: parent,
				Start: last, End: c.At}
			if track == 0 {
				track = len(r.Tracks)
				r.Tracks = append(r.Tracks, bootmodel.Track{Name: s.Name, ID: "1", Parent: -1, Kind: bootmodel.KindProcess})
			}
			s.Track = track
			r.Spans = append(r.Spans, s)
		}
		last = c.At
	}
	return r
}

// addBefore adds what the kernel's log does not have: the time until its clock starts.
func addBefore(r bootmodel.Recording) bootmodel.Recording {
	first := math.Inf(1)
	for i := range r.Spans {
		start, _ := r.Times(i)
		first = min(first, start)
	}
	if first >= 1 && !math.IsInf(first, 0) {
		r.Spans = append(r.Spans, bootmodel.Span{Name: spanBefore, Parent: -1, End: int64(first)})
	}
	return r
}
