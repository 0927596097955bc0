package countboot

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// line is n commits of which the one at culprit, and all after it, cost more.
func line(n, culprit int, good, more int64) (s Search, costs func(string) int64) {
	costs = func(commit string) int64 {
		var i int
		fmt.Sscanf(commit, "c%d", &i)
		if i >= culprit {
			return good + more
		}
		return good
	}
	for i := range n {
		s.Commits = append(s.Commits, fmt.Sprintf("c%d", i))
	}
	s.Cost = func(_ context.Context, c string) (int64, error) { return costs(c), nil }
	return s, costs
}

func TestSearchFindsEachCulprit(t *testing.T) {
	for n := 2; n <= 33; n++ {
		for culprit := 1; culprit < n; culprit++ {
			s, _ := line(n, culprit, 1_000_000, 5)
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			first, before := fmt.Sprintf("c%d", culprit), fmt.Sprintf("c%d", culprit-1)
			if f.First.Commit != first || f.Before.Commit != before || f.Added() != 5 || len(f.Skipped) != 0 {
				t.Fatalf("%d of %d: %+v", culprit, n, f)
			}
			if most := 2 + bits.Len(uint(n-1)); f.Tried > most {
				t.Errorf("%d of %d: %d commits tried, at most %d are needed", culprit, n, f.Tried, most)
			}
		}
	}
}

// With a threshold, smaller changes before and after do not count.
func TestSearchThreshold(t *testing.T) {
	s, _ := line(10, 6, 1000, 0)
	s.Share = 0.1
	s.Cost = func(_ context.Context, c string) (int64, error) {
		return map[string]int64{"c0": 1000, "c1": 1020, "c2": 1040, "c3": 1040, "c4": 1050, "c5": 1060, "c6": 1300,
			"c7": 1300,
			"c8": 9000, "c9": 9000}[c], nil
	}
	f, err := s.Run(t.Context())
	if err != nil || f.First.Commit != "c6" || f.Added() != 240 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A commit that cannot be measured is skipped; if it is next to the culprit, both are
// named.
func TestSearchSkips(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 3 + r.IntN(30)
		culprit := 1 + r.IntN(n-1)
		s, costs := line(n, culprit, 1000, 100)
		broken := map[string]bool{}
		for i := 1; i < n-1; i++ {
			broken[fmt.Sprintf("c%d", i)] = r.IntN(3) == 0
		}
		s.Cost = func(_ context.Context, c string) (int64, error) {
			if broken[c] {
				return 0, fault.New(fault.Subject, "the build failed")
			}
			return costs(c), nil
		}
		f, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var first, before int
		fmt.Sscanf(f.First.Commit, "c%d", &first)
		fmt.Sscanf(f.Before.Commit, "c%d", &before)
		if before >= culprit || first < culprit || len(f.Skipped) != first-before-1 || f.Added() != 100 {
			t.Errorf("seed %d: culprit %d: found %d after %d, skipped %v", seed, culprit, first, before, f.Skipped)
		}
		for _, k := range f.Skipped {
			if !broken[k.Commit] || k.Failed == "" {
				t.Errorf("seed %d: %+v was skipped", seed, k)
			}
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	s, _ := line(5, 9, 1000, 100)
	_, err := s.Run(t.Context())
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "the difference does not reach the threshold") {
		t.Errorf("no change: %v", err)
	}
	s, _ = line(5, 2, 1000, 100)
	s.Cost = func(_ context.Context, c string) (int64, error) { return 0, fault.New(fault.Subject, "it panics") }
	if _, err := s.Run(t.Context()); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "c0: it panics") {
		t.Errorf("an end that does not boot: %v", err)
	}
	s.Cost = func(_ context.Context, c string) (int64, error) { return 0, errors.New("no disk space") }
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no disk space") {
		t.Errorf("a failure of the lab: %v", err)
	}
}
