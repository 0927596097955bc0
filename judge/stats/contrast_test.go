package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// mirrored makes blocks ABBA or BAAB of drifting, disturbed trials.
func mirrored(r *rand.Rand, blocks int, shift float64) Trials {
	var t Trials
	drift := 0.0
	for range blocks {
		t.Start = append(t.Start, len(t.Value))
		s := int8(1 - 2*r.IntN(2))
		for _, side := range []int8{s, -s, -s, s} {
			drift += 0.01 * r.NormFloat64()
			v := 1 + drift + 0.02*r.NormFloat64() + float64(side)*shift/2
			if r.Float64() < 0.05 {
				v += 0.1 * r.ExpFloat64()
			}
			t.Value = append(t.Value, v)
			t.Side = append(t.Side, side)
		}
	}
	return t
}

func flip(t Trials, mask int) Trials {
	side := make([]int8, len(t.Side))
	for b, from := range t.Start {
		for i := from; i < len(side) && (b+1 == len(t.Start) || i < t.Start[b+1]); i++ {
			side[i] = t.Side[i]
			if mask>>b&1 == 1 {
				side[i] = -side[i]
			}
		}
	}
	return Trials{Value: t.Value, Side: side, Start: t.Start}
}

// Exchanging the sides of a block changes the sign of its score and nothing
// else: the property that makes the test exact.
func TestContrastKnowsNothingOfSides(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		in := mirrored(r, 9, 0.03)
		in.Value[r.IntN(len(in.Value))] = math.Inf(1)
		want := NewContrast(in).Scores(9, 0)
		mask := r.IntN(1 << 9)
		got := NewContrast(flip(in, mask)).Scores(9, 0)
		for b := range want {
			if w := want[b]; got[b] != w && (mask>>b&1 == 0 || got[b] != -w) {
				t.Fatalf("block %d: %v became %v", b, want[b], got[b])
			}
			if math.Abs(got[b]) == math.Abs(want[b]) && mask>>b&1 == 1 && got[b] == want[b] && want[b] != 0 {
				t.Fatalf("block %d did not change its sign", b)
			}
		}
	}
}

// Under all 2ⁿ orders of the same values the test rejects as often as it
// says, exactly.
func TestContrastIsExactUnderAllOrders(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	in := mirrored(r, 10, 0.05)
	stands := make([]Standing, 1<<10)
	for mask := range stands {
		stands[mask] = NewContrast(flip(in, mask)).Stand(10, 0)
	}
	for _, alpha := range []float64{0.01, 0.05, 0.2} {
		k, p, _ := walshRank(10, alpha/2)
		rejected := 0
		for _, s := range stands {
			if s.rankAt(k) != 0 {
				rejected++
			}
		}
		if got := float64(rejected) / (1 << 10); !near(got, 2*p, 1e-12) || got > alpha {
			t.Errorf("level %v: rejected %v, says %v", alpha, got, 2*p)
		}
	}
}

func TestContrastInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	runs := 400
	if testing.Short() {
		runs = 60
	}
	for _, shift := range []float64{0, 0.02, 0.3} {
		covered, quick, off := 0, 0, 0.0
		for range runs {
			c := NewContrast(mirrored(r, 12, shift))
			e := c.Estimate(12, 0.9, 0)
			if e.Lo > e.Value || e.Value > e.Hi || !e.Exact || e.Actual < 0.9 {
				t.Fatalf("%+v", e)
			}
			if e.Lo <= shift && shift <= e.Hi {
				covered++
			}
			if (e.Lo <= 0 && 0 <= e.Hi) != (c.Test(12, 0).P > 1-e.Actual+1e-9) {
				t.Fatalf("the interval %v and the test %v disagree on 0", e, c.Test(12, 0).P)
			}
			if q := c.Quick(12, 0.9); q.Lo <= shift && shift <= q.Hi {
				quick++
			}
			off += e.Value - shift
		}
		if s := float64(covered) / float64(runs); s < 0.9-4*math.Sqrt(0.09/float64(runs)) {
			t.Errorf("shift %v is covered in %v", shift, s)
		}
		if s := float64(quick) / float64(runs); s < 0.87-4*math.Sqrt(0.09/float64(runs)) {
			t.Errorf("shift %v is covered by the approximation in %v", shift, s)
		}
		if math.Abs(off/float64(runs)) > 0.006 {
			t.Errorf("shift %v is estimated %v off", shift, off/float64(runs))
		}
	}
}

