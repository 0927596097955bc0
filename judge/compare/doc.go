// Package compare holds two runs against each other: a release against the
// last, a kernel against another. It is pure.
//
// # What can be told
//
// Contenders of one run are interleaved, so that what happens to the machine
// happens to all of them. Two runs are not: between them the machine may have
// been warmed, updated, moved, or shared with others, and no number of blocks
// shows what that did. Two changes are therefore estimated, both new / old (or
// new − old on metrics of scale difference):
//
//   - Direct is the change of a contender's own values. It holds the change of
//     the machine as well.
//   - Relative is the change of contender / baseline: the difference of
//     differences. A machine that became slower as a whole drops out. It says
//     nothing about the baseline, and what changed the baseline alone shows as
//     a change of all others: Yardstick lists its direct change beside it.
//
// # The interval
//
// The value of a block is the mean logarithm of its trials (or the mean); of
// Relative, the contender's less the baseline's of the same block. Each run is
// estimated by Hodges and Lehmann with the interval of the exact signed-rank
// test, and each half of that interval is widened by √(n / n′), where n′ is
// the number of independent values that tell as much as the autocorrelated n.
// The halves of both runs are joined in squares (MOVER: Zou and Donner,
// Statistics in Medicine 27 (2008) 1693).
//
// What runs differ by although nothing was changed enters as a third part,
// t·s·√2, where s is the standard deviation between k repeated runs and t is
// Student's with k−1 degrees of freedom: one run is a single draw from them.
// s holds the noise inside the runs too, so the interval is too wide rather
// than too narrow. Without repeated runs nothing is known of this part, the
// interval covers the noise inside the runs only, and there is no verdict:
// NotInterleaved.
//
// Verdicts are read from the interval as the analysis reads them. The error
// rate alpha is shared evenly by the m primary comparisons that are judged
// (Bonferroni), so each interval has the level 1 − alpha/m.
//
// The level is nominal. It supposes that repeated runs scatter normally, and
// that OLD and NEW lie no further apart in time than the repeated ones.
package compare

import (
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// Schema is the schema of Result.
const Schema = "bakeoff/compare/v1"

// NotInterleaved stands in place of a verdict where the change from run to
// run is not known.
const NotInterleaved analysis.Verdict = "not interleaved"

// Warning stands before every result.
const Warning = "The runs were made at different times: they are not interleaved. What else changed between them looks like a difference of what was compared."

// By names the estimate that is judged.
type By string

// The estimates.
const (
	Direct   By = "direct"
	Relative By = "relative"
)

// MinRepeats is the smallest number of repeated runs from which a spread
// between runs is estimated.
const MinRepeats = 3

// Run is one run as it is read from its folder.
type Run struct {
	Results analysis.Results
	// Facts is contender → fact → value; contender "" is the laboratory
	// itself: its version and its design.
	Facts map[string]map[string]string
}

// Spread is how much runs differ although nothing was changed: standard
// deviations of the logarithm of a run's estimate.
type Spread struct {
	Runs     int     `json:"runs"`
	Direct   float64 `json:"direct"`
	Relative float64 `json:"relative"`
	Source   string  `json:"source"`
}

// Option is what a comparison is made with.
type Option struct {
	Alpha  float64 // error rate of all verdicts together; 0: analysis.MaxAlpha
	Margin float64 // largest share that counts as equivalent; 0: OLD's
	By     By      // the estimate that is judged; "": Relative
	// Repeats are runs of the same laboratory in which nothing was changed;
	// OLD counts as one more unless it is among them.
	Repeats []Run
	// Calibrated is used for metrics of scale ratio where there are too few
	// Repeats; nil: there is none.
	Calibrated *Spread
}

// Result is the answer. What is not known is null.
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
	OnlyOld     []string     `json:"only_old"` // contenders and cells
	OnlyNew     []string     `json:"only_new"`
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
	// Calibrated tells that Spread is that of calibrations, not of repeated
	// runs of the same laboratory.
	Calibrated bool `json:"calibrated,omitempty"`
	// Verdict is empty for what is not primary and for the twin.
	Verdict analysis.Verdict `json:"verdict,omitempty"`
}

// Difference is a fact that is not the same in both runs.
type Difference struct {
	Contender string `json:"contender"` // "": the laboratory
	Fact      string `json:"fact"`
	Old       string `json:"old"` // "unavailable" where not known
	New       string `json:"new"`
}
