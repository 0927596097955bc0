package countboot

import (
	"context"
	"fmt"
	"slices"

	"bakeoff/base/fault"
)

// Step is a commit that was built and booted.
type Step struct {
	Commit string
	// Cost is how many instructions the boot took. Failed says why it is unknown: the
	// commit could not be built, or its guest did not boot.
	Cost   int64
	Failed string
}

// Search finds the first commit of a line that made the boot longer.
type Search struct {
	// Commits are in the order of the history. The first is good, the last is bad.
	Commits []string
	// Share is how much longer than at the first commit a boot must be to be bad; 0 is
	// half of the way to the last.
	Share float64
	// Cost builds and boots a commit. An error of kind fault.Subject is a property of the
	// commit, which is then skipped; any other one ends the search.
	Cost func(ctx context.Context, commit string) (int64, error)
	// Tell hears of each step; nil is nobody.
	Tell func(Step)

	steps map[int]Step
}

// Found is the result of a search.
type Found struct {
	Good, Bad Step // the ends of the line
	// First is the first commit beyond the limit that was found, and Before the last
	// commit before it that could be measured. Between them are Skipped commits, which
	// could not: First is then the culprit or one of them is.
	First, Before Step
	Skipped       []Step
	Limit         int64 // instructions from which a boot is bad
	Tried         int   // commits that were built
}

// Added is how many instructions the commit added.
func (f Found) Added() int64 { return f.First.Cost - f.Before.Cost }

// Run searches. The line must have two commits at least.
func (s *Search) Run(ctx context.Context) (out Found, err error) {
	s.steps = map[int]Step{}
	lo, hi := 0, len(s.Commits)-1
	if out.Good, err = s.end(ctx, lo); err != nil {
		return out, err
	}
	if out.Bad, err = s.end(ctx, hi); err != nil {
		return out, err
	}
	out.Limit = out.Good.Cost + (out.Bad.Cost-out.Good.Cost+1)/2
	if s.Share > 0 {
		out.Limit = out.Good.Cost + int64(float64(out.Good.Cost)*s.Share) + 1
	}
	if out.Bad.Cost < out.Limit || out.Bad.Cost <= out.Good.Cost {
		return out, fault.WithFix(fault.New(fault.Invalid, "the commit %s boots in %d instructions, and the "+
			"commit %s in %d: the difference does not reach the threshold", s.Commits[lo], out.Good.Cost,
			s.Commits[hi], out.Bad.Cost),
			"name another BAD, or a smaller --threshold")
	}
	for {
		i, ok := s.next(lo, hi)
		if !ok {
			break
		}
		step, err := s.measure(ctx, i)
		switch {
		case err != nil:
			return out, err
		case step.Failed != "":
		case step.Cost >= out.Limit:
			hi = i
		default:
			lo = i
		}
	}
	out.First, out.Before, out.Tried = s.steps[hi], s.steps[lo], len(s.steps)
	for i := lo + 1; i < hi; i++ {
		out.Skipped = append(out.Skipped, s.steps[i])
	}
	return out, nil
}

// next is the commit between two to try: the one next to the middle that was not tried.
func (s *Search) next(lo, hi int) (int, bool) {
	var open []int
	for i := lo + 1; i < hi; i++ {
		if _, tried := s.steps[i]; !tried {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return 0, false
	}
	middle := (lo + hi) / 2
	return slices.MinFunc(open, func(a, b int) int { return max(a-middle, middle-a) - max(b-middle, middle-b) }), true
}

// end measures an end of the line, which cannot be skipped.
func (s *Search) end(ctx context.Context, i int) (Step, error) {
	step, err := s.measure(ctx, i)
	if err == nil && step.Failed != "" {
		err = fault.New(fault.Invalid, "%s: %s", step.Commit, step.Failed)
	}
	return step, err
}

// measure measures a commit once.
func (s *Search) measure(ctx context.Context, i int) (Step, error) {
	if step, known := s.steps[i]; known {
		return step, nil
	}
	step := Step{Commit: s.Commits[i]}
	cost, err := s.Cost(ctx, step.Commit)
	switch {
	case ctx.Err() != nil:
		return step, ctx.Err()
	case fault.Is(err, fault.Subject):
		step.Failed = err.Error()
	case err != nil:
		return step, fmt.Errorf("%s: %w", step.Commit, err)
	}
	step.Cost = cost
	s.steps[i] = step
	if s.Tell != nil {
		s.Tell(step)
	}
	return step, nil
}
