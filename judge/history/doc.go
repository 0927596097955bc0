// Package history reads runs of one lab over time, such as one for every commit or every
// night, as series of estimates, and finds the runs at which the level of a series
// changed. It is pure.
//
// # Series
//
// Runs belong together if they have the same lab and the same machine. A series is one
// contender at one cell and metric: the estimate of each run is that of package compare,
// from all complete blocks of the run. For compare.Relative it is contender / baseline,
// in which a change of the whole machine cancels out; for compare.Direct it is the value
// itself. The newest run that has the series says what work it is; runs that did other
// work under the same name, whose comparison failed a gate, or whose twin differs from
// the baseline are left out, each with the reason.
//
// # Runs are replicates
//
// Runs in which nothing changed differ by more than the noise inside them. The estimate
// xᵢ of run i has the variance vᵢ = τ² + sᵢ²: sᵢ² is the variance by the noise inside the
// run, and τ² the variance between runs. The level of a segment is the weighted mean of
// its runs, with the weights 1/vᵢ. Its interval is that of Knapp and Hartung, with
// Student's t and as many degrees of freedom as there are runs, less the number of
// levels. The interval of a single run is widened by τ too. So neither a run with many
// blocks nor one bad day decides alone.
//
// sᵢ² is σ²/nᵢ, where nᵢ is the number of blocks of the run, and σ² is the median over the
// runs of nᵢ·(h/t)², with h half of the width of the run's 95 % interval, and t the quantile
// of Student's distribution with nᵢ−1 degrees of freedom. The width of
// the run's own interval does not weigh it: where noise is skewed, it goes with the value.
//
// # Steps
//
// A step is a place at which the level changes. Three tests share the error rate. The first
// compares the means of both sides by Student's t at each place that leaves two runs on both
// sides (Worsley 1979), with the bound of Bonferroni over the places: the share of a place is
// inversely proportional to the number of runs from it on, because a history is mostly read
// to see what changed lately.
// It has 95 %, and finds a step by its size, in short series too. The runs of the shorter
// side must agree, and their number must be more than one order in ten gives by chance (two
// runs beside five, three beside three). If only two runs show a step, both must be farther
// away than any other run. In a history of 30 or more runs, the p-value of this order counts
// if it is larger than Student's; in a shorter one, Student's must be 300 times smaller.
// stats.StepTest scans all places that leave three runs on both sides: it compares the
// weighted means of the normal scores, and draws random orders for the p-value.
// stats.BumpTest does the same for a level that changes and returns. Each has 2.5 %. Each
// part between steps is tested again, at a share of the error rate that is its share of
// the runs.
//
//   - The probability that any part of a series that has no step is cut is at most the
//     level of the series. Proof: the first parts without a step that are tested are
//     disjoint, so their levels add up to at most that of the series.
//   - The m judged series of one lab and machine share alpha evenly (Bonferroni).
//   - The p-values of the ranks are exact if the standardized runs are exchangeable without
//     a step, that of Student's t if they are normal; bench/history says what other noise
//     does. If neighbors are correlated, as when a machine is slow for a week, they are not. Where
//     30 or more runs show a positive correlation of neighbors that is hardly chance, the
//     tests by ranks are divided by the factor by which it inflates the variance of long
//     means, and Student's t uses that of means of as many runs. Slow drifts remain: they are
//     shown as one or more steps.
//   - The error rate holds for one reading of a series. A series that is read after each
//     new run gives more alarms over time; docs/guides/history.md says how many. A reading of n
//     runs therefore has less of the error rate if n is between 10 and 50: the larger of (10/n)⁴
//     and (n/50)⁴. Otherwise half of the false alarms of 60 readings would come before run 40.
//
// The place of a step is the one that leaves the smallest squares, with runs far off
// moved in. The range of places is the likelihood set at 95 % (Siegmund 1988).
package history

import (
	"slices"
	"time"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
)

// Schema is the schema of Result.
const Schema = "bakeoff/history/v1"

// Run is one run, read from its folder.
type Run struct {
	compare.Run
	Lab    string // name of the lab file
	Folder string // where its evidence is
	// Cautions are what a reader must know before the numbers of the run (report.Notice).
	Cautions []string
	// Damage says what does not hold in the bundle of the run, as far as its store knows. "" is
	// nothing; nil is unknown, as of a run folder.
	Damage *string `json:",omitempty"`
	// Known are the estimates of a run without samples (Condensed); nil if it has samples.
	Known []Known `json:",omitempty"`
}

