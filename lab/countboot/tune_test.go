package countboot

import (
	"context"
	"maps"
	"slices"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
)

// pretend is a guest of 1,000,000 instructions. a saves 400,000; b 300,000, but only 100
// together with a; c costs 50; d does not boot; e saves 30.
func pretend(jitter int64) func(context.Context, Guest) (Boot, error) {
	n := int64(0)
	return func(_ context.Context, g Guest) (Boot, error) {
		cost := int64(1_000_000)
		has := func(w string) bool { return slices.Contains(g.Append, w) }
		if has("a") {
			cost -= 400_000
		}
		switch {
		case has("b") && has("a"):
			cost -= 100
		case has("b"):
			cost -= 300_000
		}
		if has("c") {
			cost += 50
		}
		if has("d") {
			return Boot{}, fault.New(fault.Subject, "it panics")
		}
		if g.Options["x"] == "e" {
			cost -= 30_000
		}
		n++
		return Boot{Counts: []driver.Count{{Name: "userland", At: cost + n*jitter}}}, nil
	}
}

func TestTuneFindsTheSmallestSet(t *testing.T) {
	knobs := []Knob{{Name: "a", Append: []string{"a"}}, {Name: "b", Append: []string{"b"}},
		{Name: "c", Append: []string{"c"}}, {Name: "d", Append: []string{"d"}},
		{Name: "e", Options: param.Values{"x": "e"}}, {Name: "f", UnpackInitrd: true},
		{Name: "m", Options: param.Values{"machine": "microvm"}}}
	out, err := Tuner{Boot: pretend(0), Least: 0.001}.Tune(t.Context(), Guest{}, knobs)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, c := range out.Chosen {
		got[c.Name] = *c.Saved
	}
	if want := map[string]int64{"a": 400_000, "e": 30_000}; !maps.Equal(got, want) || out.Chosen[0].Name != "a" ||
		out.Base != 1_000_000 || out.Tuned != 570_000 || out.Ratio != 0.57 {
		t.Errorf("chosen %v: %d of %d", got, out.Tuned, out.Base)
	}
	// f needs a RAM disk that is compressed, and the machine is a microvm already.
	if len(out.Alone) != 5 || out.Alone[3].Instructions != nil || out.Alone[3].Error != "it panics" ||
		*out.Alone[2].Saved != -50 {
		t.Errorf("alone %+v", out.Alone)
	}
}

func TestTuneRefusesBootsThatDiffer(t *testing.T) {
	_, err := Tuner{Boot: pretend(1)}.Tune(t.Context(), Guest{}, nil)
	if !fault.Is(err, fault.Subject) {
		t.Errorf("got %v", err)
	}
}
