package report

import (
	"fmt"
	"math"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// changes says for each comparison of a cell and metric what would change its verdict:
// the margin, the number of blocks, and the checks. All of it is computed from the
// interval that is shown.
func (b *builder) changes(cell, metric string) table {
	t := table{Caption: "What would change the verdicts on " + cell + ", " + metric, Prose: true,
		Head: []string{"contender", "verdict", "margin", "blocks", "checks"},
		Note: "A margin that is chosen after a result proves nothing. Use a new margin for the next run only."}
	for _, c := range b.primary(cell, metric) {
		_, word := markAndWord(c)
		t.Rows = append(t.Rows, []string{c.Contender, word, b.otherMargin(c, word), b.otherBlocks(c, word), b.otherChecks(c)})
	}
	return t
}

// marginsReached are the distances of the ends of an interval from no difference, as margins: the
// nearest is 0 if the interval contains no difference. ok is false if an end is unknown.
func (b *builder) marginsReached(c analysis.Comparison) (nearest, farthest float64, ok bool) {
	lo, hi := boundsToShow(c)
	if lo == nil || hi == nil {
		return 0, 0, false
	}
	from, to := math.Abs(*lo), math.Abs(*hi) // on the scale of margins
	crosses := *lo <= 0 && *hi >= 0
	if c.Scale == sample.Difference {
		size := b.typicalSize(c)
		if !(size > 0) {
			return 0, 0, false
		}
		from, to = from/size, to/size
	} else {
		margin := func(ratio float64) float64 { return max(ratio, 1/ratio) - 1 }
		from, to = margin(*lo), margin(*hi)
		crosses = *lo <= 1 && *hi >= 1
	}
	if nearest = min(from, to); crosses {
		nearest = 0
	}
	return nearest, max(from, to), true
}

// typicalSize is the typical size of the baseline's values; 0 if it is not known.
func (b *builder) typicalSize(c analysis.Comparison) float64 {
	s := b.summaries[[3]string{c.Baseline, c.Cell, c.Metric}]
	if s == nil || s.Median == nil {
		return 0
	}
	return math.Abs(*s.Median)
}

// marginText writes a margin so that it is not on the other side of what it describes.
func marginText(margin float64, up bool) string {
	percent := 100 * margin
	unit := math.Pow(10, math.Floor(math.Log10(max(percent, 1e-9)))-2)
	if up {
		percent = math.Ceil(percent/unit-1e-9) * unit
	} else {
		percent = math.Floor(percent/unit+1e-9) * unit
	}
	return significant(percent, 3) + " %"
}

// otherMargin says which margin would give another verdict.
func (b *builder) otherMargin(c analysis.Comparison, word string) string {
	nearest, farthest, ok := b.marginsReached(c)
	if !ok {
		return "none: the interval has only one end"
	}
	ours := "the margin is " + significant(100*b.results.Margin, 3) + " %"
	switch {
	case word == "equivalent" && nearest > 0:
		return fmt.Sprintf("%s; below %s it would be %s", ours, marginText(farthest, true), b.directed(c))
	case word == "equivalent":
		return fmt.Sprintf("%s; below %s it would be inconclusive", ours, marginText(farthest, true))
	case word == "better" || word == "worse":
		return fmt.Sprintf("%s; from %s on it would be equivalent; the difference exceeds every margin below %s", ours,
			marginText(farthest, true), marginText(nearest, false))
	case c.Look == 0:
		return ours + "; no verdict before the first look"
	}
	return fmt.Sprintf("%s; from %s on it would be equivalent", ours, marginText(farthest, true))
}

// directed is the verdict on an interval that excludes no difference.
func (b *builder) directed(c analysis.Comparison) string {
	lo, _ := boundsToShow(c)
	higher := lo != nil && (c.Scale == sample.Difference && *lo > 0 || c.Scale != sample.Difference && *lo > 1)
	if higher == (c.Better == sample.Higher) {
		return "better"
	}
	return "worse"
}

// otherBlocks says how many blocks would bring a verdict.
func (b *builder) otherBlocks(c analysis.Comparison, word string) string {
	switch {
	case c.MoreBlocks != nil && *c.MoreBlocks > 0:
		return fmt.Sprintf("about %s would decide it with %.0f %% probability", unit.Count(*c.MoreBlocks, "more block"),
			100*stats.Likely)
	case word == "better" || word == "worse" || word == "equivalent":
		return fmt.Sprintf("none: decided at the look after %s", unit.Count(c.Look, "block"))
	case len(c.Gates) > 0:
		return "none: the check would also fail with more blocks"
	case c.Look == 0 && len(b.results.Looks) > 0:
		return fmt.Sprintf("%d of the %d of the first look", c.Blocks, b.results.Looks[0])
	}
	return "no estimate"
}

// otherChecks says what the interval would say without the checks that failed.
func (b *builder) otherChecks(c analysis.Comparison) string {
	if len(c.Gates) == 0 {
		return "all passed"
	}
	names := lists.Map(c.Gates, func(g analysis.Gate) string { return g.Name })
	lo, hi := boundsToShow(c)
	if lo == nil || hi == nil || c.Look == 0 {
		return strings.Join(names, ", ") + " withheld the verdict"
	}
	from, to := *lo, *hi
	if c.Scale != sample.Difference {
		from, to = math.Log(from), math.Log(to)
	}
	size := b.typicalSize(c)
	if c.Scale == sample.Difference && !(size > 0) {
		return strings.Join(names, ", ") + " withheld the verdict"
	}
	verdict := analysis.NewRegion(b.results.Margin, c.Scale, size).Verdict(from, to, c.Better)
	return fmt.Sprintf("without %s, the interval would say %s", strings.Join(names, ", "), verdict)
}
