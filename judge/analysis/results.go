// Package analysis turns samples into comparisons and verdicts, as the plan
// registered them. It is pure: the same data give the same results.
//
// # What is compared
//
// A block counts for a comparison if both sides have all their trials in it.
// Values are compared as logarithms, or as they are for metrics of scale
// difference. Each block gives a score of one side against the other
// (stats.Contrast): a smoother follows the level of the machine through all
// trials without knowing the sides, and trials far from that level lose weight,
// so that a single disturbed trial counts for little. The interval contains all
// differences that the exact signed-rank test of the scores does not reject. The
// order inside a block is random, and level and weights do not depend on it;
// therefore the test is exact for identical sides, whatever the noise. A verdict
// describes the typical trial. If the trials without weight are mostly of one
// side, a warning says that the tails differ.
//
// A trial in which the subject failed counts as the worst possible value: its
// block ranks last, to the disadvantage of the side that failed. If both sides
// failed in a block, the block is a tie. A value that does not exist on its scale
// (not a number, or not positive for ratios) counts as a failure too. For metrics
// of scale difference the margin is a share of the median size of the baseline.
//
// # Verdicts
//
// Region.Verdict reads the verdict from the interval alone: equivalent if the
// interval lies within the margin, otherwise better or worse if it excludes no
// difference, otherwise inconclusive. A comparison with a verdict is frozen:
// later blocks are unused. A comparison that failed a gate stays inconclusive at
// that look, and its interval is shown. A gate can only withhold a verdict, so it
// adds no error.
//
// Most gates check single trials; Observation names them. Two gates check a
// comparison as a whole when it would get a verdict: order (the difference
// depends on the visit, or the orders were not random) and change (the difference
// was another one in earlier blocks). See docs/reference/gates.md.
//
// # The error rate of a family
//
// A family is the n primary comparisons of a run; the comparisons of the twin are
// a family of their own. The plan fixes looks l₁ < l₂ < … with alphas a₁, a₂, …;
// α is the sum of the alphas, and aₖ the error that look k spends. For a share
// γ = α/m let cₖ(γ) be the nominal level of look k in a sequential test that
// spends aₖ/m at each look (stats.Boundaries: more than aₖ/m from the second look
// on, because looks share their data; Lan and DeMets 1983). It rises with γ. At
// look k a comparison without a verdict is tested for a difference at the level
// cₖ(α/(n−D)) and for equivalence at cₖ(α/(n−E)). D and E count the comparisons
// that were called different and equivalent so far, including those of this look:
// after each call the others are tested again. So each kind of call passes its
// alpha on to calls of its own kind.
//
//   - The probability that any comparison without a true difference is called
//     better or worse is at most α. Proof: let T be the comparisons without a
//     true difference. Before the first false call, D counts none of T, so
//     n−D ≥ |T|, and that call needs a p-value of at most cₖ(α/|T|) at some
//     look k for some member of T. For each member this has probability
//     α/|T| over all looks; over the members the sum is α, whatever their
//     dependence. (Holm 1979; over looks Maurer and Bretz 2013.)
//   - The probability that any comparison whose true difference lies outside
//     the margin is called equivalent is at most α/2, by the same argument with
//     E; only one bound of the interval can err.
//   - Every interval that decided covers its true value with probability at
//     least 1 − α over all looks, because no level above cₖ(α) is ever used.
//   - The probability that a true difference is called in the wrong direction is
//     at most α/2 for each comparison. For all comparisons of a family together
//     this is proved under independence only (Shaffer 1980).
//
// # Limits
//
// A condition with a tolerance asks for each comparison that it concerns whether the
// difference exceeds a limit. The looks and their alphas are those of the verdicts, and
// the errors are the questions' own: with m questions, of which X were answered
// exceeded so far, look k calls a limit exceeded if the test of the limit rejects it
// from above at the one-sided level cₖ(2α/(m−X))/2, and kept if it rejects it from below
// at cₖ(2α)/2.
//
//   - The probability that any limit that holds is called exceeded is at most α, by the
//     argument above.
//   - The probability that all limits are called kept although one does not hold is at
//     most α: that one must be called kept, so the others need no share.
//
// A question is answered once; the gates withhold answers as they withhold verdicts.
//
// The test of each look is exact. The levels assume that the statistics of the
// looks are jointly normal, which the simulations in docs/method/statistics.md check.
//
// Equivalences must not pass alpha on to differences, or the first claim would
// fail: of two comparisons without a difference, the first could be called
// different with a/2, or be called equivalent and pass a to the second.
//
// A registered comparison keeps its share even if it is missing, unless it was
// never tried at all.
package analysis

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
)

