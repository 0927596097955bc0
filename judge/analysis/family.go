package analysis

import (
	"fmt"
	"slices"
	"sync"

	"bakeoff/judge/stats"
)

// spendingLooks returns the looks that have an alpha.
func (d *Data) spendingLooks() []int { return d.Looks[:min(len(d.Looks), len(d.Alphas))] }

// decideFamily performs the looks of one family in the order of its blocks, and shares
// the alpha of each look as the package comment describes. size is the number of
// comparisons of the family that can get a verdict.
func (d *Data) decideFamily(family []*draft, size int) {
	looks := d.spendingLooks()
	// A comparison reaches a look with the block that completes its count.
	var moments []int
	for _, c := range family {
		for _, l := range looks {
			if l > 0 && l <= len(c.blocks) {
				moments = append(moments, c.blocks[l-1].index)
			}
		}
	}
	slices.Sort(moments)
	for _, c := range family {
		c.family = max(1, size)
	}
	different, equal := 0, 0
	memo := map[int][]float64{}
	levels := func(share int) []float64 {
		if memo[share] == nil {
			memo[share] = d.lookLevels(looks, float64(share))
		}
		return memo[share]
	}
	for _, c := range family {
		c.exactly()
	}
	for _, now := range slices.Compact(moments) {
		for _, c := range family {
			c.advance(looks, now)
		}
		// Each verdict raises the level of the remaining comparisons: repeat
		// until there is no further verdict.
		for again := true; again; {
			again = false
			differ, same := levels(size-different), levels(size-equal)
			for _, c := range family {
				if c.closed || c.look < 0 {
					continue
				}
				v := c.verdictAtLevels(differ[c.look], same[c.look])
				if v == Inconclusive {
					continue
				}
				c.closed, c.Verdict, again = true, v, true
				if v == Equivalent {
					equal++
				} else {
					different++
				}
			}
		}
	}
	for _, c := range family {
		c.fillComparison(d)
	}
}

// boundaries caches the levels of designs.
var boundaries sync.Map

// lookLevels returns the nominal level of each look if share comparisons divide the
// alphas. Half a share doubles them: then each bound of an interval errs with alpha.
func (d *Data) lookLevels(looks []int, share float64) []float64 {
	spend := make([]float64, len(looks))
	for k := range looks {
		spend[k] = d.Alphas[k] / share
	}
	key := fmt.Sprint(looks, spend)
	if l, ok := boundaries.Load(key); ok {
		return l.([]float64)
	}
	l := stats.Boundaries(looks, spend)
	boundaries.Store(key, l)
	return l
}

// advance performs the last look that c has reached with block now.
func (c *draft) advance(looks []int, now int) {
	if c.closed {
		return
	}
	next := c.look
	for k := c.look + 1; k < len(looks); k++ {
		if l := looks[k]; l > 0 && l <= len(c.blocks) && c.blocks[l-1].index <= now {
			next = k
		}
	}
	if next > c.look {
		c.performLook(next, looks[next])
	}
}
