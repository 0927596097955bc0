package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// relative reports whether a is b up to a relative error.
func relative(a, b, tol float64) bool { return a == b || math.Abs(a-b) <= tol*math.Abs(b) }

// solve solves a·x = b by elimination with pivots. It destroys both.
func solve(a [][]float64, b []float64) []float64 {
	n := len(b)
	for i := range n {
		p := i
		for r := i; r < n; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[p][i]) {
				p = r
			}
		}
		a[i], a[p], b[i], b[p] = a[p], a[i], b[p], b[i]
		for r := i + 1; r < n; r++ {
			f := a[r][i] / a[i][i]
			for c := i; c < n; c++ {
				a[r][c] -= f * a[i][c]
			}
			b[r] -= f * b[i]
		}
	}
	for i := n - 1; i >= 0; i-- {
		for c := i + 1; c < n; c++ {
			b[i] -= a[i][c] * b[c]
		}
		b[i] /= a[i][i]
	}
	return b
}

// plainScores are the scores of Contrast from their definition, with dense matrices, and
// the weights.
func plainScores(t Trials, n int, shift float64) (scores, weights []float64) {
	blockOf := func(i int) int {
		b, found := slices.BinarySearch(t.Start, i)
		if !found {
			b--
		}
		return b
	}
	broken := map[int]bool{}
	end := len(t.Value)
	if n < len(t.Start) {
		end = t.Start[n]
	}
	y := make([]float64, end)
	for i := range y {
		y[i] = t.Value[i] - float64(t.Side[i])*shift/2
		if math.IsInf(t.Value[i], 0) {
			broken[blockOf(i)] = true
		}
	}
	level, weight := make([]float64, end), make([]float64, end)
	medians := make([]float64, n)
	for b := range n {
		var in []float64
		for i := range y {
			if blockOf(i) == b && !broken[b] {
				in = append(in, y[i])
			}
		}
		medians[b] = Median(in)
	}
	for b := 1; b < n; b++ { // a block without values has the level of the one before
		if medians[b] != medians[b] {
			medians[b] = medians[b-1]
		}
	}
	for b := n - 2; b >= 0; b-- { // and at the beginning of the one after
		if medians[b] != medians[b] {
			medians[b] = medians[b+1]
		}
	}
	for i := range y {
		level[i] = medians[blockOf(i)]
		if !broken[blockOf(i)] {
			weight[i] = 1
		}
	}
	var scale float64
	for round := range 3 {
		var sizes []float64
		for i := range y {
			if !broken[blockOf(i)] {
				sizes = append(sizes, math.Abs(y[i]-level[i]))
			}
		}
		if len(sizes) == 0 {
			break
		}
		slices.Sort(sizes)
		if round < 2 {
			scale = 1.4826 * sizes[len(sizes)/2]
		}
		if scale == 0 {
			break
		}
		a, rhs := make([][]float64, end), make([]float64, end)
		for i := range y {
			a[i] = make([]float64, end)
			weight[i] = 0
			v := y[i]
			if broken[blockOf(i)] {
				v = 0
			} else if u := (y[i] - level[i]) / (5 * scale); math.Abs(u) < 1 {
				weight[i] = math.Pow(1-u*u, 2)
			}
			a[i][i] = weight[i] + 1e-9
			rhs[i] = weight[i] * v
			if !broken[blockOf(i)] {
				rhs[i] += 1e-9 * v
			}
		}
		for i := 1; i < end; i++ {
			stiff := 5.0
			if blockOf(i) != blockOf(i-1) {
				stiff = 1.25
			}
			a[i][i] += stiff
			a[i-1][i-1] += stiff
			a[i][i-1] -= stiff
			a[i-1][i] -= stiff
		}
		level = solve(a, rhs)
	}
	scores = make([]float64, n)
	for b := range scores {
		size, failed := 0, 0.0
		for i := range y {
			if blockOf(i) != b {
				continue
			}
			size++
			if math.IsInf(t.Value[i], 0) {
				failed += float64(t.Side[i]) * t.Value[i]
			}
			if !broken[b] {
				scores[b] += 2 * float64(t.Side[i]) * weight[i] * (y[i] - level[i])
			}
		}
		scores[b] /= float64(size)
		switch {
		case broken[b] && failed != failed: // both sides failed
			scores[b] = -shift
		case broken[b]:
			scores[b] = failed
		}
	}
	for i := range weight {
		if broken[blockOf(i)] {
			weight[i] = math.NaN()
		}
	}
	return scores, weight
}