// ResultsSchema is the schema of Results.
const ResultsSchema = "bakeoff/results/v1"

// ParseResults reads results.json. Errors are of kind fault.Invalid.
func ParseResults(text []byte) (r Results, err error) {
	const again = "bakeoff verify names what is damaged; to make results.json again from the journal, remove it and run " +
		"bakeoff report"
	if err := json.Unmarshal(text, &r); err != nil {
		at := int64(0)
		var syntax *json.SyntaxError
		var value *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			at = syntax.Offset
		case errors.As(err, &value):
			at = value.Offset
			err = fmt.Errorf("%s is a JSON %s, which is the wrong type", cmp.Or(value.Field, "the document"), value.Value)
		}
		return r, fault.WithFix(fault.New(fault.Invalid, "results.json: %v, at byte %d of %d", err, at, len(text)), again)
	}
	if r.Schema != ResultsSchema {
		return r, fault.New(fault.Invalid, "results.json: the schema is %.60q, but this program reads %q", r.Schema,
			ResultsSchema)
	}
	if !(r.Margin >= 0 && r.Margin <= MaxMargin) {
		return r, fault.WithFix(fault.New(fault.Invalid, "results.json: margin is %v; it must be a share from 0 to %v",
			r.Margin, MaxMargin), again)
	}
	if err := r.checkWords(); err != nil {
		fix := again
		if r.Newer() != "" {
			fix = "a newer version of bakeoff wrote the file: read it with that version"
		}
		return r, fault.WithFix(fault.Wrap(fault.Invalid, "results.json", err), fix)
	}
	return r, nil
}

// checkWords refuses words that this program does not know: whoever looks for worse would
// take a comparison with an unknown verdict for one that is not worse.
func (r Results) checkWords() error {
	comparisons := r.Comparisons
	if r.Twin != nil {
		comparisons = slices.Concat(comparisons, r.Twin.Comparisons)
	}
	for _, c := range comparisons {
		verdicts := []Verdict{Better, Worse, Equivalent, Inconclusive}
		if !c.Primary {
			verdicts = append(verdicts, "")
		}
		if err := cmp.Or(oneOf("verdict", c.Verdict, verdicts...), checkDirection(c.Better, c.Scale),
			oneOf("scope", c.Scope, ScopeMachine, ScopeInstance)); err != nil {
			return fmt.Errorf("comparison of %.60q at %.60q, metric %.60q: %w", c.Contender, c.Cell, c.Metric, err)
		}
	}
	for _, cell := range r.Cells {
		for _, m := range cell.Metrics {
			if err := checkDirection(m.Better, m.Scale); err != nil {
				return fmt.Errorf("cell %.60q, metric %.60q: %w", cell.Name, m.Name, err)
			}
		}
	}
	for _, g := range r.Geomeans {
		if err := checkDirection(g.Better, sample.Ratio); err != nil {
			return fmt.Errorf("geometric mean of %.60q, metric %.60q: %w", g.Contender, g.Metric, err)
		}
	}
	for _, l := range r.Limits {
		if err := oneOf("outcome", l.Outcome, Exceeded, Kept, Undecided); err != nil {
			return fmt.Errorf("limit %.60q of %.60q at %.60q: %w", l.Condition, l.Contender, l.Cell, err)
		}
	}
	return nil
}

func checkDirection(b sample.Better, s sample.Scale) error {
	return cmp.Or(oneOf("better", b, sample.Higher, sample.Lower), oneOf("scale", s, sample.Ratio, sample.Difference))
}

// oneOf refuses the word of a field that is none of the known ones.
func oneOf[T ~string](field string, word T, known ...T) error {
	if slices.Contains(known, word) {
		return nil
	}
	return fmt.Errorf("%s is %.60q; this program knows %q", field, string(word), known)
}

