// Package compare compares two runs: a release with the last one, one kernel with
// another. It is pure.
//
// # Two changes
//
// The contenders of one run are interleaved, so whatever happens to the machine
// happens to all of them. Two runs are not interleaved: between them the machine
// may have been warmed up, updated, moved or shared with others, and no number of
// blocks shows the effect. Therefore two changes are estimated, both new / old (or
// new − old for metrics of scale difference):
//
//   - Direct is the change of a contender's own values. It includes the change of
//     the machine.
//   - Relative is the change of contender / baseline: the difference of
//     differences. A change of the whole machine cancels out. It says nothing about
//     the baseline: a change of the baseline alone shows as a change of all other
//     contenders. Yardstick therefore lists the direct change of the baseline.
//
// # The interval
//
// The value of a block is the mean logarithm of its trials (or the mean). For
// Relative it is the contender's value minus that of the baseline in the same
// block. The location of each run is the Hodges–Lehmann estimate, with the interval
// of the exact signed-rank test. Each half of that interval is widened by
// √(n / n′), where n′ is the number of independent values with as much information
// as the n autocorrelated ones. The halves of both runs are combined as the root of
// the sum of squares (MOVER: Zou and Donner, Statistics in Medicine 27 (2008) 1693).
//
// The difference between runs in which nothing was changed is a third part, t·s·√2.
// Here s is the standard deviation between k repeated runs, and t is a quantile of
// Student's distribution with k−1 degrees of freedom: each run is a single draw.
// Because s includes the noise inside the runs, the interval is rather too wide than
// too narrow. Without repeated runs this part is unknown: the interval covers the
// noise inside the runs only, and there is no verdict but NotInterleaved.
//
// analysis.Region.Verdict reads verdicts from the interval, as in the analysis of a
// run. The m judged primary comparisons share the error rate alpha evenly
// (Bonferroni), so each interval has the level 1 − alpha/m.
//
// The level is nominal. It assumes that repeated runs scatter normally, and that OLD
// and NEW are not further apart in time than the repeated runs.
package compare

