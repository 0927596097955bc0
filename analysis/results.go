// Package analysis turns samples into comparisons and verdicts, as they were
// preregistered. It is pure: the same data give the same results.
package analysis

import (
	"bakeoff/param"
	"bakeoff/sample"
)

// ResultsSchema is the schema of Results.
const ResultsSchema = "bakeoff/results/v1"

// Verdict is what the adjusted interval alone says.
type Verdict string

// The verdicts. Better and worse respect the direction of the metric.
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Equivalent   Verdict = "equivalent"
	Inconclusive Verdict = "inconclusive"
)

// Scope is what a verdict speaks of.
type Scope string

// The scopes.
const (
	ScopeMachine  Scope = "machine"  // environments were made anew for each block
	ScopeInstance Scope = "instance" // the same environments served all blocks
)

// Results is results.json. A field not known is null, never 0.
type Results struct {
	Schema     string  `json:"schema"`
	Run        string  `json:"run"` // name of the run folder; experiment of analyse
	Seed       uint64  `json:"seed"`
	PlanSHA256 string  `json:"plan_sha256"`
	Baseline   string  `json:"baseline"`
	Margin     float64 `json:"margin"`
	// Ended says why the run ended: decided, blocks, budget, interrupted,
	// or "" while it runs.
	Ended       string       `json:"ended"`
	Blocks      int          `json:"blocks"` // that count
	Void        int          `json:"void"`   // blocks that do not
	Unused      int          `json:"unused"` // blocks after the deciding look
	Contenders  []Contender  `json:"contenders"`
	Cells       []Cell       `json:"cells"`
	Summaries   []Summary    `json:"summaries"`
	Comparisons []Comparison `json:"comparisons"`
	Twin        *Twin        `json:"twin"`
	Missing     []Missing    `json:"missing"`
	Warnings    []string     `json:"warnings"`
}

// Contender is one side.
type Contender struct {
	Name   string            `json:"name"`
	Driver string            `json:"driver"`
	Host   string            `json:"host"`
	TwinOf string            `json:"twin_of,omitempty"`
	Facts  map[string]string `json:"facts,omitempty"` // accelerator, runtime …
}

// Cell is a workload with its parameters and metrics.
type Cell struct {
	Name     string          `json:"name"`
	Workload string          `json:"workload"`
	Params   param.Values    `json:"params"`
	Metrics  []sample.Metric `json:"metrics"`
}

// Interval is closed; a bound may be null where it is not finite.
type Interval [2]*float64

// Summary describes one contender on one cell and metric.
type Summary struct {
	Contender string   `json:"contender"`
	Cell      string   `json:"cell"`
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit"`
	N         int      `json:"n"`        // trials that gave a value
	Failures  int      `json:"failures"` // trials in which the subject failed
	Median    *float64 `json:"median"`
	CI        Interval `json:"ci"`       // of the median, order statistics
	CILevel   *float64 `json:"ci_level"` // coverage attained
	Samples   []Point  `json:"samples"`
}

// Point is one raw sample with where it came from.
type Point struct {
	Block    int     `json:"block"`
	Position int     `json:"position"`
	Instance string  `json:"instance,omitempty"`
	Value    float64 `json:"value"`
}

// Comparison is a contender against the baseline on one cell and metric.
type Comparison struct {
	Contender string        `json:"contender"`
	Baseline  string        `json:"baseline"`
	Cell      string        `json:"cell"`
	Workload  string        `json:"workload"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    sample.Better `json:"better"`
	Scale     sample.Scale  `json:"scale"`
	Primary   bool          `json:"primary"`
	Blocks    int           `json:"blocks"` // that entered
	// Look is the number of blocks of the look that decided, or of the last
	// look taken; 0 when no look was reached.
	Look int `json:"look"`
	// Alpha is what was spent on the interval shown.
	Alpha *float64 `json:"alpha"`
	// Ratio is contender / baseline in the metric's own unit, or the
	// difference where Scale is difference.
	Ratio *float64 `json:"ratio"`
	CI    Interval `json:"ci"`
	// Verdict is empty for comparisons that are not primary.
	Verdict     Verdict      `json:"verdict,omitempty"`
	Scope       Scope        `json:"scope"`
	Gates       []Gate       `json:"gates"`
	Confounders []Confounder `json:"confounders"`
	// MoreBlocks estimates how many more blocks would decide an open
	// comparison; null where it is decided or cannot be told.
	MoreBlocks *int     `json:"more_blocks"`
	Warnings   []string `json:"warnings,omitempty"`
}

// Gate is a check that a comparison failed: it makes it inconclusive.
type Gate struct {
	Name   string `json:"name"` // ceiling, errors, throttled, swap, steal, clock, trend …
	Reason string `json:"reason"`
	Trials int    `json:"trials"` // in which it was seen
	Of     int    `json:"of"`
}

// Confounder is something that differs beside the factor that was meant to.
type Confounder struct {
	Name      string `json:"name"`
	Baseline  string `json:"baseline"` // "unavailable" where not known
	Contender string `json:"contender"`
}

// Twin is the A/A check of the run.
type Twin struct {
	Name        string       `json:"name"`
	Comparisons []Comparison `json:"comparisons"`
	// Different tells that a comparison of the twin excluded 1: the page says
	// so before anything else.
	Different bool `json:"different"`
}

// Missing is a cell of a contender that gave nothing.
type Missing struct {
	Contender string `json:"contender"`
	Cell      string `json:"cell"`
	Reason    string `json:"reason"`
}

// Observation is one trial as the analysis sees it.
type Observation struct {
	Block, Position int
	Instance        string
	Contender, Cell string
	Values          []sample.Value // none when Failed
	Failed          bool           // the subject failed: worst possible value
	Reason          string
	// Gates that this trial failed, by name, with the reason.
	Gates map[string]string
}

// Data is everything that Analyse needs.
type Data struct {
	Run, PlanSHA256 string
	Seed            uint64
	Baseline, Twin  string // Twin "" when there is none
	Contenders      []Contender
	Cells           []Cell // Metric.Primary as registered
	Margin          float64
	Looks           []int
	Alphas          []float64
	Scope           Scope
	Observations    []Observation // of blocks that count, in any order
	Void            int
	Ended           string
	Missing         []Missing
	// Facts is contender → fact → value, for confounders; Meant names the
	// facts that were meant to differ.
	Facts map[string]map[string]string
	Meant []string
}