// The scores are those of the definition, also after the first blocks only, with failures at
// either end, and with blocks of different sizes.
func TestScoresAreThoseOfTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	for round := range 40 {
		in := mirrored(r, 3+r.IntN(8), 0.05)
		blocks := len(in.Start)
		if round%4 == 1 {
			in.Value[0] = math.Inf(1) // the first block has a failure
		}
		if round%4 == 2 {
			in.Value[5], in.Value[len(in.Value)-1] = math.Inf(1), math.Inf(-1)
		}
		if round%5 == 3 { // both sides of a block fail alike
			in.Value[4], in.Value[5] = math.Inf(1), math.Inf(1)
		}
		if round%3 == 0 { // the last block is shorter
			in.Value, in.Side = in.Value[:len(in.Value)-2], in.Side[:len(in.Side)-2]
		}
		c := NewContrast(in)
		for _, n := range []int{blocks, blocks - 1, 2} {
			for _, shift := range []float64{0, 0.03, -1} {
				want, weights := plainScores(in, n, shift)
				got := c.Scores(n, shift)
				for b := range want {
					if got[b] != want[b] && !(math.Abs(got[b]-want[b]) < 1e-9) {
						t.Fatalf("round %d, %d blocks, shift %v: %v, want %v", round, n, shift, got, want)
					}
				}
				for i, w := range c.Weights(n, shift) {
					if (w == w) != (weights[i] == weights[i]) || math.Abs(w-weights[i]) > 1e-9 {
						t.Fatalf("round %d: weight %d is %v, want %v", round, i, w, weights[i])
					}
				}
				if got, want := len(c.Weights(n, shift)), len(weights); got != want {
					t.Fatalf("%d weights, want %d", got, want)
				}
			}
		}
		if c.Scores(0, 0) != nil || c.Weights(0, 0) != nil {
			t.Error("no blocks have scores")
		}
		if c.Side(0) != int(in.Side[0]) {
			t.Errorf("the first trial is of side %d", c.Side(0))
		}
	}
}

// Results are recomputed from run folders years later: the estimates must stay what they
// are. Computed with this package when its verdicts were calibrated (docs/method/statistics.md).
func TestEstimatesStay(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 2))
	for _, x := range []struct {
		blocks           int
		shift, level     float64
		value, lo, hi    float64
		qvalue, qlo, qhi float64
	}{
		{8, 0, 0.95, -0.0034825101, -0.0243564222, 0.0081277406, -0.0034825101, -0.0240987195, 0.0085274656},
		{12, 0.03, 0.9, 0.0390844345, 0.0253201954, 0.0537354550, 0.0390844345, 0.0255818444, 0.0531213404},
		{20, -0.2, 0.99, -0.2007526663, -0.2182097342, -0.1861523900, -0.2007526663, -0.2198509970, -0.1855588828},
		{30, 0.02, 0.5, 0.0146280516, 0.0109260653, 0.0189496592, 0.0146280516, 0.0107755781, 0.0190533778},
		{60, 0.1, 0.95, 0.1035724733, 0.0965810121, 0.1101878746, 0.1035724733, 0.0962968064, 0.1101062030},
		{61, 0.1, 0.95, 0.0992743966, 0.0921487334, 0.1063054607, 0.0992743966, 0.0921487334, 0.1063054607},
		{90, 0, 0.99, 0.0002834314, -0.0055571411, 0.0057687157, 0.0002834314, -0.0055571411, 0.0057687157},
	} {
		c := NewContrast(mirrored(r, x.blocks, x.shift))
		e, q := c.Estimate(x.blocks, x.level, 0, 0.02), c.Quick(x.blocks, x.level)
		for i, pair := range [][2]float64{{e.Value, x.value}, {e.Lo, x.lo}, {e.Hi, x.hi}, {q.Value, x.qvalue}, {q.Lo, x.qlo},
			{q.Hi, x.qhi}} {
			if !(math.Abs(pair[0]-pair[1]) < 1e-9) {
				t.Errorf("{%d, %v, %v, %.10f, %.10f, %.10f, %.10f, %.10f, %.10f}, number %d", x.blocks, x.shift, x.level, e.Value,
					e.Lo, e.Hi, q.Value, q.Lo, q.Hi, i)
				break
			}
		}
		if e.Exact != (x.blocks <= 60) || e.N != x.blocks || e.Level != x.level || e.Actual < x.level-0.001 {
			t.Errorf("%d blocks: %+v", x.blocks, e)
		}
	}
}

