package crypto

import (
	"crypto/sha256"
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{
		Common: param.Values{"time": "30ms"},
		Cells: []param.Values{
			{"block": "16B"}, {"block": "1B"},
			{"algorithm": "aes-256-gcm"}, {"algorithm": "aes-256-gcm", "block": "16B"},
		},
	})
}

func TestKnownAnswers(t *testing.T) {
	if err := knownAnswers(); err != nil {
		t.Error(err)
	}
}

// The chain of hashes is the one that anyone would compute.
func TestHashingIsAChain(t *testing.T) {
	block := make([]byte, 100)
	h := &hashing{block: append([]byte(nil), block...), before: make([]byte, 100)}
	for _, n := range []int{1, 5, 2} {
		if err := h.do(n); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		s := sha256.Sum256(block)
		copy(block, s[:])
	}
	if [32]byte(block[:32]) != h.last {
		t.Error("eight links end elsewhere")
	}
	if _, err := h.check(); err != nil {
		t.Error(err)
	}
}

func TestChecksNoticeDamage(t *testing.T) {
	h := &hashing{block: make([]byte, 64), before: make([]byte, 64)}
	h.do(3)
	h.last[5] ^= 1
	if _, err := h.check(); err == nil {
		t.Error("a wrong hash passed")
	}
	s := newSealing(make([]byte, 64))
	s.do(3)
	if _, err := s.check(); err != nil {
		t.Error(err)
	}
	s.sealed[5] ^= 1
	if _, err := s.check(); err == nil {
		t.Error("a damaged block passed")
	}
}

// The timed part must not allocate: the garbage collector is off in it.
func TestDoesNotAllocate(t *testing.T) {
	s := newSealing(make([]byte, 1024))
	h := &hashing{block: make([]byte, 1024), before: make([]byte, 1024)}
	for name, w := range map[string]work{"sealing": s, "hashing": h} {
		if n := testing.AllocsPerRun(10, func() { w.do(10) }); n > 0 {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
}