// Primary returns the run with the numbers of its primary metrics only, if it has any: all
// that a history of primary series needs. It shares memory with r.
func (r Run) Primary() Run {
	primary := map[[2]string]bool{}
	for _, c := range r.Results.Cells {
		for _, m := range c.Metrics {
			if m.Primary {
				primary[[2]string{c.Name, m.Name}] = true
			}
		}
	}
	if len(primary) == 0 {
		return r
	}
	full := r.Results
	r.Results = analysis.Results{Schema: full.Schema, Rules: full.Rules, Run: full.Run, Seed: full.Seed,
		PlanSHA256: full.PlanSHA256, Baseline: full.Baseline, Margin: full.Margin, Ended: full.Ended, Blocks: full.Blocks,
		Limits: full.Limits, Contenders: full.Contenders, Cells: slices.Clone(full.Cells)}
	if full.Twin != nil {
		r.Results.Twin = &analysis.Twin{Name: full.Twin.Name, Different: full.Twin.Different}
	}
	for i, c := range full.Cells {
		r.Results.Cells[i].Metrics = lists.Filter(c.Metrics, func(m sample.Metric) bool { return m.Primary })
	}
	r.Results.Summaries = lists.Filter(full.Summaries, func(s analysis.Summary) bool {
		return primary[[2]string{s.Cell, s.Metric}]
	})
	r.Results.Comparisons = lists.Filter(full.Comparisons, func(c analysis.Comparison) bool {
		return primary[[2]string{c.Cell, c.Metric}] && (len(c.Gates) > 0 || c.Pending())
	})
	return r
}

// Unread is a run that could not be read.
type Unread struct {
	Folder string    `json:"folder"`
	Reason string    `json:"reason"`
	Lab    string    `json:"lab,omitempty"` // "" if unknown
	At     time.Time `json:"at,omitzero"`   // when it began; zero if unknown
}

// MayBeNewest reports whether the run may be the newest one of a lab on a machine: nothing
// says that it is older, or of another lab.
func (u Unread) MayBeNewest(l Lab) bool {
	newest := l.Runs[len(l.Runs)-1].At
	return (u.Lab == "" || u.Lab == l.Lab) && (u.At.IsZero() || !u.At.Before(newest))
}

// Lost is a contender, a cell or a primary metric that the newest run lacks.
type Lost struct {
	What string `json:"what"` // such as cell http-50
	Last int    `json:"last"` // index of the last run that has it
}

// Option configures Of.
type Option struct {
	Alpha  float64    // error rate of the steps of one lab and machine; 0: analysis.MaxAlpha
	Margin float64    // largest share that counts as equivalent; 0: that of the newest run
	By     compare.By // the estimate; "": compare.Relative
	// Primary leaves out the series of metrics that are not primary, if any is.
	Primary bool
	Unread  []Unread // runs that could not be read
}

// Result is the history of all runs. An unknown value is null.
type Result struct {
	Schema  string     `json:"schema"`
	By      compare.By `json:"by"`
	Alpha   float64    `json:"alpha"`
	Labs    []Lab      `json:"labs"`
	Unread  []Unread   `json:"unread"`
	Version string     `json:"version,omitempty"`
}

// Lab is the history of one lab on one machine.
type Lab struct {
	Lab      string            `json:"lab"`
	Machine  map[string]string `json:"machine"` // facts that all of its runs share
	Baseline string            `json:"baseline"`
	Margin   float64           `json:"margin"`
	Judged   int               `json:"judged"` // series that share Alpha
	Level    float64           `json:"level"`  // of the intervals of levels and steps
	Runs     []Point           `json:"runs"`   // the oldest first
	Series   []Series          `json:"series"`
	// Lost is what earlier runs have and the newest run lacks, and thus no longer judges.
	Lost  []Lost   `json:"lost"`
	Notes []string `json:"notes"` // what is not comparable, and what changed
}

// Point is one run of a lab.
type Point struct {
	Run    string            `json:"run"`
	At     time.Time         `json:"at"`
	Folder string            `json:"folder"`
	Labels map[string]string `json:"labels,omitempty"`
	// Cautions are what a reader must know before the numbers of the run.
	Cautions []string `json:"cautions,omitempty"`
}

