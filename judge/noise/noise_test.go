package noise

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFamiliesAreWhatTheySay(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Families {
		if names[f.Name] || f.Doc == "" {
			t.Errorf("%q is there twice or says nothing", f.Name)
		}
		names[f.Name] = true
		a, b := f.Start(rand.New(rand.NewPCG(1, 2))), f.Start(rand.New(rand.NewPCG(1, 2)))
		for i := range 100 {
			if x, y := a.Trial(0, i%4), b.Trial(0, i%4); x != y || math.IsNaN(x) {
				t.Fatalf("%s: the same seed gives %v and %v", f.Name, x, y)
			}
		}
	}
}

// The reference noise has the moments that its description gives: a variance
// of .02² + .02² + (2·.05 − .05²)·.1² and a mean of .05·.1.
func TestReferenceMoments(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var sum, squares float64
	n := 0
	for range 400 {
		run := Reference.Start(r)
		for i := range 100 {
			v := run.Trial(0, i%4)
			sum, squares, n = sum+v, squares+v*v, n+1
		}
	}
	mean := sum / float64(n)
	variance := squares/float64(n) - mean*mean
	if math.Abs(mean-0.005) > 0.001 || math.Abs(variance/0.001775-1) > 0.05 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
}
