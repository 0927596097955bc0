package mirror

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// A speed that falls at a constant rate does not change a ratio, and few blocks have no
// interval.
func TestBlocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for n, want := range map[int]string{4: "2.00, no interval: 4 blocks are too few",
		8: "2.00, interval 2.00 to 2.00 from 8 blocks"} {
		speed, calls, last := 1.0, map[bool]int{}, 0
		e, err := Blocks(n, rnd, func(block int, ours bool) (float64, error) {
			speed *= 1.1
			calls[ours]++
			last = block
			if ours {
				return 2 * speed, nil
			}
			return speed, nil
		})
		if err != nil || calls[true] != 2*n || calls[false] != 2*n || last != n {
			t.Fatalf("%d blocks: %v, %v, last block %d", n, err, calls, last)
		}
		if got := Text(e, 2, n, "blocks"); got != want {
			t.Errorf("%d blocks: %q, want %q", n, got, want)
		}
		if i := Inverse(e); math.Abs(math.Exp(i.Value)-0.5) > 1e-9 || i.Lo > i.Hi {
			t.Errorf("the inverse is %+v", i)
		}
	}
	stop := errors.New("stop")
	if _, err := Blocks(3, rnd, func(int, bool) (float64, error) { return 0, stop }); err != stop {
		t.Errorf("%v, want the error", err)
	}
}
