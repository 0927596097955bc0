package flame

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/publish/chart/charttest"
)

// nested makes a boot of n random spans on three tracks.
func nested(n int, seed uint64) *bootmodel.Recording {
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := &bootmodel.Recording{Schema: bootmodel.Schema, Clocks: []bootmodel.Clock{{Name: "guest", Hz: 1e9,
		UncertaintyNS: bootmodel.Exact()}},
		Tracks: []bootmodel.Track{{Name: "kernel", Kind: bootmodel.KindKernel, Parent: -1}, {Name: "init", ID: "1",
			Kind: bootmodel.KindProcess, Parent: -1}, {Name: charttest.Hostile, Kind: bootmodel.KindFirmware, Parent: -1}},
		Marks: []bootmodel.Mark{{Name: bootmodel.MarkKernel, At: 0}, {Name: charttest.Hostile, At: 5e8},
			{Name: bootmodel.MarkUserland,
				At: 1e9}}}
	var add func(track, parent int, from, to int64)
	add = func(track, parent int, from, to int64) {
		for from < to && len(r.Spans) < n {
			end := from + 1 + rnd.Int64N(max(1, to-from))
			r.Spans = append(r.Spans, bootmodel.Span{Name: fmt.Sprintf("f%d", rnd.IntN(50)), Track: track, Parent: parent,
				Start: from, End: end, Wait: rnd.IntN(9) == 0, Open: rnd.IntN(9) == 0})
			if rnd.IntN(2) == 0 {
				add(track, len(r.Spans)-1, from, end)
			}
			from = end + rnd.Int64N(max(1, (to-end)/4+1))
		}
	}
	for track := range r.Tracks {
		add(track, -1, 0, 1e9)
	}
	return r
}

func TestFigures(t *testing.T) {
	for name, rec := range map[string]*bootmodel.Recording{
		"none": {Clocks: []bootmodel.Clock{{Name: "a"}}},
		"some": nested(40, 1),
		"many": nested(3000, 2),
		"ticks": {Clocks: []bootmodel.Clock{{Name: "tsc"}}, Tracks: []bootmodel.Track{{Name: "t", Parent: -1}},
			Spans: []bootmodel.Span{{Name: charttest.Hostile, Parent: -1, End: 5}}},
	} {
		t.Run(name, func(t *testing.T) { charttest.Run(t, New("a boot", rec, 200)) })
	}
}

// Every span is drawn once: in a box of its own, or in one that says how many it holds.
// Their times add up to those of the recording.
func TestEverySpanIsInABox(t *testing.T) {
	for seed := range uint64(20) {
		rec := nested(2000, seed)
		for _, most := range []int{50, 500, 1 << 20} {
			f := New("a boot", rec, most)
			bands, merged, _ := f.l.placeBoxes(most)
			spans, boxes := 0, 0
			for _, band := range bands {
				for _, b := range band {
					boxes++
					spans += b.spans
					if b.isMerged() {
						spans += b.below
					}
				}
			}
			if spans != len(rec.Spans) {
				t.Fatalf("seed %d, %d boxes: %d of %d spans are drawn", seed, most, spans, len(rec.Spans))
			}
			if boxes > most+len(bands) {
				t.Errorf("seed %d: %d boxes, the bound is %d", seed, boxes, most)
			}
			if (merged > 0) != (f.Merged() != "") {
				t.Errorf("seed %d: %d spans share boxes, and the chart says %q", seed, merged, f.Merged())
			}
		}
		self := 0.0
		f := New("a boot", rec, 100)
		for _, r := range f.Rows() {
			self += r.Self + r.Wait + r.Open
		}
		var whole int64
		for _, s := range rec.Spans {
			if s.Parent < 0 {
				whole += s.End - s.Start
			}
		}
		// Spans of one name that run at the same time count once.
		if self > float64(whole)+1 {
			t.Errorf("seed %d: the own times add up to %.0f, the spans took %d", seed, self, whole)
		}
	}
}

// A wait that was charged to another thread counts once.
func TestChargedSpansCountOnce(t *testing.T) {
	rec := &bootmodel.Recording{Clocks: []bootmodel.Clock{{Name: "tsc"}}, Tracks: []bootmodel.Track{{Name: "a",
		Parent: -1}, {Name: "b",
		Parent: -1}},
		Spans: []bootmodel.Span{{Name: "main", Parent: -1, End: 100}, {Name: "wait", Parent: 0, Start: 10, End: 60,
			Wait: true},
			{Name: "work", Track: 1, Parent: 1, Start: 10, End: 60, Charged: true}, {Name: "work", Track: 1, Parent: -1,
				Start: 10, End: 60}}}
	got := map[string]float64{}
	for _, r := range New("x", rec, 10).Rows() {
		got[r.Label] = r.Self + r.Wait
	}
	if got["main"] != 50 || got["wait"] != 50 || got["work"] != 50 {
		t.Errorf("own times %v", got)
	}
	if d := New("x", rec, 10).Desc(); !strings.Contains(d, "4 spans") {
		t.Error(d)
	}
}
