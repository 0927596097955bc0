package memory

import (
	"context"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/loop"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{
		Common: param.Values{"time": "30ms", "size": "1MiB"},
		Cells: []param.Values{{"op": "write", "block": "4KiB"}, {"op": "copy", "block": "64KiB"}, {"op": "latency"},
			{"block": "64B"}},
	})
}

// One cycle visits every node, so that the chain cannot fall into a short one
// that fits a cache.
func TestCycleVisitsEveryNode(t *testing.T) {
	for _, n := range []int{2, 3, 64, 10007} {
		nodes := randomCycle(n)
		seen := make([]bool, n)
		at := uint64(0)
		for range n {
			if seen[at] {
				t.Fatalf("of %d nodes, %d is visited twice", n, at)
			}
			seen[at] = true
			at = nodes[at][0]
		}
		if at != 0 {
			t.Errorf("%d loads through %d nodes end at %d", n, n, at)
		}
	}
}

// A chain through more lines than a cache holds is slower than one through
// few: the loads are real, and each waits for the one before.
func TestLatencyGrowsWithSize(t *testing.T) {
	least := func(nodes []node) time.Duration {
		d := time.Hour
		for range 20 {
			from := time.Now()
			chasePointers(nodes, 0, 100_000)
			d = min(d, time.Since(from))
		}
		return d
	}
	small, large := least(randomCycle(64)), least(randomCycle(64<<20/line))
	if large < 2*small {
		t.Errorf("a load takes %v in 64 MiB and %v in 4 KiB", large/100_000, small/100_000)
	}
}

// Damage of the memory must be noticed, or the work may as well not be done.
func TestChecksNoticeDamage(t *testing.T) {
	read := reading(4096)
	if err := read.do(3); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(int64) work{"write": writing, "copy": copying, "latency": chasing} {
		w := make(4096)
		if err := w.do(3); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := w.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := distinctWords(4096)
	before := sumWords(b)
	for i := range b {
		b[i]++
		if sumWords(b) != before+1 {
			t.Fatalf("word %d is not read", i)
		}
		b[i]--
	}
	fillWords(b, 7)
	for i, v := range b {
		if v != 7 {
			t.Fatalf("word %d is not written", i)
		}
	}
}

func TestRefusesPartialLines(t *testing.T) {
	p := param.Values{"op": "read", "block": "100B", "time": "10ms"}
	if _, err := runLoop(context.Background(), p, loop.Env{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("error is %v", err)
	}
}
