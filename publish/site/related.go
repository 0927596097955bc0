package site

import (
	"cmp"
	"slices"

	"bakeoff/base/lists"
)

// relatePosts gives each post those that share the most tags with it, the newest first among
// equals.
func relatePosts(s *section, most int) {
	r := newRelation(s)
	pairs := r.tagPairs()
	for i, e := range s.posts {
		var best []int32
		if pairs == nil {
			best = r.byTags(int32(i), most)
		} else {
			best = r.byPairs(pairs, int32(i), most)
		}
		e.related = make([]*entry, len(best))
		for k, j := range best {
			e.related[k] = s.posts[j]
		}
	}
}

// relation is posts by their tags. Posts are places in the list, the newest first, and tags
// are numbers: a tag with many posts is read often.
type relation struct {
	tags    [][]int32 // of each post, in order
	members [][]int32 // of each tag, the newest first
	shared  []int32   // with the post that is looked at: tags, or pairs of tags
	touched []int32   // posts that share something
}

func newRelation(s *section) *relation {
	r := &relation{tags: make([][]int32, len(s.posts)), shared: make([]int32, len(s.posts)),
		members: make([][]int32, len(s.tags))}
	number := make(map[*group]int32, len(s.tags))
	for i, t := range s.tags {
		number[t] = int32(i)
	}
	for i, e := range s.posts {
		for _, t := range e.tags {
			r.tags[i] = append(r.tags[i], number[t])
		}
		slices.Sort(r.tags[i])
		r.tags[i] = slices.Compact(r.tags[i])
		for _, t := range r.tags[i] {
			r.members[t] = append(r.members[t], int32(i))
		}
	}
	return r
}

// mostPairs bounds the pairs of tags of all posts. Where there are more, tags are counted.
const mostPairs = 4 << 20

// tagPairs returns the posts of each pair of tags; nil if there are too many. A pair has far
// fewer posts than a tag: on a site with ten thousand posts, all of one tag would be
// counted a hundred million times.
func (r *relation) tagPairs() map[[2]int32][]int32 {
	n := lists.Sum(r.tags, func(tags []int32) int { return len(tags) * (len(tags) - 1) / 2 })
	if n > mostPairs {
		return nil
	}
	out := map[[2]int32][]int32{}
	for i, tags := range r.tags {
		for k, a := range tags {
			for _, b := range tags[k+1:] {
				out[[2]int32{a, b}] = append(out[[2]int32{a, b}], int32(i))
			}
		}
	}
	return out
}

// byPairs returns the posts that share the most pairs of tags with a post, and then the
// newest that share one tag. Who shares more pairs shares more tags.
func (r *relation) byPairs(pairs map[[2]int32][]int32, self int32, most int) []int32 {
	tags := r.tags[self]
	for k, a := range tags {
		for _, b := range tags[k+1:] {
			r.touchPosts(pairs[[2]int32{a, b}])
		}
	}
	best := r.pickBest(self, most)
	heads := make([]int, len(tags))
	for len(best) < most {
		next := int32(-1)
		for k, t := range tags {
			list := r.members[t]
			for heads[k] < len(list) && (list[heads[k]] == self || slices.Contains(best, list[heads[k]])) {
				heads[k]++
			}
			if heads[k] < len(list) && (next < 0 || list[heads[k]] < next) {
				next = list[heads[k]]
			}
		}
		if next < 0 {
			break
		}
		best = append(best, next)
	}
	return best
}

// byTags returns the posts that share the most tags with a post.
func (r *relation) byTags(self int32, most int) []int32 {
	for _, t := range r.tags[self] {
		r.touchPosts(r.members[t])
	}
	return r.pickBest(self, most)
}

func (r *relation) touchPosts(list []int32) {
	for _, j := range list {
		if r.shared[j]++; r.shared[j] == 1 {
			r.touched = append(r.touched, j)
		}
	}
}

// pickBest returns the best of the touched posts, without self, and forgets all of them.
func (r *relation) pickBest(self int32, most int) []int32 {
	before := func(x, y int32) int { return cmp.Or(cmp.Compare(r.shared[y], r.shared[x]), cmp.Compare(x, y)) }
	best := make([]int32, 0, most+1)
	for _, j := range r.touched {
		if j == self || len(best) == most && before(j, best[most-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, j, before)
		best = slices.Insert(best, at, j)
		best = best[:min(len(best), most)]
	}
	for _, j := range r.touched {
		r.shared[j] = 0
	}
	r.touched = r.touched[:0]
	return best
}
