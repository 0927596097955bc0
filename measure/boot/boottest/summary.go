package boottest

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
)

// shown is how many spans and tracks a summary has.
const shown = 30

// summary writes what Read gives: clocks, marks, notes and tracks, and the spans that
// took longest by themselves.
func summary(file string, r bootmodel.Recording, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", file)
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
		return b.String()
	}
	fmt.Fprintf(&b, "system %q, %d spans, %d tracks\n", r.System, len(r.Spans), len(r.Tracks))
	for _, c := range r.Clocks {
		fmt.Fprintf(&b, "clock %s of %s: %g Hz\n", c.Name, c.Source, c.Hz)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note lost=%v %s\n", n.Lost, n.Text)
	}
	for _, m := range r.Marks[:min(len(r.Marks), shown)] {
		fmt.Fprintf(&b, "mark %d %s (%s)\n", m.At, m.Name, m.How)
	}
	for _, t := range r.Tracks[:min(len(r.Tracks), shown)] {
		fmt.Fprintf(&b, "track %q %s %s parent %d\n", t.Name, t.ID, t.Kind, t.Parent)
	}
	self := r.Self()
	order := make([]int, len(r.Spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return int(self[y] - self[x]) })
	for _, i := range order[:min(len(order), shown)] {
		s := r.Spans[i]
		fmt.Fprintf(&b, "span %d–%d self %d on %d wait=%v open=%v %s\n", s.Start, s.End, self[i], s.Track, s.Wait, s.Open,
			strings.Join(r.Path(i), " > "))
	}
	return b.String()
}
