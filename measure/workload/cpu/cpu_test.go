package cpu

import (
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{
		Common: param.Values{"time": "100ms"},
		Cells:  []param.Values{{"max": "1000"}},
	})
}

func TestPrimes(t *testing.T) {
	for limit, want := range map[uint64]int{3: 2, 4: 2, 10: 4, 100: 25, 1000: 168, 20000: 2262, 100000: 9592} {
		if got := countPrimes(limit); got != want {
			t.Errorf("%d primes up to %d, want %d", got, limit, want)
		}
		if got := sievePrimes(limit); got != want {
			t.Errorf("the sieve finds %d primes up to %d, want %d", got, limit, want)
		}
	}
}

// The work of one search grows as limit^1.5 / log limit, because only primes
// are divided up to their root: 2.6 times for twice the limit. A search whose
// inner loop was removed would grow by 2, an empty one not at all.
func TestWorkGrowsWithLimit(t *testing.T) {
	least := func(limit uint64) time.Duration {
		d := time.Hour
		for range 20 {
			from := time.Now()
			countPrimes(limit)
			d = min(d, time.Since(from))
		}
		return d
	}
	var ratio float64
	for range 10 { // noise makes either time too long, never too short
		if ratio = float64(least(40000)) / float64(least(20000)); ratio > 2.3 && ratio < 3 {
			return
		}
	}
	t.Errorf("twice the limit takes %.2f times the time, want about 2.65", ratio)
}
