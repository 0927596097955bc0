package load

import "math/rand/v2"

// schedule is the intended send times of an open loop, in nanoseconds from the
// start of the timed part. It does not depend on the server.
type schedule struct {
	next  int64 // of the request that is due next
	gap   float64
	count float64
	rng   *rand.Rand // nil for constant spacing
	at    float64
}

// newSchedule returns one thread's share of rate requests per second over all
// threads. Constant spacing interleaves the threads; with exponential spacing
// each has its own Poisson process, whose union is one, too.
func newSchedule(rate float64, exponential bool, seed uint64, thread, threads int) *schedule {
	s := &schedule{gap: 1e9 * float64(threads) / rate}
	if exponential {
		s.rng = rand.New(rand.NewPCG(seed, uint64(thread)))
		s.at = s.gap * s.rng.ExpFloat64()
	} else {
		s.at = 1e9 * float64(thread) / rate
	}
	s.next = int64(s.at)
	return s
}

// advance moves to the next request.
func (s *schedule) advance() {
	if s.rng != nil {
		s.at += s.gap * s.rng.ExpFloat64()
		s.next = int64(s.at)
		return
	}
	s.count++ // multiplied rather than summed: a sum would drift
	s.next = int64(s.at + s.count*s.gap)
}
