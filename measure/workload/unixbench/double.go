package unixbench

import (
	"context"
	"fmt"
	"math/big"

	"bakeoff/reach/loop"
)

// terms is the number of terms in a round.
const terms = 100

// double is double-precision arithmetic: each round is a hundred steps of one
// addition, one subtraction, one multiplication and one division, each
// dependent on the previous one.
func double(context.Context, loop.Env) (test, error) {
	want := exactRound()
	return test{
		do: func(n int) error {
			for range n {
				if got := round(); got != want {
					return loop.Mismatch("the result of a round", got, want)
				}
			}
			return nil
		},
		check: func() (string, error) { return fmt.Sprint(want), nil },
		close: func() {},
	}, nil
}

// round does one round. The conversions keep a compiler from fusing a
// multiplication with an addition, which would round once instead of twice: the
// result is the same on every architecture.
//
//go:noinline
func round() float64 {
	x := 1.0
	for i := 1; i <= terms; i++ {
		t := float64(i)
		x = float64(x + t)
		x = float64(x * 1.0625)
		x = float64(x - t/3)
		x = float64(x / (t + 0.5))
	}
	return x
}

// exactRound computes the same result with big.Float: 53 bits, rounded to the
// nearest even after every operation.
func exactRound() float64 {
	number := func(f float64) *big.Float { return new(big.Float).SetPrec(53).SetFloat64(f) }
	op := func(f func(z, x, y *big.Float) *big.Float, x, y *big.Float) *big.Float {
		return f(new(big.Float).SetPrec(53), x, y)
	}
	x := number(1)
	for i := 1; i <= terms; i++ {
		t := number(float64(i))
		x = op((*big.Float).Add, x, t)
		x = op((*big.Float).Mul, x, number(1.0625))
		x = op((*big.Float).Sub, x, op((*big.Float).Quo, t, number(3)))
		x = op((*big.Float).Quo, x, op((*big.Float).Add, t, number(0.5)))
	}
	f, _ := x.Float64()
	return f
}
