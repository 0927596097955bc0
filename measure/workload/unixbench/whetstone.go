package unixbench

import (
	"context"
	"fmt"
	"math"

	"bakeoff/reach/loop"
)

// A pass of the Whetstone benchmark does a million "Whetstone instructions" of Curnow and
// Wichmann: floating-point numbers in variables and in an array, branches, integers,
// trigonometric and other standard functions, and procedure calls, as often as programs of
// the National Physical Laboratory did. A round per second is a MWIPS.

// The constants of the definition.
const (
	whetT, whetT1, whetT2 = 0.499975, 0.50025, 2.0
	whetScale             = 10 // ten times the counts of the definition
)

// whetstones are the printed results of the modules.
type whetstones [8][4]float64

// published are the results that published versions print for ten times the counts, to
// their digits.
var published = whetstones{
	{-6.8342e-02, -4.6264e-01, -7.2972e-01, -1.1240e+00},
	{-5.5336e-02, -4.4744e-01, -7.1097e-01, -1.1031e+00},
	{1.0000e+00, -1.0000e+00, -1.0000e+00, -1.0000e+00},
	{6.0000e+00, 6.0000e+00, -7.1097e-01, -1.1031e+00},
	{4.9041e-01, 4.9041e-01, 4.9039e-01, 4.9039e-01},
	{1.0000e+00, 1.0000e+00, 9.9994e-01, 9.9994e-01},
	{3.0000e+00, 2.0000e+00, 3.0000e+00, -1.1031e+00},
	{8.3467e-01, 8.3467e-01, 8.3467e-01, 8.3467e-01},
}

// whetstone is the test that runs passes.
func whetstone(context.Context, loop.Env) (test, error) {
	want := whetstonePass()
	for i, row := range published {
		for k, v := range row {
			if math.Abs(want[i][k]-v) > 6e-5*math.Max(1, math.Abs(v)) {
				return test{}, loop.Mismatch(fmt.Sprintf("value %d of module %d", k+1, i+1), want[i][k], v)
			}
		}
	}
	return test{
		do: func(n int) error {
			for range n {
				if got := whetstonePass(); got != want {
					return loop.Mismatch("the results of a pass", got, want)
				}
			}
			return nil
		},
		check: func() (string, error) {
			return fmt.Sprintf("the values of all modules are those published: %.5g", want[7][0]), nil
		},
		close: func() {},
	}, nil
}

// whetstonePass is one pass. The modules without work in the definition are left out.
//
//go:noinline
func whetstonePass() (out whetstones) {
	const t, t1, t2 = whetT, whetT1, whetT2
	e := [4]float64{1, -1, -1, -1}
	for range 12 * whetScale { // array elements
		e[0] = (e[0] + e[1] + e[2] - e[3]) * t
		e[1] = (e[0] + e[1] - e[2] + e[3]) * t
		e[2] = (e[0] - e[1] + e[2] + e[3]) * t
		e[3] = (-e[0] + e[1] + e[2] + e[3]) * t
	}
	out[0] = e
	for range 14 * whetScale { // an array as a parameter
		whetArray(&e)
	}
	out[1] = e
	j := 1
	for range 345 * whetScale { // branches
		j = whetBranch(j)
	}
	out[2] = [4]float64{float64(j), -1, -1, -1}
	j, k, l := 1, 2, 3
	for range 210 * whetScale { // integers
		j = j * (k - j) * (l - k)
		k = l*k - (l-j)*k
		l = (l - k) * (k + j)
		e[l-2] = float64(j + k + l)
		e[k-2] = float64(j * k * l)
	}
	out[3] = e
	x, y := 0.5, 0.5
	for range 32 * whetScale { // trigonometric functions
		x = t * math.Atan(t2*math.Sin(x)*math.Cos(x)/(math.Cos(x+y)+math.Cos(x-y)-1))
		y = t * math.Atan(t2*math.Sin(y)*math.Cos(y)/(math.Cos(x+y)+math.Cos(x-y)-1))
	}
	out[4] = [4]float64{x, x, y, y}
	var z float64
	x, y = 1, 1
	for range 899 * whetScale { // procedure calls
		z = whetCall(x, y)
	}
	out[5] = [4]float64{x, y, z, z}
	e[0], e[1], e[2] = 1, 2, 3
	for range 616 * whetScale { // array references
		whetReferences(&e, 0, 1, 2)
	}
	out[6] = e
	x = 0.75
	for range 93 * whetScale { // standard functions
		x = math.Sqrt(math.Exp(math.Log(x) / t1))
	}
	out[7] = [4]float64{x, x, x, x}
	return out
}

//go:noinline
func whetArray(e *[4]float64) {
	const t, t2 = whetT, whetT2
	for range 6 {
		e[0] = (e[0] + e[1] + e[2] - e[3]) * t
		e[1] = (e[0] + e[1] - e[2] + e[3]) * t
		e[2] = (e[0] - e[1] + e[2] + e[3]) * t
		e[3] = (-e[0] + e[1] + e[2] + e[3]) / t2
	}
}

//go:noinline
func whetBranch(j int) int {
	if j == 1 {
		j = 2
	} else {
		j = 3
	}
	if j > 2 {
		j = 0
	} else {
		j = 1
	}
	if j < 1 {
		return 1
	}
	return 0
}

//go:noinline
func whetCall(x, y float64) float64 {
	const t, t2 = whetT, whetT2
	x1 := t * (x + y)
	y1 := t * (x1 + y)
	return (x1 + y1) / t2
}

//go:noinline
func whetReferences(e *[4]float64, j, k, l int) {
	e[j] = e[k]
	e[k] = e[l]
	e[l] = e[j]
}