import (
	"time"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// Schema is the schema of Result.
const Schema = "bakeoff/compare/v1"

// NotInterleaved replaces the verdict if the change from run to run is unknown.
const NotInterleaved analysis.Verdict = "not interleaved"

// Warning is the first warning of every result.
const Warning = "The runs were made at different times and are not interleaved. Anything else that changed between " +
	"them looks like a difference between the contenders."

// By names the estimate that gets the verdict.
type By string

// The estimates.
const (
	Direct   By = "direct"
	Relative By = "relative"
)

// MinRepeats is the smallest number of repeated runs that give a spread.
const MinRepeats = 3

// Run is one run, read from its folder.
type Run struct {
	Results analysis.Results
	// Facts is contender → fact → value; contender "" is bakeoff itself: its
	// version and the design.
	Facts map[string]map[string]string
	// Unplanned says how the run differs from what it registered, as
	// evidence.Outline does.
	Unplanned []string
	Labels    map[string]string // given to the run: commit …
	At        time.Time         // when it began; zero: unknown
}

// Identity is equal for copies of one run, and differs between runs.
type Identity struct {
	began      int64 // ns since 1970
	seed       uint64
	plan, name string
}

// Identity returns the identity of a run. The name of a run counts only if the time is unknown,
// because a copy can have any name.
func (r Run) Identity() Identity {
	out := Identity{seed: r.Results.Seed, plan: r.Results.PlanSHA256}
	if r.At.IsZero() {
		out.name = r.Results.Run
	} else {
		out.began = r.At.UnixNano()
	}
	return out
}

// Spread is the difference between runs in which nothing was changed: standard
// deviations of the logarithm of a run's estimate.
type Spread struct {
	Runs     int     `json:"runs"`
	Direct   float64 `json:"direct"`
	Relative float64 `json:"relative"`
	Source   string  `json:"source"`
}

// Option configures a comparison.
type Option struct {
	Alpha  float64 // error rate of all verdicts together; 0: analysis.MaxAlpha
	Margin float64 // largest share that counts as equivalent; 0: OLD's
	By     By      // the estimate that gets the verdict; "": Relative
	// Repeats are runs of the same lab file in which nothing was changed. OLD
	// counts as one more unless it is among them.
	Repeats []Run
	// Calibrated is used for metrics of scale ratio if there are too few
	// Repeats; nil: unknown.
	Calibrated *Spread
}

// Result is the comparison of two runs. An unknown value is null.
type Result struct {
	Schema   string   `json:"schema"`
	Warning  string   `json:"warning"` // stands first, always
	Old      string   `json:"old"`
	New      string   `json:"new"`
	By       By       `json:"by"`
	Alpha    float64  `json:"alpha"`
	Judged   int      `json:"judged"` // primary comparisons that share Alpha
	Margin   float64  `json:"margin"`
	Warnings []string `json:"warnings"`
	// Yardstick is the direct change of the baseline.
	Yardstick   []Row        `json:"yardstick"`
	Rows        []Row        `json:"rows"` // all others
	Differences []Difference `json:"differences"`
	OnlyOld     []string     `json:"only_old"` // contenders, cells and primary metrics
	OnlyNew     []string     `json:"only_new"`
	// Disturbed are the runs, OLD and NEW, in which the twin differs from the baseline.
	Disturbed []string `json:"disturbed"`

	lost  []part          // OnlyOld
	cells []analysis.Cell // of OLD
	ended string          // as endOf has it
	twin  *analysis.Twin  // of both runs, as twinOf has it
	// unplanned is that of OLD and NEW.
	unplanned []string
}

// Row is a contender on one cell and metric in both runs.
type Row struct {
	Contender string        `json:"contender"`
	TwinOf    string        `json:"twin_of,omitempty"`
	Cell      string        `json:"cell"`
	Workload  string        `json:"workload"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    sample.Better `json:"better"`
	Scale     sample.Scale  `json:"scale"`
	Primary   bool          `json:"primary"` // in both runs
	Level     float64       `json:"level"`   // of both intervals
	Direct    *Change       `json:"direct"`
	Relative  *Change       `json:"relative"` // null for the baseline
	// Gates are those that the comparison failed in either run.
	Gates    []analysis.Gate `json:"gates"`
	Failures [2]int          `json:"failures"` // trials of the contender, OLD and NEW
	Warnings []string        `json:"warnings,omitempty"`
}

// Change is new / old, or new − old on the scale difference.
type Change struct {
	Old    *float64          `json:"old"` // estimate of the run: a typical value, or contender / baseline
	New    *float64          `json:"new"`
	Blocks [2]int            `json:"blocks"`
	Ratio  *float64          `json:"ratio"`
	Within analysis.Interval `json:"within"` // by the noise inside the runs alone
	CI     analysis.Interval `json:"ci"`     // widened by Spread; as Within where there is none
	Spread *float64          `json:"spread"` // between runs, standard deviation; null: unavailable
	Runs   int               `json:"runs"`   // from which Spread is known
	Source string            `json:"source"` // of Spread
	// Calibrated means that Spread comes from calibrations, not from repeated
	// runs of the same lab file.
	Calibrated bool `json:"calibrated,omitempty"`
	// Exact means that the trials of both runs agreed exactly: the change has no error.
	Exact bool `json:"exact,omitempty"`
	// Verdict is empty for metrics that are not primary and for the twin.
	Verdict analysis.Verdict `json:"verdict,omitempty"`
	// BeyondMargin is as in analysis.Comparison.
	BeyondMargin *bool `json:"beyond_margin,omitempty"`
	// Withheld says why the verdict is inconclusive whatever the interval is: trials failed,
	// blocks lack a value, or OLD and NEW were made on different machines.
	Withheld string `json:"withheld,omitempty"`
	// Smallest is the smallest change for the worse that would have had the verdict worse,
	// with intervals as wide as this one, and SmallestBeyond the smallest one that would
	// have been worse by more than the margin; as Ratio. A true change of this size is
	// found in half of such comparisons. Null: there is no verdict, it is withheld, or there is no
	// interval.
	Smallest       *float64 `json:"smallest"`
	SmallestBeyond *float64 `json:"smallest_beyond_margin"`

	otherMachine bool // Withheld is about the machine
}

// Difference is a fact that is not the same in both runs.
type Difference struct {
	Contender string `json:"contender"` // "": bakeoff
	Fact      string `json:"fact"`
	Old       string `json:"old"` // "unavailable" if unknown
	New       string `json:"new"`
}