// A disturbed trial moves the interval by less than its own size would.
func TestContrastWithstandsOutliers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	in := mirrored(r, 12, 0.05)
	clean := NewContrast(in).Estimate(12, 0.95)
	for b := range 3 {
		in.Value[4*b] += 100
	}
	got := NewContrast(in).Estimate(12, 0.95)
	if math.Abs(got.Value-clean.Value) > 0.02 || got.Hi-got.Lo > 2.5*(clean.Hi-clean.Lo) {
		t.Errorf("%+v with three wild trials, %+v without", got, clean)
	}
	if w := NewContrast(in).Weights(12, got.Value); w[0] != 0 || w[len(w)-1] == 0 {
		t.Errorf("weights %v", w)
	}
}

func TestContrastOfFailures(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	in := mirrored(r, 8, 0)
	for i := range in.Value { // the side fails always but in the last block
		if in.Side[i] > 0 && i < 28 {
			in.Value[i] = math.Inf(1)
		}
	}
	e := NewContrast(in).Estimate(8, 0.99, 0)
	if !math.IsInf(e.Hi, 1) || math.IsInf(e.Lo, 0) {
		t.Errorf("%+v", e)
	}
	for i := range in.Value { // every trial fails
		in.Value[i] = math.Inf(1)
	}
	if e := NewContrast(in).Estimate(8, 0.99); e.Value != 0 || e.Lo > 0 || e.Hi < 0 {
		t.Errorf("%+v", e)
	}
}

func TestContrastOfCounts(t *testing.T) {
	var in Trials
	for b := range 10 {
		in.Start = append(in.Start, 2*b)
		in.Value = append(in.Value, 7, 7)
		in.Side = append(in.Side, 1, -1)
	}
	if e := NewContrast(in).Estimate(10, 0.95, 0); e.Value != 0 || e.Lo > 0 || e.Hi < 0 || e.Hi-e.Lo > 0.01 {
		t.Errorf("nothing but ties: %+v", e)
	}
	for i := range in.Value { // one side is one more, always
		in.Value[i] += float64(in.Side[i]+1) / 2
	}
	if e := NewContrast(in).Estimate(10, 0.95, 0); !near(e.Value, 1, 1e-9) || e.Lo < 0.99 || e.Hi > 1.01 {
		t.Errorf("always one more: %+v", e)
	}
}

func FuzzContrast(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 200, 255, 254, 253, 0, 0, 0, 0}, uint8(2), 0.95, 0.0)
	f.Add([]byte{255, 255, 255, 255}, uint8(1), 0.5, 1.0)
	f.Add([]byte{}, uint8(1), 0.99, 0.0)
	f.Fuzz(func(t *testing.T, in []byte, per uint8, level, mark float64) {
		size := 2 * (1 + int(per)%3)
		if len(in) > 300 || !(level > 0 && level < 1) || math.IsNaN(mark) || math.IsInf(mark, 0) || math.Abs(mark) > 1e6 {
			return
		}
		var trials Trials
		for len(in) >= size {
			trials.Start = append(trials.Start, len(trials.Value))
			for i, b := range in[:size] {
				v := float64(int8(b)) / 8
				switch b {
				case 255:
					v = math.Inf(1)
				case 254:
					v = math.Inf(-1)
				case 253:
					v = 1e300
				}
				if i%2 == 0 && math.IsInf(v, 0) {
					v = math.Inf(1)
				}
				trials.Value = append(trials.Value, v)
				trials.Side = append(trials.Side, int8(1-2*(i%2)))
			}
			in = in[size:]
		}
		n := len(trials.Start)
		e := NewContrast(trials).Estimate(n, level, mark, 0)
		if e.Lo > e.Hi || e.Lo != e.Lo || e.Hi != e.Hi || e.N != n {
			t.Fatalf("%+v", e)
		}
		NewContrast(trials).Quick(n, level)
	})
}

func BenchmarkContrastEstimate(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 6))
	in := mirrored(r, 26, 0.02)
	for b.Loop() {
		NewContrast(in).Estimate(26, 0.985, 0, 0.0198, -0.0198)
	}
}

func BenchmarkContrastScores(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 6))
	c := NewContrast(mirrored(r, 26, 0.02))
	for b.Loop() {
		c.Scores(26, 0.01)
	}
}
