package analysis

import (
	"math/rand/v2"
	"strings"
	"testing"

	"bakeoff/base/sample"
)

// clocked are the trials of one side, each of 1.8 s, with these offsets in seconds.
func clocked(uncertainty float64, offsets ...float64) series {
	var s series
	for _, off := range offsets {
		s = append(s, &Observation{Contender: "netbsd", Clock: ClockReading{Inside: 1.8 + off, Outside: 1.8,
			Uncertainty: uncertainty}})
	}
	return s
}

// drifting are offsets as they were measured of a NetBSD guest: behind in 30 of 32 trials,
// by 3 to 20 ms.
func drifting(n int) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]float64, n)
	for i := range out {
		out[i] = -0.003 - 0.017*r.Float64()
		if i%16 == 7 {
			out[i] = 0.001
		}
	}
	return out
}

func TestDriftOfOneSide(t *testing.T) {
	time := sample.Metric{Name: "throughput"}
	honest := clocked(0.004, 0.001, -0.001, 0.002, -0.002, 0.001, -0.001, 0.003, -0.002, 0.001, -0.001, 0.002, -0.003)
	slow := clocked(0.004, drifting(32)...)
	for _, sides := range [][2]series{{slow, honest}, {honest, slow}, {slow, slow}} {
		got := driftGates(sides[0], sides[1], time)
		if len(got) != 1 || got[0].Name != DriftGate || got[0].Trials != 30 || got[0].Of != 32 ||
			!strings.HasPrefix(got[0].Reason, "the clock of netbsd was behind the host's in 30 of 32 trials, at the median "+
				"by 0.") {
			t.Errorf("got %+v", got)
		}
	}
	fast := drifting(32)
	for i := range fast {
		fast[i] = -fast[i]
	}
	if got := driftGates(clocked(0.004, fast...), nil, time); len(got) != 1 ||
		!strings.Contains(got[0].Reason, "ahead of") {
		t.Errorf("a fast clock: %+v", got)
	}
	for what, s := range map[string]series{
		"honest":             honest,
		"too few trials":     slow[:7],
		"a clock of no side": {{Contender: "x"}, {Contender: "x"}},
		"less than 0.2 %":    clocked(0.001, slices12(-0.003)...),
		"a bad reading":      clocked(0.05, slices12(-0.02)...),
	} {
		if got := driftGates(s, honest, time); got != nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := driftGates(slow, honest, sample.Metric{Name: "cpu-per-request", CPUTime: true}); got != nil {
		t.Errorf("CPU time: %+v", got)
	}
}

func slices12(v float64) []float64 {
	out := make([]float64, 12)
	for i := range out {
		out[i] = v
	}
	return out
}

// Honest clocks fail the gate at most as often as the sign test says, and readings that
// are late at one end of all trials do not fail it at all.
func TestDriftOfHonestClocks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	wrong, late := 0, 0
	const tries = 20000
	for range tries {
		free, biased := make([]float64, 24), make([]float64, 24)
		for i := range free {
			free[i] = 0.02 * r.NormFloat64()
			biased[i] = -0.0015 - 0.002*(2*r.Float64()-1)
		}
		if s, _, _ := clocked(0.004, free...).driftReason(); s != "" {
			wrong++
		}
		if s, _, _ := clocked(0.004, biased...).driftReason(); s != "" {
			late++
		}
	}
	t.Logf("of %d: %d honest clocks, %d late readings", tries, wrong, late)
	if float64(wrong) > 0.002*tries || late > 0 {
		t.Errorf("%d of %d honest clocks failed, and %d with late readings", wrong, tries, late)
	}
}
