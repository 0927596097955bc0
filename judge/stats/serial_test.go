package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval of a shift covers it as often as its level says, for independent
// values and, roughly, for correlated ones. An interval without the correction for
// correlation covers it far too seldom.
func TestSerialCoverage(t *testing.T) {
	const runs, n, level, shift = 400, 40, 0.95, 0.3
	for _, c := range []struct {
		name  string
		rho   float64
		least float64
	}{{"independent", 0, 0.93}, {"correlated", 0.6, 0.85}} {
		r := rand.New(rand.NewPCG(7, uint64(10*c.rho)))
		series := func(center float64) []float64 {
			xs, x := make([]float64, n), r.NormFloat64()
			for i := range xs {
				x = c.rho*x + math.Sqrt(1-c.rho*c.rho)*r.NormFloat64()
				xs[i] = center + x
			}
			return xs
		}
		covered, plain := 0, 0
		for range runs {
			a, b := series(0), series(shift)
			got, below, above := SerialCenter(a, level).To(SerialCenter(b, level))
			if got-below <= shift && shift <= got+above {
				covered++
			}
			x, y := HodgesLehmann(a, level), HodgesLehmann(b, level)
			d := y.Value - x.Value
			if d-math.Hypot(x.Hi-x.Value, y.Value-y.Lo) <= shift && shift <= d+math.Hypot(x.Value-x.Lo, y.Hi-y.Value) {
				plain++
			}
		}
		if share := float64(covered) / runs; share < c.least {
			t.Errorf("%s: covered in %.3f of %d runs, want %.2f", c.name, share, runs, c.least)
		}
		if c.rho > 0 && covered <= plain+runs/20 {
			t.Errorf("%s: covered in %d runs, without the correction in %d", c.name, covered, plain)
		}
	}
}

// Values that are too few, or all the same, have an interval that says so.
func TestSerialEdges(t *testing.T) {
	few := SerialCenter([]float64{1, 2, 3, 4, 5}, 0.95)
	if few.Center != 3 || !math.IsInf(few.Below, 1) || !math.IsInf(few.Above, 1) || len(few.Warnings) != 1 {
		t.Errorf("five values: %+v", few)
	}
	same := SerialCenter([]float64{2, 2, 2, 2, 2, 2, 2, 2}, 0.95)
	if same.Center != 2 || same.Below != 0 || same.Above != 0 || same.Effective != 8 {
		t.Errorf("equal values: %+v", same)
	}
	shift, below, above := same.To(few)
	if shift != 1 || !math.IsInf(below, 1) || !math.IsInf(above, 1) {
		t.Errorf("shift %v −%v +%v", shift, below, above)
	}
	if none := SerialCenter(nil, 0.95); !math.IsNaN(none.Center) || none.N != 0 {
		t.Errorf("no values: %+v", none)
	}
}
