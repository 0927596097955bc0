// Package analysis turns samples into comparisons and verdicts, as they were
// preregistered. It is pure: the same data give the same results.
//
// # What is compared
//
// A block counts for a comparison when both sides have all their trials in
// it. The values of a metric are taken as logarithms, or as they are for
// metrics of scale difference. Each block gives a score of one side against
// the other in which a single disturbed trial weighs little (stats.Contrast):
// the level of the machine is followed through all trials without knowledge
// of the sides, and what lies far away from it loses weight. The interval is
// all differences that the exact signed-rank test of the scores does not
// reject. Because the order inside a block was drawn and level and weights
// know nothing of it, the test is exact for identical sides, whatever the
// noise is. A verdict speaks of the typical trial; where the trials without
// weight are mostly of one side, a warning says that the tails differ.
//
// A trial in which the subject failed counts as the worst possible value: its
// block then ranks last, to the disadvantage of whoever failed. Where both
// failed in a block they did equally badly, and it is a tie. A value that
// cannot stand on its scale (not a number, or not positive where ratios are
// taken) counts as a failure too. Margins of metrics of scale difference are
// taken of the median size of the baseline.
//
// # Verdicts
//
// A verdict is read from the interval alone: equivalent if it lies within
// the margin (this wins), else better or worse if it excludes no difference,
// else inconclusive. A comparison with a verdict is frozen: later blocks are
// unused. One that failed a gate stays inconclusive at that look, with its
// interval shown; a gate can only take a verdict away, so it adds no error.
//
// Most gates are failed by single trials, and Observation names them. Two are
// failed by a comparison as a whole, when a verdict would be given: order
// (the difference depends on the visit, or orders were never drawn) and change
// (it was another one in earlier blocks); see docs/gates.md.
//
// # The error rate of a family
//
// A family is the n primary comparisons of a run; the twin's are a family of
// their own. Looks l₁ < l₂ < … with alphas a₁, a₂, … are fixed beforehand, and
// α is the sum of the alphas: aₖ is the error that is spent at look k. For a
// share γ = α/m let cₖ(γ) be the nominal level of look k in a sequential test
// that spends aₖ/m at each look (stats.Boundaries: more than aₖ/m from the
// second look on, because looks share their data; Lan and DeMets 1983). It
// rises with γ. At look k an open comparison is judged for a difference at
// the level cₖ(α/(n−D)) and for equivalence at cₖ(α/(n−E)), where D and E
// count the comparisons that were called different and equivalent so far,
// those of this look included: when one falls the rest are judged again. So
// each kind of rejection passes its alpha on to rejections of its own kind.
//
//   - The probability that any comparison without a true difference is called
//     better or worse is at most α. Proof: let T be the comparisons without a
//     true difference. Before the first false call D counts none of T, so
//     n−D ≥ |T|, and that call needs a p-value of at most cₖ(α/|T|) at some
//     look k for some member of T. For each member this has probability
//     α/|T| over all looks; over the members the sum is α, whatever their
//     dependence. (Holm 1979; over looks Maurer and Bretz 2013.)
//   - The probability that any comparison whose true difference lies outside
//     the margin is called equivalent is at most α/2, in the same way with E;
//     only one bound of the interval can err.
//   - Every interval that decided covers its true value with probability at
//     least 1 − α over all looks, since no level above cₖ(α) is ever used.
//   - A true difference is called in the wrong direction with probability at
//     most α/2 each. For all comparisons of a family together this is proved
//     under independence only (Shaffer 1980).
//
// The test of each look is exact; the levels rest on the joint normality of
// the looks, which the simulations of docs/statistics.md put to the test.
//
// If equivalences passed alpha on to differences, the first claim would fall:
// of two comparisons without a difference the first could be called different
// with a/2 or else, being called equivalent, hand a to the second.
//
// A comparison that was registered keeps its share even when it turns out to
// be missing, unless it was never tried at all.
package analysis

import (
	"bakeoff/base/param"
	"bakeoff/base/sample"
)

// ResultsSchema is the schema of Results.
const ResultsSchema = "bakeoff/results/v1"