// Newer says that rules computed the results that are newer than those of this program; ""
// if they are not.
func (r Results) Newer() string {
	if r.Rules <= Rules {
		return ""
	}
	return fmt.Sprintf("A newer version of bakeoff computed the results (rules %d; this program has %d): they may "+
		"contain what this program does not show.", r.Rules, Rules)
}

// Rules is the version of the gates, tests and levels that turn observations into
// verdicts. It grows whenever the same observations would give other results, so
// that verify can distinguish results by earlier rules from results that were
// tampered with. 2: the gates order and change; earlier results have no number.
// 3: MoreBlocks decides with a probability of 80 % instead of 50 %. 4: CPU time
// that no trial could measure is unavailable. 5: new wording of warnings and
// reasons. 6: BeyondMargin. 7: the gate stall. 8: the gate cpu-wait.
// 9: the gate clock-drift. 10: exact metrics. 11: cpu-wait does not apply to CPU time.
// 12: the gate own-time; path for other generators than bakeoff's; gates of the clock spare
// what the controller timed. 13: path from 75 % of the bytes on, with idle CPUs. 14: cells
// whose trials each create an environment have ScopeMachine. 15: the gate cpu-shared. 16: a difference that equals the
// limit keeps it.
const Rules = 16

// Scope says for which environments a verdict holds.
type Scope string

// The scopes.
const (
	ScopeMachine  Scope = "machine"  // each block, or each trial, had new environments
	ScopeInstance Scope = "instance" // the same environments served all blocks
)

// Results is results.json. An unknown value is null, never 0.
type Results struct {
	Schema     string  `json:"schema"`
	Rules      int     `json:"rules"` // Rules of the program that computed the results; 0 before Rules existed
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
	// InstanceSets is the number of sets of environments that served the blocks
	// one after another when one set was meant to serve them all: more than 1
	// after the run was resumed or a block was void. 0 if each block has its own.
	InstanceSets int          `json:"instance_sets,omitempty"`
	Void         int          `json:"void"`   // blocks that do not
	Unused       int          `json:"unused"` // of Blocks, those after everything was decided
	Contenders   []Contender  `json:"contenders"`
	Cells        []Cell       `json:"cells"`
	Summaries    []Summary    `json:"summaries"`
	Comparisons  []Comparison `json:"comparisons"`
	// Geomeans are only in the results of analyse.
	Geomeans []Geomean `json:"geomeans,omitempty"`
	Twin     *Twin     `json:"twin"`
	Missing  []Missing `json:"missing"`
	// Limits are the answers to the conditions of --fail-on that have a tolerance, which
	// the plan registered, or analyse was given.
	Limits []Limited `json:"limits,omitempty"`
	// Unavailable lists metrics for which no trial of a contender had a value,
	// although other metrics of the cell have values.
	Unavailable []Unavailable `json:"unavailable,omitempty"`
	// Protocols are what load generators and servers spoke; absent without a load generator,
	// and in results of earlier programs.
	Protocols []Protocol `json:"protocols,omitempty"`
	// LeftOut are the rows that analyse left out of a table, of all its experiments.
	LeftOut  int      `json:"left_out,omitempty"`
	Warnings []string `json:"warnings"`

	asked      bool // a condition has a tolerance
	limitsOnly bool // and none needs the verdicts
}

// Unavailable is a metric without values, and the reason.
type Unavailable struct {
	Contender string   `json:"contender"`
	Cell      string   `json:"cell"`
	Metric    string   `json:"metric"`
	Value     *float64 `json:"value"` // null
	Reason    string   `json:"reason"`
}

// Contender is one side of the comparisons.
type Contender struct {
	Name   string            `json:"name"`
	Driver string            `json:"driver"`
	Host   string            `json:"host"`
	TwinOf string            `json:"twin_of,omitempty"`
	Facts  map[string]string `json:"facts,omitempty"` // accelerator, runtime …
	// Params are its own parameters of workloads, by the name of the cell; Env its
	// environment variables.
	Params map[string]param.Values `json:"params,omitempty"`
	Env    map[string]string       `json:"env,omitempty"`
	Sweep  *Sweep                  `json:"sweep,omitempty"` // nil if it is not part of one
}

// Sweep is the place of a contender in a sweep: one of several contenders that were
// made of one, each with another value of something.
type Sweep struct {
	Of    string `json:"of"`   // name of the contender in the lab file
	Name  string `json:"name"` // of what is swept
	Value string `json:"value"`
}

