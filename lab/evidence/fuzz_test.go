package evidence

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// However a stranger's journal goes, holding it against the plan ends, and a
// block counts only with all trials of those who took part.
func FuzzPlanned(f *testing.F) {
	p, data := encoded(f)
	line := func(l store.Line) []byte {
		b, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		return append(b, '\n')
	}
	first := line(store.Line{Type: store.LinePlan, Schema: store.JournalSchema, PlanSHA256: plan.Hash(data)})
	whole := bytes.Clone(first)
	for _, s := range p.Blocks[0].Slots() {
		whole = append(whole, line(store.Line{Type: store.LineTrial, Contender: s.Contender, Status: store.OK,
			Trial: &store.Trial{Position: s.Position, Cell: s.Cell}})...)
	}
	whole = append(whole, line(store.Line{Type: store.LineBlock, Status: store.OK})...)
	f.Add(whole)
	f.Add(append(bytes.Clone(first), line(store.Line{Type: store.LineBlock, Block: 99, Status: store.OK})...))
	f.Fuzz(func(t *testing.T, journal []byte) {
		lines, _, err := store.ReadJournal(bytes.NewReader(journal))
		if err != nil || len(lines) == 0 {
			return
		}
		s := storyOf(p, plan.Hash(data), lines)
		s.missing(nil)
		s.noEnergy()
		s.noGeneratorEnergy()
		if len(s.planned()) > 0 {
			return
		}
		trials := map[int]int{}
		for _, l := range s.trials {
			trials[l.Block]++
		}
		for b, ok := range s.counts {
			if ok && (b >= len(p.Blocks) || trials[b] == 0 || trials[b]%4 != 0) {
				t.Fatalf("block %d counts with %d trials", b, trials[b])
			}
		}
	})
}

// Whatever a stranger's journal says of the generator's host, a gate says of it
// what it would say of the subject's.
func FuzzGatesOfTheGenerator(f *testing.F) {
	f.Add([]byte(`{"at_ns":0,"wall_ns":5,"cpu":{"user":1},"throttled_seconds":1}`),
		[]byte(`{"at_ns":1000000000,"wall_ns":9,"cpu":{"user":1,"steal":0.5},"throttled_seconds":1.5}`))
	f.Add([]byte(`{"thermal_throttles":1e308}`), []byte(`{"at_ns":-1,"thermal_throttles":-1e308,"cpu":{"idle":-1e308}}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		var b, a facts.Counters
		if json.Unmarshal(before, &b) != nil || json.Unmarshal(after, &a) != nil {
			return
		}
		far := Trial{Line: store.Line{Trial: &store.Trial{GeneratorBefore: &b, GeneratorAfter: &a}}}
		near := Trial{Line: store.Line{Trial: &store.Trial{Before: &b, After: &a}}}
		got, want := failing(far), failing(near)
		for _, gate := range []string{"steal", "throttled", "clock"} {
			if (got[gate] == "") != (want[gate] == "") {
				t.Errorf("%s: %q of the generator's host, %q of the subject's", gate, got[gate], want[gate])
			}
		}
		for gate := range got {
			if want[gate] == "" {
				t.Errorf("%s: %q of the generator's host alone", gate, got[gate])
			}
		}
	})
}

// Comparing finds no difference between a value and itself, and at least one
// between two that are not equal.
func FuzzDiffer(f *testing.F) {
	f.Add([]byte(`{"a":[{"contender":"x","cell":"y","block":1,"n":1.5}],"b":null}`),
		[]byte(`{"a":[{"contender":"x","n":2}],"b":"c"}`))
	f.Add([]byte(`[1,2]`), []byte(`[1]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, err1 := decodeAny(a)
		y, err2 := decodeAny(b)
		if err1 != nil || err2 != nil {
			return
		}
		var self, other differ
		if self.compare("", x, x, "", ""); len(self.differences) != 0 {
			t.Fatalf("it differs from itself: %+v", self.differences)
		}
		other.compare("", x, y, "", "")
		if len(other.differences) == 0 && other.numbers == 0 && !reflect.DeepEqual(x, y) {
			t.Fatalf("%s and %s are taken for the same", a, b)
		}
	})
}
