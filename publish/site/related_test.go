package site

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Counting pairs of tags finds the same posts as counting tags.
func TestRelatedPostsByPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		s := &section{}
		for i := range 1 + r.IntN(8) {
			s.tags = append(s.tags, &group{label: fmt.Sprint(i)})
		}
		for range 40 {
			e := &entry{}
			for _, at := range r.Perm(len(s.tags))[:r.IntN(min(5, len(s.tags)+1))] {
				e.tags = append(e.tags, s.tags[at])
			}
			s.posts = append(s.posts, e)
		}
		rel := newRelation(s)
		pairs := rel.tagPairs()
		for i := range s.posts {
			most := 1 + round%5
			byTags, byPairs := rel.byTags(int32(i), most), rel.byPairs(pairs, int32(i), most)
			if !slices.Equal(byTags, byPairs) {
				t.Fatalf("round %d, post %d: by tags %v, by pairs %v", round, i, byTags, byPairs)
			}
		}
	}
}
