// Command subject computes for about 40 ms. Package bench/gate builds it twice: the second
// build does more of the same work.
package main

import "fmt"

// units is how much it does, a thousand for about 40 ms of CPU time; the linker sets it.
var units = "1000"

func main() {
	n := 0
	fmt.Sscan(units, &n)
	x := uint64(88172645463325252)
	for range n * 20_000 {
		x ^= x << 13 // Marsaglia, Xorshift RNGs, 2003
		x ^= x >> 7
		x ^= x << 17
	}
	fmt.Println(x)
}
