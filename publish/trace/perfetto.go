package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"bakeoff/base/bootmodel"
)

// traceEvent is an event of the Trace Event Format. Times are microseconds.
//
// Source: D. Duca, D. Sinclair, Trace Event Format.
type traceEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	At    float64        `json:"ts"`
	Took  *float64       `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// writePerfetto writes one event for each span, mark and track. Times count from the
// earliest. The ticks of a clock with an unknown frequency are written as nanoseconds. Spans that
// repeat others are on the track of the span that waited.
func writePerfetto(w io.Writer, r bootmodel.Recording) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")
	sep := "\n"
	var failed error
	put := func(e traceEvent) {
		text, err := json.Marshal(e)
		if err != nil {
			failed = err
		}
		fmt.Fprintf(b, "%s%s", sep, text)
		sep = ",\n"
	}
	put(traceEvent{Name: "process_name", Phase: "M", PID: 1, Args: map[string]any{"name": "boot"}})
	for i, t := range r.Tracks {
		put(traceEvent{Name: "thread_name", Phase: "M", PID: 1, TID: i + 1, Args: map[string]any{"name": trackName(t)}})
		put(traceEvent{Name: "thread_sort_index", Phase: "M", PID: 1, TID: i + 1, Args: map[string]any{"sort_index": i}})
	}
	zero := earliest(r)
	track := make([]int, len(r.Spans)) // where a span is drawn
	for i, s := range r.Spans {
		if track[i] = s.Track; s.Parent >= 0 {
			track[i] = track[s.Parent]
		}
		put(spanEvent(r, i, track[i], zero))
	}
	for _, m := range r.Marks {
		e := traceEvent{Name: m.Name, Cat: "mark", Phase: "i", At: (r.NS(m.Clock, m.At) - zero) / 1e3, PID: 1, TID: 1,
			Scope: "g"}
		if m.How != "" {
			e.Args = map[string]any{"how": m.How}
		}
		put(e)
	}
	fmt.Fprint(b, "\n]}\n")
	if failed != nil {
		return failed
	}
	return b.Flush()
}

func spanEvent(r bootmodel.Recording, i, track int, zero float64) traceEvent {
	s := r.Spans[i]
	from, to := r.Times(i)
	took := (to - from) / 1e3
	e := traceEvent{Name: s.Name, Cat: r.Clocks[s.Clock].Source, Phase: "X", At: (from - zero) / 1e3, Took: &took, PID: 1,
		TID: track + 1, Args: map[string]any{}}
	for name, on := range map[string]bool{"wait": s.Wait, "open": s.Open, "charged": s.Charged} {
		if on {
			e.Args[name] = true
		}
	}
	if s.Arg != "" {
		e.Args["argument"] = s.Arg
	}
	return e
}
