package trace

import (
	"encoding/json"
	"io"

	"bakeoff/base/bootmodel"
)

// The file format of speedscope: https://www.speedscope.app/file-format-schema.json
type speedscope struct {
	Schema   string              `json:"$schema"`
	Name     string              `json:"name,omitempty"`
	Exporter string              `json:"exporter"`
	Active   int                 `json:"activeProfileIndex"`
	Shared   speedscopeShared    `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
}

type speedscopeProfile struct {
	Type   string            `json:"type"`
	Name   string            `json:"name"`
	Unit   string            `json:"unit"`
	Start  float64           `json:"startValue"`
	End    float64           `json:"endValue"`
	Events []speedscopeEvent `json:"events"`
}

type speedscopeEvent struct {
	Type  string  `json:"type"`
	At    float64 `json:"at"`
	Frame int     `json:"frame"`
}

// writeSpeedscope writes a profile for the root and for every track. Times count from
// the earliest span.
func writeSpeedscope(w io.Writer, r bootmodel.Recording) error {
	out := speedscope{Schema: "https://www.speedscope.app/file-format-schema.json", Name: "boot", Exporter: "bakeoff",
		Shared: speedscopeShared{Frames: []speedscopeFrame{}}, Profiles: []speedscopeProfile{}}
	b := speedscopeBuilder{r: r, frames: map[string]int{}, out: &out, zero: earliest(r), children: childrenOf(r)}
	if r.Root != nil {
		b.profile("boot", []int{*r.Root})
	}
	byTrack := make([][]int, len(r.Tracks))
	for i, s := range r.Spans {
		if s.Parent < 0 && !s.Charged {
			byTrack[s.Track] = append(byTrack[s.Track], i)
		}
	}
	for i, roots := range byTrack {
		if len(roots) > 0 {
			b.profile(trackName(r.Tracks[i]), roots)
		}
	}
	if len(out.Profiles) == 0 { // the format wants one
		b.profile("boot", nil)
	}
	return json.NewEncoder(w).Encode(out)
}

func trackName(t bootmodel.Track) string {
	if t.ID == "" {
		return t.Name
	}
	return t.Name + " (" + t.ID + ")"
}

// earliest is the least time on the reference clock of all spans and marks, in
// nanoseconds.
func earliest(r bootmodel.Recording) (zero float64) {
	first := true
	for i := range r.Spans {
		if from, _ := r.Times(i); first || from < zero {
			zero, first = from, false
		}
	}
	for _, m := range r.Marks {
		if at := r.NS(m.Clock, m.At); first || at < zero {
			zero, first = at, false
		}
	}
	return zero
}

func childrenOf(r bootmodel.Recording) [][]int32 {
	out := make([][]int32, len(r.Spans))
	for i, s := range r.Spans {
		if s.Parent >= 0 {
			out[s.Parent] = append(out[s.Parent], int32(i))
		}
	}
	return out
}

type speedscopeBuilder struct {
	r        bootmodel.Recording
	zero     float64
	frames   map[string]int
	children [][]int32
	out      *speedscope
}

func (b *speedscopeBuilder) profile(name string, roots []int) {
	p := speedscopeProfile{Type: "evented", Name: name, Unit: "none", Events: []speedscopeEvent{}}
	if len(b.r.Clocks) > 0 && b.r.Clocks[0].Known() {
		p.Unit = "nanoseconds"
	}
	for _, i := range roots {
		from, to := b.r.Times(i)
		b.writeSpan(&p, i, from, to)
	}
	if n := len(p.Events); n > 0 {
		p.End = p.Events[n-1].At
	}
	b.out.Profiles = append(b.out.Profiles, p)
}

// writeSpan writes a span within its parent. The format wants events in order, so a child on
// another clock is moved by what the clocks disagree.
func (b *speedscopeBuilder) writeSpan(p *speedscopeProfile, i int, low, high float64) {
	from, to := b.r.Times(i)
	from, to = min(max(from, low), high), min(max(to, low), high)
	s := b.r.Spans[i]
	frame, ok := b.frames[s.Label()]
	if !ok {
		frame = len(b.out.Shared.Frames)
		b.frames[s.Label()] = frame
		b.out.Shared.Frames = append(b.out.Shared.Frames, speedscopeFrame{s.Label()})
	}
	p.Events = append(p.Events, speedscopeEvent{"O", from - b.zero, frame})
	at := from
	for _, child := range b.children[i] {
		b.writeSpan(p, int(child), at, to)
		at = b.zero + p.Events[len(p.Events)-1].At
	}
	p.Events = append(p.Events, speedscopeEvent{"C", max(to, at) - b.zero, frame})
}
