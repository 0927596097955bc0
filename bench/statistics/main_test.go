package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"bakeoff/bench/study"
	"bakeoff/judge/noise"
)

// A small seeded part of the tables stays within four standard errors of the promised
// values.
func TestDesignKeepsItsPromises(t *testing.T) {
	s := study.Study{Replays: 600, Seed: 3}
	if testing.Short() {
		s.Replays = 150
	}
	margin := 4 * math.Sqrt(0.05*0.95/float64(s.Replays))
	run := func(e float64) total {
		return replayed(s, func(r *rand.Rand) outcome {
			return analysed(noise.Reference, r, standard, [][]float64{{math.Log1p(e)}})
		})
	}
	if a := run(0); float64(a.different)/float64(a.n) > 0.05+margin {
		t.Errorf("false alarms: %+v", a)
	}
	a := run(0.02)
	if p := float64(a.different) / float64(a.n); p < 0.85-4*math.Sqrt(0.85*0.15/float64(a.n)) || a.meanTrials() > 50+2 {
		t.Errorf("2 %% is called in %v with %v trials", p, a.meanTrials())
	}
	b := replayed(s, func(r *rand.Rand) outcome { return baseline(noise.Reference, r, math.Log(1.02)) })
	if b.meanTrials() < a.meanTrials()+10 {
		t.Errorf("the baseline needs %v trials, the design %v", b.meanTrials(), a.meanTrials())
	}
}

func TestTablesAreReproducible(t *testing.T) {
	var out [2]bytes.Buffer
	for i := range out {
		rulesTable(study.Study{Replays: 3, Seed: 1, Out: &out[i]})
	}
	if out[0].String() != out[1].String() || strings.Count(out[0].String(), "bakeoff") != 2*len(noise.Families) {
		t.Errorf("two runs differ, or a row is missing:\n%s", out[0].String())
	}
}

// Looks that follow from a budget keep the error rate, beyond the blocks for which the
// test is exact, too.
func TestFalseAlarmsWithABudget(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 100
	}
	different := 0
	for i := range n {
		if analysed(noise.Reference, rand.New(rand.NewPCG(uint64(i), 9)), tryDesign(400), [][]float64{{0}}).different {
			different++
		}
	}
	if share := float64(different) / float64(n); share > .05+4*math.Sqrt(.05*.95/float64(n)) {
		t.Errorf("%d of %d equal pairs were called different", different, n)
	}
}