// Rules counts the versions of what makes verdicts of observations: gates,
// tests, levels. It grows whenever the same observations would give others, so
// that verify can tell results that were tampered with from results by earlier
// rules. 2: the gates order and change; results before have no number. 3: more
// blocks are those that decide with a probability of 80 %, and not of 50. 4: CPU
// time that no trial could tell is said to be unavailable. 5: warnings and
// reasons in other words.
const Rules = 5

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
	Rules      int     `json:"rules"` // Rules of the program that made them; 0 before there was a number
	Run        string  `json:"run"`   // name of the run folder; experiment of analyse
	Seed       uint64  `json:"seed"`
	PlanSHA256 string  `json:"plan_sha256"`
	Baseline   string  `json:"baseline"`
	Margin     float64 `json:"margin"`
	// Looks and Alphas are the preregistered ones.
	Looks  []int     `json:"looks"`
	Alphas []float64 `json:"alphas"`
	// Ended says why the run ended, one of EndedDecided …; "" while it runs.
	Ended  string `json:"ended"`
	Blocks int    `json:"blocks"` // that count
	// InstanceSets is how many sets of environments served the blocks one after
	// another, where one was to serve them all: more than 1 after the run was
	// resumed, or a block was void. 0 where each block has its own.
	InstanceSets int          `json:"instance_sets,omitempty"`
	Void         int          `json:"void"`   // blocks that do not
	Unused       int          `json:"unused"` // of Blocks, those after everything was decided
	Contenders   []Contender  `json:"contenders"`
	Cells        []Cell       `json:"cells"`
	Summaries    []Summary    `json:"summaries"`
	Comparisons  []Comparison `json:"comparisons"`
	Twin         *Twin        `json:"twin"`
	Missing      []Missing    `json:"missing"`
	// Unavailable are metrics of which no trial of a contender had a value,
	// though others of the cell have theirs.
	Unavailable []Unavailable `json:"unavailable,omitempty"`
	Warnings    []string      `json:"warnings"`
}

// Unavailable is a metric that could not be told, and why.
type Unavailable struct {
	Contender string   `json:"contender"`
	Cell      string   `json:"cell"`
	Metric    string   `json:"metric"`
	Value     *float64 `json:"value"` // null
	Reason    string   `json:"reason"`
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
	FailedAt  []Place  `json:"failed_at,omitempty"` // where the failures were
}

// Place is where in the schedule a trial was.
type Place struct {
	Block    int    `json:"block"`
	Position int    `json:"position"`
	Instance string `json:"instance,omitempty"`
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
	// Unused blocks count for this comparison but came after its deciding
	// look, or after the last one.
	Unused int `json:"unused"`
	// Look is the number of blocks of the look that decided, or of the last
	// look taken; 0 when no look was reached.
	Look int `json:"look"`
	// Alpha is the level of error of the interval shown: 1 − Alpha is its
	// nominal coverage at this look.
	Alpha *float64 `json:"alpha"`
	// Ratio is contender / baseline in the metric's own unit, or the
	// difference where Scale is difference.
	Ratio *float64 `json:"ratio"`
	CI    Interval `json:"ci"`
	// Failures is in how many trials of the entered blocks each side failed.
	Failures Failures `json:"failures"`
	// Interim is for eyes while a comparison is open: the unadjusted 95 %
	// interval of all its blocks so far, which decides nothing.
	Interim Interval `json:"interim"`
	// Verdict is empty for comparisons that are not primary.
	Verdict     Verdict      `json:"verdict,omitempty"`
	Scope       Scope        `json:"scope"`
	Gates       []Gate       `json:"gates"`
	Confounders []Confounder `json:"confounders"`
	// MoreBlocks estimates how many more blocks would decide an open
	// comparison with 80 % probability (stats.Likely); null where it is decided
	// or cannot be told.
	MoreBlocks *int     `json:"more_blocks"`
	Warnings   []string `json:"warnings,omitempty"`
}

// Failures counts the trials in which the subject failed, on both sides.
type Failures struct {
	Contender int `json:"contender"`
	Baseline  int `json:"baseline"`
	Of        int `json:"of"` // trials of each side
}

// Gate is a check that a comparison failed: it makes it inconclusive.
type Gate struct {
	Name   string `json:"name"` // ceiling, errors, throttled, swap, steal, clock, trend, order …
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
	// Trials is how many trials of a cell each contender has in a block, as
	// planned; 0 where it is not known: then both sides need the same number.
	Trials  int
	Void    int
	Ended   string
	Missing []Missing
	// NoEnergy is contender → why metrics of energy may have no value, and
	// NoGeneratorEnergy why those of the load generator's host may have none; a
	// contender whose load comes from its own host is not in it.
	NoEnergy, NoGeneratorEnergy map[string]string
	// Facts is contender → fact → value, for confounders; Meant names the
	// facts that were meant to differ.
	Facts map[string]map[string]string
	Meant []string
	// Hosts is contender → the machine that it stands on; empty where that is
	// not known.
	Hosts map[string]Placement
	// Elsewhere tells that the numbers were measured by others: that orders
	// were drawn is not known then, and one order in all blocks is a gate.
	Elsewhere bool
}