// The bounds lie where the test of a difference begins to reject it, and it is exact on which
// side of them a mark lies.
func TestBoundsAreWhereTheTestRejects(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 4))
	tried, missed := 0, 0
	for range 30 {
		blocks := 7 + r.IntN(10)
		c := NewContrast(mirrored(r, blocks, 0.1*r.NormFloat64()))
		level := []float64{0.5, 0.9, 0.98}[r.IntN(3)]
		k, p, _ := walshRank(blocks, (1-level)/2)
		e := c.Estimate(blocks, level)
		width := e.Hi - e.Lo
		if !near(e.Actual, 1-2*p, 1e-15) || !(width > 0) || math.IsInf(width, 0) {
			t.Fatalf("%+v", e)
		}
		for _, x := range []struct {
			shift float64
			want  int
		}{
			{e.Lo - 0.03*width, -1}, {e.Lo + 0.03*width, 0}, {e.Hi - 0.03*width, 0}, {e.Hi + 0.03*width, 1},
			{e.Lo - 100, -1}, {e.Hi + 100, 1},
		} {
			s := c.Stand(blocks, x.shift)
			if s.rankAt(k) != s.At(level) {
				t.Fatalf("%v is at %d by its rank and at %d by its level", x.shift, s.rankAt(k), s.At(level))
			}
			if tried++; s.At(level) != x.want {
				missed++
			}
		}
		for i := range 8 { // around both bounds, closer than the precision
			m := []float64{e.Lo, e.Hi}[i%2] + 0.01*width*r.NormFloat64()
			e := c.Estimate(blocks, level, m)
			if (e.Lo <= m && m <= e.Hi) != (c.Stand(blocks, m).At(level) == 0) {
				t.Fatalf("the mark %v is on the wrong side of a bound of [%v, %v]", m, e.Lo, e.Hi)
			}
		}
	}
	// Weights change with the shift, so a difference close to a bound may be rejected inside of it.
	if missed > tried/50 {
		t.Errorf("%d of %d differences are on the wrong side of a bound", missed, tried)
	}
}

// One side fails in so many blocks that a bound, or the estimate, is infinite.
func TestBoundsOfFailures(t *testing.T) {
	r := rand.New(rand.NewPCG(45, 5))
	const blocks = 10
	for failing := range blocks + 1 {
		for _, side := range []int8{1, -1} {
			in := mirrored(r, blocks, 0)
			for i := range in.Value {
				if in.Side[i] == side && i < 4*failing {
					in.Value[i] = math.Inf(1)
				}
			}
			e := NewContrast(in).Estimate(blocks, 0.9, 0)
			lo, hi := e.Lo, e.Hi
			if side < 0 {
				lo, hi = -e.Hi, -e.Lo
			}
			// At 90 % the 11th average counts from either end (Wilcoxon's critical value is 10).
			// With f failures, f·blocks − f(f−1)/2 averages are infinite.
			infinite := failing*blocks - failing*(failing-1)/2
			if math.IsInf(hi, 1) != (infinite >= 11) || math.IsInf(lo, 1) != (55-infinite < 11) || math.IsInf(lo, -1) {
				t.Errorf("%d blocks of side %d fail: %+v", failing, side, e)
			}
			if math.IsInf(e.Value, 0) != (infinite >= 28) || e.Value < e.Lo || e.Value > e.Hi {
				t.Errorf("%d blocks of side %d fail: %+v", failing, side, e)
			}
		}
	}
}

// The statistics count each pairwise average on its side of zero.
func TestAboveBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(47, 6))
	for range 50 {
		xs := make([]float64, r.IntN(9))
		for i := range xs {
			xs[i] = math.Round(3 * r.NormFloat64())
		}
		above, below := 0, 0
		for i, a := range xs {
			for _, b := range xs[i:] {
				switch {
				case a+b > 0:
					above++
				case a+b < 0:
					below++
				case a != 0: // a tie of opposite signs counts against both
					above++
					below++
				}
			}
		}
		// Ties of equal magnitude with opposite signs are counted as documented: the larger
		// count is that of the closed interval.
		a, b := aboveBelow(slices.Clone(xs))
		if a > above || b > below || a+b > above+below {
			t.Errorf("%v: %d above and %d below, at most %d and %d", xs, a, b, above, below)
		}
		slices.SortFunc(xs, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
		distinct := true
		for i := 1; i < len(xs); i++ {
			distinct = distinct && math.Abs(xs[i]) != math.Abs(xs[i-1])
		}
		if distinct && (a != above || b != below) {
			t.Errorf("%v: %d above and %d below, want %d and %d", xs, a, b, above, below)
		}
	}
	for _, x := range []struct {
		xs           []float64
		above, below int
	}{
		{[]float64{0, 0, 1}, 3, 0}, {[]float64{2, -2}, 1, 1}, {[]float64{-1, -1, 3}, 3, 3}, {[]float64{1, 1, -1, 0}, 5, 2},
	} {
		if a, b := aboveBelow(slices.Clone(x.xs)); a != x.above || b != x.below {
			t.Errorf("%v: %d above and %d below, want %d and %d", x.xs, a, b, x.above, x.below)
		}
	}
}

