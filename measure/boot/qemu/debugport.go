package qemu

import (
	"strconv"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/lazy"
	"bakeoff/measure/boot"
)

// debugWrite is the event that bakeoff adds to the log for what a guest writes to its
// debug port.
const debugWrite = "debug_port_write"

// MarkDebug is the first write to the debug port.
const MarkDebug = "first debug port write"

// write is a line that a guest wrote to its debug port, or a code.
type write struct {
	at     int64    // microseconds since the first event
	within *float64 // nanoseconds; nil if nobody knows
	port   string
	text   string
}

var written = lazy.Compile(`^ port (0[xX][0-9a-fA-F]{1,4}|[0-9]{1,5}) within ([0-9]{1,9}|\?) us: (.+)$`)

// parseWrite reads what follows the name of the event.
func parseWrite(rest []byte) (w write, ok bool) {
	m := written.FindStringSubmatch(boot.ValidText(rest))
	if m == nil {
		return w, false
	}
	w.port, w.text = m[1], strings.TrimSpace(m[3])
	if us, err := strconv.ParseInt(m[2], 10, 64); err == nil {
		w.within = new(float64(us) * 1000)
	}
	return w, w.text != ""
}

// addPortSpans adds a span for each write, up to the next one. Writes of the firmware are parts of
// it; the others have a track of their own.
func (in input) addPortSpans(r *bootmodel.Recording) {
	if len(in.writes) == 0 {
		return
	}
	first := in.writes[0]
	r.Marks = append(r.Marks, bootmodel.Mark{Name: MarkDebug, At: first.at, UncertaintyNS: first.within,
		How: "the guest wrote to port " + first.port})
	own := -1
	for i, w := range in.writes {
		s := bootmodel.Span{Name: w.text, Parent: -1, Start: w.at, End: w.at}
		if i+1 < len(in.writes) {
			s.End = in.writes[i+1].at
		}
		if len(r.Spans) > 0 && r.Spans[0].Name == spanFirmware && w.at >= r.Spans[0].Start && w.at < r.Spans[0].End {
			s.Parent, s.End = 0, min(s.End, r.Spans[0].End)
			if i+1 == len(in.writes) {
				s.End = r.Spans[0].End
			}
			r.Spans = append(r.Spans, s)
			continue
		}
		if own < 0 {
			own = len(r.Tracks)
			r.Tracks = append(r.Tracks, bootmodel.Track{Name: "debug port " + w.port, Parent: -1, Kind: bootmodel.KindFirmware})
		}
		s.Track = own
		r.Spans = append(r.Spans, s)
	}
}