// Cell is a workload with its parameters and metrics.
type Cell struct {
	Name     string          `json:"name"`
	Workload string          `json:"workload"`
	Params   param.Values    `json:"params"`
	Metrics  []sample.Metric `json:"metrics"`
	Fresh    bool            `json:"-"` // each of its trials created an environment
}

// Interval is a closed interval; a bound that is not finite is null.
type Interval [2]*float64

// Summary describes one contender on one cell and metric.
type Summary struct {
	Contender string `json:"contender"`
	Cell      string `json:"cell"`
	Metric    string `json:"metric"`
	Unit      string `json:"unit"`
	N         int    `json:"n"`        // trials that gave a value
	Failures  int    `json:"failures"` // trials in which the subject failed
	// Deterministic tells that the metric is exact, that there are enough trials
	// (Data.ExactTrials), and that all of them gave the same value.
	Deterministic bool     `json:"deterministic,omitempty"`
	Median        *float64 `json:"median"`
	CI            Interval `json:"ci"`       // of the median, order statistics
	CILevel       *float64 `json:"ci_level"` // coverage attained
	Samples       []Point  `json:"samples"`
	FailedAt      []Place  `json:"failed_at,omitempty"` // where the failures were
}

// Place is where in the schedule a trial was.
type Place struct {
	Block    int    `json:"block"`
	Position int    `json:"position"`
	Instance string `json:"instance,omitempty"`
}