// plainWalsh is the estimate and the interval between the kth averages from the definition.
// An average of +Inf and −Inf counts against both bounds, and as 0 in the estimate.
func plainWalsh(xs []float64, k int) (value, lo, hi float64) {
	list := func(clash float64) []float64 {
		var out []float64
		for i, a := range xs {
			for _, b := range xs[i:] {
				m := a/2 + b/2
				if m != m {
					m = clash
				}
				out = append(out, m)
			}
		}
		slices.Sort(out)
		return out
	}
	zero := list(0)
	m := len(zero)
	value = zero[(m-1)/2]/2 + zero[m/2]/2
	if value != value {
		value = 0
	}
	return value, list(math.Inf(-1))[k-1], list(math.Inf(1))[m-k]
}

// Hodges–Lehmann with infinities is that of the definition, for few values and for many.
func TestHodgesLehmannWithInfinities(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 7))
	for round := range 200 {
		n := 1 + r.IntN(50)
		if round%2 == 0 {
			n = 1 + r.IntN(12)
		}
		xs := make([]float64, n)
		share := []float64{0, 0.2, 0.5, 1}[r.IntN(4)]
		for i := range xs {
			xs[i] = math.Round(10 * r.NormFloat64())
			if r.Float64() < share {
				xs[i] = math.Inf(1 - 2*(r.IntN(4)/3)) // more at the top
			}
		}
		for _, level := range []float64{0.1, 0.5, 0.9, 0.99} {
			e := HodgesLehmann(xs, level)
			k, p, _ := walshRank(n, (1-level)/2)
			if e.N != n || e.Level != level || !e.Exact {
				t.Fatalf("%+v of %d values", e, n)
			}
			if k == 0 {
				if e.Lo != math.Inf(-1) || e.Hi != math.Inf(1) || e.Actual != 1 || len(e.Warnings) != 1 {
					t.Fatalf("too few: %+v", e)
				}
				continue
			}
			value, lo, hi := plainWalsh(xs, k)
			if e.Value != value || e.Lo != lo || e.Hi != hi || e.Actual != 1-2*p || len(e.Warnings) != 0 {
				t.Fatalf("%v at %v: %+v, want %v in [%v, %v]", xs, level, e, value, lo, hi)
			}
			w := NewWalsh(xs)
			if m := w.Median(); m != value {
				t.Fatalf("%v: median %v, want %v", xs, m, value)
			}
			if again := w.Interval(level); again.Lo != lo || again.Hi != hi { // after the averages were reordered
				t.Fatalf("%v: asked again: %+v", xs, again)
			}
		}
	}
	if e := HodgesLehmann([]float64{1, math.NaN(), 2}, 0.9); e.Value == e.Value || !math.IsInf(e.Lo, -1) ||
		!math.IsInf(e.Hi, 1) || len(e.Warnings) != 1 || e.Actual != 1 {
		t.Errorf("not a number: %+v", e)
	}
	if m := NewWalsh(nil).Median(); m == m {
		t.Errorf("the median of nothing is %v", m)
	}
	if m := mean2(math.MaxFloat64, math.MaxFloat64); m != math.MaxFloat64 {
		t.Errorf("the mean of the largest numbers is %v", m)
	}
}

// The keys of floats have the order of floats.
func TestKey(t *testing.T) {
	xs := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 1,
		1.5,
		math.MaxFloat64, math.Inf(1)}
	for i, x := range xs {
		if keyFloat(floatKey(x)) != x {
			t.Errorf("%v becomes %v", x, keyFloat(floatKey(x)))
		}
		if i > 0 && floatKey(xs[i-1]) >= floatKey(x) {
			t.Errorf("%v is not below %v", xs[i-1], x)
		}
	}
	if floatKey(math.Copysign(0, -1)) != floatKey(0) {
		t.Error("−0 is not 0")
	}
}

func TestSelectKth(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 8))
	for range 300 {
		xs := make([]float64, 1+r.IntN(30))
		for i := range xs {
			xs[i] = float64(r.IntN(10))
			if r.IntN(8) == 0 {
				xs[i] = math.Inf(1 - 2*r.IntN(2))
			}
		}
		sorted := slices.Sorted(slices.Values(xs))
		for k, want := range sorted {
			in := slices.Clone(xs)
			if got := selectKth(in, k); got != want {
				t.Fatalf("number %d of %v is %v, want %v", k, xs, got, want)
			}
			if slices.Sort(in); !slices.Equal(in, sorted) {
				t.Fatalf("%v became %v", xs, in)
			}
		}
	}
}