// Series is a contender at one cell and metric over the runs.
type Series struct {
	Contender string        `json:"contender"`
	Cell      string        `json:"cell"`
	Workload  string        `json:"workload"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    sample.Better `json:"better"`
	Scale     sample.Scale  `json:"scale"`
	Primary   bool          `json:"primary"`
	Estimates []Estimate    `json:"estimates"` // of runs in order
	LeftOut   []LeftOut     `json:"left_out"`
	// Spread is the standard deviation between runs, of the logarithm on the scale
	// ratio; null with fewer than two runs at one level.
	Spread   *float64  `json:"spread"`
	Segments []Segment `json:"segments"` // between steps
	Steps    []Step    `json:"steps"`
	// Needs is the number of runs with which the clearest step could be found; 0 if
	// the series has enough.
	Needs int `json:"needs"`
	// Outlook says which steps could be found after more runs, the fewest runs first;
	// empty with fewer than three runs at the newest level.
	Outlook []Outlook `json:"outlook"`
	// Suspect is what the newest runs may be; null if they are like those before.
	Suspect *Suspect `json:"suspect"`
	// Region is the margin on the scale of the estimates: ratios or differences that
	// count as equivalent to none. Null for values themselves.
	Region *[2]float64 `json:"region"`
}

// Outlook is the smallest step that is found with a probability of about 80 % if it begins
// with the next run and stays for this number of runs.
type Outlook struct {
	Runs int      `json:"runs"`
	Size *float64 `json:"size"` // a ratio, or a difference
}

// Suspect is a change that is not decidable yet.
type Suspect struct {
	At    int      `json:"at"`    // index in Estimates of the first run of it
	Run   int      `json:"run"`   // that of At, index in Lab.Runs
	Ratio *float64 `json:"ratio"` // level after / before, or the difference
	Runs  int      `json:"runs"`  // more runs like these that would be a step
	P     float64  `json:"p"`     // that one level explains the runs
	// Clear says that this is the newest run alone, that it is farther from the level
	// before than any other, and that P is at most 1/250 of the error rate of this reading, which
	// is added to that rate. A single bad run is a clear suspect, too.
	Clear bool `json:"clear"`
}

// Estimate is what one run says.
type Estimate struct {
	Run    int               `json:"run"` // index in Lab.Runs
	Value  *float64          `json:"value"`
	Within analysis.Interval `json:"within"` // 95 %, by the noise inside the run alone
	CI     analysis.Interval `json:"ci"`     // 95 %, with the spread between runs
	Blocks int               `json:"blocks"`
}

// LeftOut is a run that does not count for a series.
type LeftOut struct {
	Run    int    `json:"run"`
	Reason string `json:"reason"`
}

// Segment is the level between two steps.
type Segment struct {
	From  int               `json:"from"` // index in Estimates
	To    int               `json:"to"`   // the first that is not in it
	Value *float64          `json:"value"`
	CI    analysis.Interval `json:"ci"`
}

// Step is a change of the level.
type Step struct {
	At    int               `json:"at"`    // index in Estimates of the first run after it
	Range [2]int            `json:"range"` // of places that are as likely, both ends included
	Run   int               `json:"run"`   // that of At, index in Lab.Runs
	Ratio *float64          `json:"ratio"` // level after / before, or the difference
	CI    analysis.Interval `json:"ci"`
	P     float64           `json:"p"`
	// Verdict is better or worse if the interval of the step excludes none,
	// otherwise inconclusive: the place is known then, and the size is not.
	Verdict      analysis.Verdict `json:"verdict"`
	BeyondMargin *bool            `json:"beyond_margin"`
	// Coincides lists what else changed, the most telling first.
	Coincides []Coincidence `json:"coincides"`
}

// Coincidence is a fact that changed at a step or within its range.
type Coincidence struct {
	Fact  string   `json:"fact"`
	Where []string `json:"where"` // contenders; empty for the whole run
	Old   string   `json:"old"`   // "unavailable" if unknown
	New   string   `json:"new"`
	Run   int      `json:"run"`   // the first with New, index in Lab.Runs
	Times int      `json:"times"` // changes of this fact in the whole series
	Exact bool     `json:"exact"` // at the place of the step itself
}
