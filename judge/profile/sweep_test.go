package profile

import (
	"math/rand/v2"
	"slices"
	"testing"

	"bakeoff/base/bootmodel"
)

// anything is a random recording that passes Check: several clocks, threads side by side, and
// spans that wait, did not end, or repeat others.
func anything(rnd *rand.Rand) bootmodel.Recording {
	zero := bootmodel.Exact()
	r := bootmodel.Recording{Schema: bootmodel.Schema, Clocks: []bootmodel.Clock{{Name: "a", Source: "x", Hz: 1e9,
		UncertaintyNS: zero},
		{Name: "b", Source: "x", Hz: 1e6, OffsetNS: float64(rnd.IntN(2000)) * 1000, UncertaintyNS: zero}}}
	var grow func(track, clock, parent, depth int, from, to int64)
	grow = func(track, clock, parent, depth int, from, to int64) {
		for at := from; at < to && len(r.Spans) < 60; {
			start := at + rnd.Int64N(to-at+1)
			end := start + rnd.Int64N(to-start+1)
			i := len(r.Spans)
			r.Spans = append(r.Spans, bootmodel.Span{Name: string(rune('a' + rnd.IntN(4))), Track: track, Clock: clock,
				Parent: parent, Start: start, End: end, Wait: rnd.IntN(6) == 0, Open: rnd.IntN(6) == 0,
				Charged: parent >= 0 && (r.Spans[parent].Charged || rnd.IntN(9) == 0)})
			if depth < 4 {
				grow(track, clock, i, depth+1, start, end)
			}
			if at = end; rnd.IntN(3) == 0 {
				break
			}
		}
	}
	for track := range 1 + rnd.IntN(4) {
		r.Tracks = append(r.Tracks, bootmodel.Track{Name: "t", Parent: -1, Kind: bootmodel.KindKernel})
		if rnd.IntN(2) == 0 {
			grow(track, 0, -1, 0, 0, 10_000_000)
		} else {
			grow(track, 1, -1, 0, 0, 10_000)
		}
	}
	for _, name := range []string{bootmodel.MarkKernel, bootmodel.MarkUserland, bootmodel.MarkReady}[:rnd.IntN(4)] {
		r.Marks = append(r.Marks, bootmodel.Mark{Name: name, At: rnd.Int64N(12_000_000)})
	}
	bootmodel.SortMarks(&r)
	return r
}

// No own time is longer than what its clock allows, whatever the recording is.
func TestOwnTimesAreTimesOfTheBoot(t *testing.T) {
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		raw := anything(rnd)
		r := bootmodel.Clip(raw)
		if err := bootmodel.Check("x", r); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		from, to := r.Extent()
		begin, end, _ := r.Window()
		length := end - begin
		const slack = 1 // ns, of rounding
		// Each span alone.
		alone := make([]int32, len(r.Spans))
		for i := range alone {
			alone[i] = int32(i)
			if r.Spans[i].Charged {
				alone[i] = -1
			}
		}
		byTrack := map[[2]int]float64{} // track and clock
		extents := map[int][2]float64{}
		for i, c := range sweepSpans(&r, alone, len(alone), begin, end) {
			start, end := r.Times(i)
			s := r.Spans[i]
			if own := c.Self + c.Wait + c.Open; own < 0 || own > end-start+slack || c.Within > c.Self+slack {
				t.Fatalf("seed %d: span %d of %v has %+v", seed, i, end-start, c)
			}
			if (s.Wait || s.Open) && c.Self > 0 {
				t.Fatalf("seed %d: span %d %+v has an own time", seed, i, s)
			}
			byTrack[[2]int{s.Track, s.Clock}] += c.Self + c.Wait + c.Open
			e, ok := extents[s.Clock]
			if !ok {
				e = [2]float64{start, end}
			}
			extents[s.Clock] = [2]float64{min(e[0], start), max(e[1], end)}
		}
		for at, sum := range byTrack {
			if e := extents[at[1]]; sum > e[1]-e[0]+slack {
				t.Fatalf("seed %d: the own times of track %d add up to %v, and its clock ran for %v", seed, at[0], sum, e[1]-e[0])
			}
		}
		// All spans of a label, and all of them together, on each clock.
		for clock, e := range extents {
			group := slices.Clone(alone)
			for i, s := range r.Spans {
				if group[i] = min(group[i], 0); s.Clock != clock {
					group[i] = -1
				}
			}
			if c := sweepSpans(&r, group, 1, begin, end)[0]; c.Self > e[1]-e[0]+slack || c.Total > e[1]-e[0]+slack {
				t.Fatalf("seed %d: the clock %d ran for %v, and its spans have %+v", seed, clock, e[1]-e[0], c)
			}
		}
		tree := NewTree()
		costs, _ := tree.Add(&r)
		for i, c := range costs {
			if c.Self > to-from+slack || c.Total > to-from+slack || c.Within > length+slack {
				t.Fatalf("seed %d: %v has %+v of %v", seed, tree.Path(i), c, to-from)
			}
		}
		for _, row := range tree.Rows(&r) {
			if row.Self > to-from+slack || row.Within > length+slack || row.Total > to-from+slack ||
				row.Wait > to-from+slack || row.Open > to-from+slack {
				t.Fatalf("seed %d: %+v of %v, the boot took %v", seed, row, to-from, length)
			}
		}
	}
}

// Three copies of a process that did not end are no work of the boot, and end at its last mark.
func TestSpansWithoutAnEndAreLeftOut(t *testing.T) {
	r := bootmodel.Recording{Clocks: []bootmodel.Clock{{Name: "a", Hz: 1e9}}, Tracks: make([]bootmodel.Track, 4),
		Marks: []bootmodel.Mark{{Name: bootmodel.MarkReady, At: 7_730}},
		Spans: []bootmodel.Span{{Name: "kernel", Parent: -1, End: 6_030}, {Name: "fork of /init", Track: 1, Parent: -1,
			Start: 6_030, End: 9_000, Open: true}, {Name: "fork of /init", Track: 2, Parent: -1, Start: 6_040, End: 9_000,
			Open: true}, {Name: "fork of /init", Track: 3, Parent: -1, Start: 6_050, End: 9_000, Open: true}}}
	r = bootmodel.Clip(r)
	tree := NewTree()
	tree.Add(&r)
	rows := tree.Rows(&r)
	if k := rows[0]; k.Label != "kernel" || k.Self != 6030 || k.Within != 6030 {
		t.Errorf("%+v", k)
	}
	if f := rows[1]; f.Self != 0 || f.Open != 1700 || f.Count != 3 || f.Total != 1700 {
		t.Errorf("%+v", f)
	}
}
