package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"bakeoff/judge/noise"
)

// replay is a run of random mirrored blocks in a noise, with the true log
// effects of the contenders after the baseline on each cell.
func replay(f noise.Family, r *rand.Rand, blocks int, effects [][]float64) Data {
	names := []string{"a", "b", "c", "d", "e", "f"}[:len(effects)+1]
	cells := len(effects[0])
	d := world(0, names, cells, nil)
	n := f.Start(r)
	for b := range blocks {
		position := 0
		instance := make([]float64, len(names))
		for i := range instance {
			instance[i] = n.Instance()
		}
		for k := range cells {
			order := r.Perm(len(names))
			for i := range 2 * len(order) {
				c := order[min(i, 2*len(order)-1-i)]
				level := instance[c]
				if c > 0 {
					level += effects[c-1][k]
				}
				d.Observations = append(d.Observations, observation(b, position, names[c], d.Cells[k], math.Exp(n.Trial(level, i))))
				position++
			}
		}
	}
	return d
}

// tally replays a run many times and counts what the analysis says.
type tally struct {
	runs, wrong, different, equal, covered, trials int
}

func count(t *testing.T, f noise.Family, seed uint64, runs int, effects [][]float64) tally {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 99))
	out := tally{runs: runs}
	for range runs {
		res := Analyse(replay(f, r, looks[len(looks)-1], effects))
		wrong, different, equal, covered, used := false, false, false, true, 0
		for _, c := range res.Comparisons {
			e := effects[c.Contender[0]-'b'][c.Cell[1]-'0']
			differs := c.Verdict == Better || c.Verdict == Worse
			different = different || differs
			equal = equal || c.Verdict == Equivalent
			wrong = wrong || differs && e == 0 || c.Verdict == Better && e > 0 || c.Verdict == Worse && e < 0 ||
				c.Verdict == Equivalent && math.Abs(e) > math.Log(1.02)
			covered = covered && math.Log(*c.CI[0]) <= e && e <= math.Log(*c.CI[1])
			used = max(used, c.Blocks)
		}
		out.wrong += one(wrong)
		out.different += one(different)
		out.equal += one(equal)
		out.covered += one(covered)
		out.trials += 2 * (len(effects) + 1) * used
	}
	return out
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (a tally) share(n int) float64 { return float64(n) / float64(a.runs) }

// times is how often a replay is made: fewer where tests are to be quick.
func times(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// The bounds are four standard errors away from what the design promises, so
// that a valid one passes whatever the seed.
func TestFalseAlarms(t *testing.T) {
	runs := times(500)
	for i, f := range noise.Families {
		got := count(t, f, uint64(i), runs, [][]float64{{0}})
		if s := got.share(got.wrong); s > 0.05+4*math.Sqrt(0.05*0.95/float64(runs)) {
			t.Errorf("%s: %.1f %% of A/A runs were called different", f.Name, 100*s)
		}
	}
}

func TestFalseAlarmsOfFamilies(t *testing.T) {
	runs := times(400)
	for name, effects := range map[string][][]float64{
		"4 cells, nothing differs":   {{0, 0, 0, 0}},
		"4 cells, half differ":       {{0.1, 0, 0, -0.1}},
		"5 contenders, one differs":  {{0}, {0}, {0.1}, {0}, {0}},
		"just outside of the margin": {{0.0199, -0.0199, 0.0199}},
	} {
		got := count(t, noise.Reference, 7, runs, effects)
		if s := got.share(got.wrong); s > 0.05+4*math.Sqrt(0.05*0.95/float64(runs)) {
			t.Errorf("%s: %.1f %% of runs had a wrong verdict", name, 100*s)
		}
	}
}

func TestPowerAndCoverage(t *testing.T) {
	runs := times(500)
	last := 0.0
	for _, c := range []struct{ effect, least float64 }{{0.01, 0.10}, {0.02, 0.80}, {0.05, 0.97}, {0.10, 0.97}} {
		got := count(t, noise.Reference, 11, runs, [][]float64{{c.effect}})
		power := got.share(got.different)
		t.Logf("%2.0f %%: power %.3f, equivalent %.3f, trials %.1f, coverage %.3f", 100*c.effect, power, got.share(got.equal),
			float64(got.trials)/float64(runs), got.share(got.covered))
		if power < c.least || power < last-0.05 {
			t.Errorf("a slow-down of %v is seen in %.3f of runs", c.effect, power)
		}
		if s := got.share(got.covered); s < 0.95-4*math.Sqrt(0.05*0.95/float64(runs)) {
			t.Errorf("a slow-down of %v: intervals cover it in %.3f of runs", c.effect, s)
		}
		last = power
	}
}
