package site

import (
	"cmp"
	"slices"
)

// relate gives each post those that share the most tags with it, the newest first among
// equals.
func relate(s *section, most int) {
	place := make(map[*entry]int32, len(s.posts))
	for i, e := range s.posts {
		place[e] = int32(i)
	}
	// Places instead of pointers: a tag with all posts is counted a hundred million times
	// on a site with ten thousand.
	members := make(map[*group][]int32, len(s.tags))
	for _, t := range s.tags {
		list := make([]int32, len(t.entries))
		for i, e := range t.entries {
			list[i] = place[e]
		}
		members[t] = list
	}
	shared := make([]int32, len(s.posts))
	var touched []int32
	for i, e := range s.posts {
		touched = touched[:0]
		for _, t := range e.tags {
			for _, j := range members[t] {
				if shared[j]++; shared[j] == 1 {
					touched = append(touched, j)
				}
			}
		}
		e.related = pick(s.posts, touched, shared, int32(i), most)
		for _, j := range touched {
			shared[j] = 0
		}
	}
}

// pick returns the best of the touched posts, without self.
func pick(posts []*entry, touched, shared []int32, self int32, most int) []*entry {
	before := func(x, y int32) int { return cmp.Or(cmp.Compare(shared[y], shared[x]), cmp.Compare(x, y)) }
	best := make([]int32, 0, most+1)
	for _, j := range touched {
		if j == self || len(best) == most && before(j, best[most-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, j, before)
		best = slices.Insert(best, at, j)
		best = best[:min(len(best), most)]
	}
	out := make([]*entry, len(best))
	for i, j := range best {
		out[i] = posts[j]
	}
	return out
}
