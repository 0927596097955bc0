package audit

import (
	"fmt"
	"math"

	"bakeoff/judge/stats"
)

// What is allowed for where a table gives no spread.
const (
	// plausible is the share by which two measurements of the same thing may
	// differ, by convention: the order of linking and the size of the
	// environment move results that far, and reverse them (Mytkowicz et al.,
	// Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS
	// 2009).
	plausible = 0.05
	// gross is a ratio that noise on a working machine cannot cause, even in a
	// single run.
	gross = 2
)

var noiseCheck = Check{
	Name: "noise",
	Doc: "Is the difference larger than the differences between runs? If the article gives a spread and a number of " +
		"runs, Student's t-test decides. A difference of a factor of 2 needs no test. If the article gives no spread, a " +
		"difference below 5 % counts as a tie by convention: another link order or more environment variables can " +
		"change results by 5 % (Mytkowicz et al. 2009). Without repetitions, nobody knows whether a difference " +
		"between 5 % and a factor of 2 is real. To show equality, an article needs repetitions, and the interval " +
		"of the difference must lie inside a margin.",
	claim: func(t *Table, c *comparison) []Reason {
		o := c.outcome
		if o.detail == "" || !o.holds {
			return nil
		}
		reps := t.Experiment.Repetitions
		cv, of := t.spreadOf(c)
		switch {
		case c.Relation == "equal" || c.Relation == "ratio" && o.gap < 1+plausible:
			return sameness(reps, cv, o.gap)
		case o.gap == 0:
			return because(Undoes, "%s: it is unknown whether this difference is more than noise", unrepeated(reps))
		case cv > 0 && reps.N >= 2:
			return byStudent(reps.N, cv, of, o.gap)
		case o.gap-1 <= plausible:
			return because(Undoes, "the difference of %s may be noise: runs of the same thing differ by up to %s",
				percent(o.gap-1), percent(plausible))
		case o.gap < gross:
			return because(Undoes, "%s: it is unknown whether %s is more than noise", unrepeated(reps), percent(o.gap-1))
		}
		return because(Qualifies, "%s; a factor of %s exceeds plausible noise, but its size is uncertain", unrepeated(reps),
			timesText(o.gap))
	},
	table: func(t *Table) []string {
		e := t.Experiment
		if len(t.Claims) == 0 || e.Repetitions.N >= 2 && len(e.Spread) > 0 {
			return nil
		}
		return []string{unrepeated(e.Repetitions)}
	},
}

func unrepeated(c Count) string {
	switch {
	case c.Several:
		return "no repetitions are given: it was run several times, but the article gives neither the number of runs nor " +
			"their spread"
	case c.N == 1:
		return "no repetitions: it was run once"
	case c.N > 1:
		return fmt.Sprintf("%d runs, but their spread is not given", c.N)
	}
	return "no repetitions are given, and no spread"
}

func sameness(reps Count, cv, gap float64) []Reason {
	if reps.N < 2 || cv == 0 {
		return because(Undoes, "%s: similar figures do not show that the systems are equal", unrepeated(reps))
	}
	half := errorMargin(reps.N, cv)
	if gap-1+half > plausible {
		return because(Undoes, "with %d runs and a spread of %s the difference has an uncertainty of ± %s, which is too "+
			"wide to call them equal", reps.N, percent(cv), percent(half))
	}
	return nil
}

// errorMargin is two standard errors of a difference of means of n runs each.
func errorMargin(n int, cv float64) float64 { return 2 * cv * math.Sqrt(2/float64(n)) }

// byStudent tests a ratio of two means of n runs each whose coefficient of
// variation is cv.
func byStudent(n int, cv float64, of string, gap float64) []Reason {
	said := fmt.Sprintf("%d runs with a spread of %s", n, percent(cv))
	if of != "" {
		said += " (" + of + ")"
	}
	// The difference relative to the mean of both: both spreads are shares.
	d := 2 * (gap - 1) / (gap + 1)
	p := stats.StudentP(d/(cv*math.Sqrt(2/float64(n))), float64(2*n-2))
	if p >= 0.05 {
		return because(Undoes, "the difference of %s is within the noise: %s mean an uncertainty of ± %s (p = %.2g)",
			percent(gap-1), said, percent(errorMargin(n, cv)), p)
	}
	return because(Agrees, "%s: the difference of %s exceeds the noise (p = %.2g)", said, percent(gap-1), p)
}

// spreadOf returns the largest published coefficient of variation that bears
// on c, or 0.
func (t *Table) spreadOf(c *comparison) (cv float64, of string) {
	for _, s := range t.Experiment.Spread {
		if c.inScope(s.Rows, s.Columns) && s.CV > cv {
			cv, of = s.CV, s.Of
		}
	}
	return cv, of
}

var trimCheck = Check{
	Name: "trim",
	Doc: "A trimmed mean of few runs can equal the plain mean. For example, 10 % of 5 runs is half a run at each " +
		"end, so no run is removed (R, mean: floor(n × trim)).",
	table: func(t *Table) []string {
		n, s := t.Experiment.Repetitions.N, t.Experiment.Summary
		if n < 2 || s.Trim == 0 || math.Floor(float64(n)*s.Trim) > 0 {
			return nil
		}
		return oneFinding("the trimmed mean equals the plain mean: of %d runs, %s at each end is less than one run", n,
			percent(s.Trim))
	},
}