// Point is one sample with its place in the schedule.
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
	// Unused is the number of blocks that count for this comparison but came
	// after its deciding look or after the last look.
	Unused int `json:"unused"`
	// Incomplete is the number of blocks of a table that lack trials of a side.
	Incomplete int `json:"incomplete,omitempty"`
	// Look is the number of blocks at the look that decided, or at the last look
	// so far; 0 if no look was reached.
	Look int `json:"look"`
	// Alpha is the level of error of the interval shown: 1 − Alpha is its
	// nominal coverage at this look.
	Alpha *float64 `json:"alpha"`
	// Ratio is contender / baseline in the metric's own unit, or the
	// difference where Scale is difference.
	Ratio *float64 `json:"ratio"`
	CI    Interval `json:"ci"`
	// Exact is set if all trials of each side agree: the difference then has no error,
	// and CI no width.
	Exact *Exact `json:"exact,omitempty"`
	// Failures counts the failed trials of each side in the blocks that count.
	Failures Failures `json:"failures"`
	// Interim is the unadjusted 95 % interval of all blocks so far, for display
	// while a comparison has no verdict. It decides nothing.
	Interim Interval `json:"interim"`
	// Verdict is empty for comparisons that are not primary.
	Verdict Verdict `json:"verdict,omitempty"`
	// BeyondMargin reports whether the whole interval of a verdict better or worse
	// lies outside the margin: false means that the difference may be smaller than
	// the margin. It is null without such a verdict, and in results of rules before 6.
	BeyondMargin *bool `json:"beyond_margin"`
	Scope        Scope `json:"scope"`
	// Factors are what differs on purpose between the sides.
	Factors     []Factor     `json:"factors,omitempty"`
	Gates       []Gate       `json:"gates"`
	Confounders []Confounder `json:"confounders"`
	// MoreBlocks estimates how many more blocks decide a pending comparison
	// with a probability of 80 % (stats.Likely); null if it is decided or there is
	// no estimate.
	MoreBlocks *int `json:"more_blocks"`
	hopeless   bool // no look that is left can bring a verdict; see draft.lost
	// Caveat says what the numbers do not describe: "direct=false, fits in memory".
	Caveat   string   `json:"caveat,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Failures counts the trials in which the subject failed, on both sides.
type Failures struct {
	Contender int `json:"contender"`
	Baseline  int `json:"baseline"`
	Of        int `json:"of"` // trials of each side
}

// Gate is a check that a comparison failed, which makes it inconclusive.
type Gate struct {
	Name   string `json:"name"` // ceiling, errors, throttled, swap, steal, clock, trend, order …
	Reason string `json:"reason"`
	Trials int    `json:"trials"` // trials that failed it
	Of     int    `json:"of"`
}

// Factor is a difference between the sides that the lab file makes on purpose.
type Factor struct {
	// Name is the key of the lab file: driver, cpus, tuning.NAME. Parameters of
	// workloads are params.NAME, environment variables env.NAME.
	Name      string `json:"name"`
	Baseline  string `json:"baseline"` // "" where it is not set
	Contender string `json:"contender"`
}

// Confounder is a difference between the sides other than the intended one.
type Confounder struct {
	Name      string `json:"name"`
	Baseline  string `json:"baseline"` // "unavailable" where not known
	Contender string `json:"contender"`
}

// Twin is the A/A check of the run.
type Twin struct {
	Name        string       `json:"name"`
	Comparisons []Comparison `json:"comparisons"`
	// Different means that an interval of the twin excludes no difference. The
	// page says so before anything else.
	Different bool `json:"different"`
}

// Of returns the contender of which the twin is a copy; "" if nothing compares them.
func (t *Twin) Of() string {
	if len(t.Comparisons) == 0 {
		return ""
	}
	return t.Comparisons[0].Baseline
}

// Tested reports whether a test of a primary comparison of the twin could have found a
// difference.
func (t *Twin) Tested() bool {
	return slices.ContainsFunc(t.Comparisons, func(c Comparison) bool {
		return c.Primary && len(c.Gates) == 0 && (c.Exact != nil || c.Look > 0 && c.CI[0] != nil && c.CI[1] != nil)
	})
}

// Missing is a cell of a contender without any value.
type Missing struct {
	Contender string `json:"contender"`
	Cell      string `json:"cell"`
	Reason    string `json:"reason"`
	// Gone says that the contender takes part no longer: no block will bring a value.
	Gone bool `json:"gone,omitempty"`
}

// Observation is one trial, as the input of the analysis.
type Observation struct {
	Block, Position int
	Instance        string
	Contender, Cell string
	Values          []sample.Value // none when Failed
	Failed          bool           // the subject failed: worst possible value
	Reason          string
	// Gates that this trial failed, by name, with the reason.
	Gates map[string]string
	// Clock is what passed on the environment's own clock.
	Clock ClockReading
	// Path is how it used the network path; nil if unknown, or if its load has a fixed rate.
	Path *PathUse
	// Protocol is what the load generator used, and what the server offers; nil if unknown.
	Protocol *Spoken
	// Caveat says what the trial does not describe, in a few words; "" nothing.
	Caveat string
	// Absent says by metric why the trial has no value of it.
	Absent map[string]string
}

// Spoken is the protocol of the requests of a trial, and those that its server offers.
type Spoken struct {
	Used    string
	Offered []string
}

// Data is the input of Analyse.
type Data struct {
	Run, PlanSHA256 string
	Seed            uint64
	Baseline, Twin  string // Twin "" when there is none
	Contenders      []Contender
	Cells           []Cell // Metric.Primary as registered
	Margin          float64
	Looks           []int
	Alphas          []float64
	FailOn          []string // registered conditions; those with a tolerance are questions of their own
	ExactTrials     int      // trials of each side that must agree before a metric counts as exact; below Repeats: Repeats
	Scope           Scope
	Observations    []Observation // of blocks that count, in any order
	// Trials is the planned number of trials of a cell per contender and block;
	// 0 if unknown: then both sides need the same number.
	Trials  int
	Void    int
	Ended   string
	Missing []Missing
	// NoEnergy is contender → reason why energy metrics may have no value.
	// NoGeneratorEnergy is the same for the host of the load generator; it has no
	// entry for a contender whose load comes from its own host.
	NoEnergy, NoGeneratorEnergy map[string]string
	// Facts is contender → fact → value, for confounders; Meant lists the facts
	// that are intended to differ.
	Facts map[string]map[string]string
	Meant []string
	// MeantFor is contender → facts that are intended to differ from those of the
	// baseline for this contender alone.
	MeantFor map[string][]string
	// Factors is contender → cell → what differs on purpose.
	Factors map[string]map[string][]Factor
	// Hosts is contender → machine that it runs on; empty if unknown.
	Hosts map[string]Placement
	// Elsewhere means that another program measured the numbers: nobody knows
	// whether orders were random, so one order in all blocks fails a gate.
	Elsewhere bool
}
