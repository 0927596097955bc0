package workload

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/reach/wire"
)

// counted is the blob of a host whose counter of energy went from one reading
// to another within some seconds; nil is a host without one.
func counted(t *testing.T, before, after *float64, seconds float64) Raw {
	t.Helper()
	b, err := json.Marshal(wire.Span{Before: facts.Counters{AtNS: 5, Joules: before},
		After: facts.Counters{AtNS: 5 + int64(seconds*1e9), Joules: after}})
	if err != nil {
		t.Fatal(err)
	}
	return Raw{Host: b}
}

// Energy is charged by time. Where it was not counted it is absent, never 0.
func TestEnergy(t *testing.T) {
	j := func(v float64) *float64 { return &v }
	for name, c := range map[string]struct {
		raw   Raw
		work  float64
		timed time.Duration
		want  float64 // 0: there is no value
	}{
		"the whole trial":          {counted(t, j(100), j(160), 4), 30, 0, 2},
		"half of its time":         {counted(t, j(100), j(160), 4), 30, 2 * time.Second, 1},
		"a guest's fast clock":     {counted(t, j(100), j(160), 4), 30, 8 * time.Second, 2},
		"no counter":               {counted(t, nil, nil, 4), 30, 0, 0},
		"one that came later":      {counted(t, nil, j(5), 4), 30, 0, 0},
		"less than its grain":      {counted(t, j(7), j(7), 4), 30, 0, 0},
		"one that was set back":    {counted(t, j(160), j(100), 4), 30, 0, 0},
		"no work":                  {counted(t, j(100), j(160), 4), 0, 0, 0},
		"a trial without counters": {Raw{}, 30, 0, 0},
	} {
		got, err := Costs(c.raw, c.work, c.timed, JoulesPerRequest)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == 0 && len(got) != 0:
			t.Errorf("%s: %v, and there is nothing to tell", name, got)
		case c.want != 0 && (len(got) != 1 || got[0].Metric != "joules-per-request" || got[0].Unit != "J/request" ||
			math.Abs(got[0].Value-c.want) > 1e-9):
			t.Errorf("%s: %v, want %g J", name, got, c.want)
		}
	}
	if _, err := Costs(Raw{Host: []byte("{")}, 1, 0, JoulesPerOp); err == nil {
		t.Error("a damaged blob is taken for an answer")
	}
}

// Each end has what its own host counted, and nothing where that one did not:
// no end is charged with the other's energy.
func TestEnergyOfBothEnds(t *testing.T) {
	j := func(v float64) *float64 { return &v }
	near, far, blind := counted(t, j(100), j(160), 4)[Host], counted(t, j(7), j(8.5), 2)[Host],
		counted(t, nil, nil, 4)[Host]
	for name, c := range map[string]struct {
		raw  Raw
		want map[string]float64
	}{
		"both count": {Raw{Host: near, GeneratorHost: far},
			map[string]float64{"joules-per-op": 2, "generator-joules-per-op": .05}},
		"only the subject's":      {Raw{Host: near, GeneratorHost: blind}, map[string]float64{"joules-per-op": 2}},
		"only the generator's":    {Raw{Host: blind, GeneratorHost: far}, map[string]float64{"generator-joules-per-op": .05}},
		"load from the same host": {Raw{Host: near}, map[string]float64{"joules-per-op": 2}},
	} {
		got, err := Costs(c.raw, 30, 0, JoulesPerOp, GeneratorJoulesPerOp)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
		for _, v := range got {
			if v.Unit != "J/op" || math.Abs(v.Value-c.want[v.Metric]) > 1e-12 {
				t.Errorf("%s: %+v, want %v", name, v, c.want)
			}
		}
	}
	if _, err := Costs(Raw{Host: near, GeneratorHost: []byte("{}x")}, 1, 0, JoulesPerOp,
		GeneratorJoulesPerOp); err == nil || !strings.Contains(err.Error(), GeneratorHost) {
		t.Errorf("a damaged blob of the generator's host: %v", err)
	}
}

// FuzzEnergy: whatever two blobs hold, what comes of them is energy, and each
// metric is of its own blob.
func FuzzEnergy(f *testing.F) {
	f.Add([]byte(`{"before":{"at_ns":1,"joules":1},"after":{"at_ns":2,"joules":3}}`),
		[]byte(`{"before":{"at_ns":1},"after":{"at_ns":2,"joules":-3}}`), 2.5, int64(1))
	f.Add([]byte(`{"before":{"energy":[{"zone":"intel-rapl:0","joules":1e300,"range_joules":1}]},"after":{}}`),
		[]byte("null"), 0., int64(-1))
	f.Fuzz(func(t *testing.T, near, far []byte, work float64, timed int64) {
		raw := Raw{Host: near, GeneratorHost: far}
		both, err := Costs(raw, work, time.Duration(timed), JoulesPerOp, GeneratorJoulesPerOp)
		for _, v := range both {
			if err != nil || v.Unit != "J/op" || !(v.Value > 0) || math.IsInf(v.Value, 0) {
				t.Errorf("%+v, %v", v, err)
			}
		}
		delete(raw, GeneratorHost)
		alone, nerr := Costs(raw, work, time.Duration(timed), JoulesPerOp, GeneratorJoulesPerOp)
		if err == nil && (nerr != nil || len(alone) > 1 || len(alone) == 1 && (len(both) == 0 || alone[0] != both[0])) {
			t.Errorf("%v without the generator's blob, %v with it (%v)", alone, both, nerr)
		}
	})
}
