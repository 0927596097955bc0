// Package dryrun says what a plan would do without starting it: how long it
// takes, what it can decide, and what is missing on which host.
package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/calibration"
	"bakeoff/lab/diagnosis"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/lab/inputs"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/measure/workload"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
)

// View is a plan with its estimates, and with what is missing for it.
type View struct {
	*plan.Plan
	SHA256   string                   `json:"plan_sha256"`
	Ready    Ready                    `json:"ready"`
	Estimate Estimate                 `json:"estimate"`
	Here     []preflight.Availability `json:"available"`
	// Missing are programs that a host lacks, other than those of drivers.
	Missing []diagnosis.Finding `json:"missing"`
	// Factors are what differs on purpose from the baseline.
	Factors []Factored `json:"factors"`
	// Energy says for each host what measures its energy.
	Energy []diagnosis.Energy `json:"energy"`
	// Notes say where a run will differ from what the lab file asks for.
	Notes []string `json:"notes"`
	// Timed are the commands without an estimate that were executed once.
	Timed []Timing `json:"timed"`
	// Images are those that bakeoff does not build.
	Images []inputs.Source `json:"images"`
	// Install is the command for this machine, InstallOn that of other hosts.
	Install   string            `json:"install"`
	InstallOn map[string]string `json:"install_on"`
	// Gone are contenders that a run leaves out, and Unfit cells of the others.
	Gone  map[string]bool     `json:"-"`
	Unfit map[plan.Place]bool `json:"-"`
	// Seen is what the hosts answered.
	Seen preflight.Survey `json:"-"`
	// Agent is why bakeoff-agent cannot be used on this machine; nil if it can.
	Agent error `json:"-"`
}

// Refusal returns why a run would refuse to start; nil if it would not. As in a run,
// errors in cells are found before the agent is, and all others after it.
func (v View) Refusal() error {
	if v.Agent != nil && len(v.Seen.Wrong) == 0 {
		return v.Agent
	}
	return v.Seen.Refusal()
}

// Ready is how much of a plan can run.
type Ready struct {
	Contenders int    `json:"contenders"` // without the twin
	Able       int    `json:"can_run"`
	Exit       int    `json:"exit_code"` // of a run, as far as plan can know
	Text       string `json:"text,omitempty"`
}

// Estimate is a plan.Estimate for JSON: what is impossible is null.
type Estimate struct {
	Trials      int     `json:"trials"`
	Comparisons int     `json:"comparisons"` // primary ones of contenders and cells that can run
	BlockNS     int64   `json:"block_ns"`
	TotalNS     int64   `json:"total_ns"`
	BudgetNS    int64   `json:"budget_ns"`
	Blocks      int     `json:"blocks"`
	NoiseSD     float64 `json:"noise_sd"`
	NoiseSource string  `json:"noise_source"`
	Looks       []Look  `json:"looks"`
	// Wanted is the answer to --difference; null without it.
	Wanted *Need `json:"wanted"`
	// ByCPU is the same for comparisons of CPU time, with its own noise; null
	// where that is unknown, or all comparisons are of CPU time.
	ByCPU *Estimate `json:"by_cpu"`
}

// Factored is what the lab file makes different on purpose between a contender and
// the baseline, at cells where that is the same.
type Factored struct {
	Contender string            `json:"contender"`
	Cells     []string          `json:"cells"`
	Factors   []analysis.Factor `json:"factors"` // none: the baseline once more
}

// Need is a plan.Need for JSON.
type Need struct {
	Difference float64 `json:"difference"`
	Blocks     *int    `json:"blocks"`  // null: it cannot be detected
	Planned    bool    `json:"planned"` // a look of the plan is at Blocks
	Reached    bool    `json:"reached"` // and within the budget
	AtNS       int64   `json:"at_ns"`
	Mean       float64 `json:"mean_blocks"` // used on average within looks and budget
	Power      float64 `json:"power"`       // probability that it is detected
}

// Look is one interim analysis of a plan.
type Look struct {
	Blocks   int   `json:"blocks"`
	AtNS     int64 `json:"at_ns"`
	Reached  bool  `json:"reached"`
	Possible bool  `json:"possible"`
	// Smallest and Equivalence are shares: 0.03 is 3 %.
	Smallest    *float64 `json:"smallest"`
	Equivalence *float64 `json:"equivalence"`
}

// Options says what is asked of a dry run.
type Options struct {
	Budget     time.Duration // 0: the plan's
	Difference float64       // a share that is to be found; 0: none
	// Time executes commands of this machine once that have no estimate. Timed are what
	// that gave.
	Time    bool
	Timed   []Timing
	Sources string // folder that the files of the plan are relative to
	Images  []inputs.Source
	// Gone are contenders that cannot run, and Unfit cells that others cannot: no time is
	// planned for them.
	Gone  map[string]bool
	Unfit map[plan.Place]bool
}

// Of looks at what p asks of its hosts. The error of a run that would be
// refused, or end with missing cells, is left to the caller: see View.Refusal and
// View.Seen.
func Of(ctx context.Context, at hosts.Controller, p *plan.Plan, o Options) (View, error) {
	text, err := plan.Encode(p)
	if err != nil {
		return View{}, err
	}
	v := View{Plan: p, SHA256: plan.Hash(text), Missing: []diagnosis.Finding{}, Factors: FactorsOf(p), Notes: []string{},
		Images: append([]inputs.Source{}, o.Images...), Timed: []Timing{}}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, diagnosis.CheckTime*time.Duration(len(p.Contenders)+1))
	defer cancel()
	reached := at.Reach(ctx, p, 0, nil)
	defer reached.Close()
	site := reached.Site(driverall.Drivers())
	site.Sources = o.Sources
	seen, err := preflight.Inspect(ctx, p, site)
	if err != nil {
		return v, err
	}
	v.Seen = seen
	if seen.Refusal() == nil {
		v.Gone, v.Unfit = seen.Rest()
		o.Gone, o.Unfit = v.Gone, v.Unfit
	}
	v.Estimate = EstimateOf(p, o, calibration.Noise(at))
	v.Ready.Able, v.Ready.Contenders = seen.Count()
	v.Notes = append(append(v.Notes, seen.Notes...), unvaried(v.Factors)...)
	if _, v.Agent = at.Agent(); v.Agent != nil {
		v.Missing = append(v.Missing, diagnosis.Finding{Name: "bakeoff-agent", State: diagnosis.Missing,
			Text: v.Agent.Error()})
	}
	wants := hosts.Wants{}
	for _, x := range seen.Settled() {
		if x.Contender == p.Twin {
			continue
		}
		v.Here = append(v.Here, x)
		if c, _ := p.Contender(x.Contender); !x.Answer.OK {
			wants.Add(c.Host, x.Answer.Programs, x.Answer.Packages)
		}
	}
	for _, l := range seen.Lacks {
		v.Missing = append(v.Missing, diagnosis.Lack(l))
		wants.Add(l.Host, []string{l.Program}, l.Packages)
	}
	for _, x := range seen.Absent {
		v.Missing = append(v.Missing, diagnosis.Absence(x))
	}
	for _, u := range seen.Unfit {
		v.Missing = append(v.Missing, diagnosis.Finding{Name: "cell " + u.Cell, State: diagnosis.Missing,
			Text: "it cannot run in " + strings.Join(u.Contenders, ", ") + ": " + u.Err.Error()})
	}
	for _, err := range seen.Wrong {
		v.Missing = append(v.Missing, diagnosis.Finding{Name: "refused", State: diagnosis.Missing, Text: err.Error()})
	}
	for _, text := range seen.Unmet {
		v.Missing = append(v.Missing, diagnosis.Finding{Name: "hosts", State: diagnosis.Missing, Text: text})
	}
	builder, more := diagnosis.BuilderFindings(makesImages(p))
	for _, f := range builder {
		if f.State == diagnosis.Missing {
			v.Missing = append(v.Missing, f)
		}
	}
	wants.Add(env.LocalHost, nil, more)
	v.Install, v.InstallOn = wants.Lines(ctx, reached.Conn)
	v.Energy = diagnosis.EnergyEnds(ctx, reached, p)
	if o.Time && v.Refusal() == nil {
		v.Timed = append(v.Timed, timeCommands(whole, at.Conn(), p, v.able)...)
		o.Timed = v.Timed
		v.Estimate = EstimateOf(p, o, calibration.Noise(at))
	}
	return v, nil
}

// able tells whether a contender can run, as far as its host answered.
func (v View) able(contender string) bool {
	return slices.ContainsFunc(v.Here, func(a preflight.Availability) bool {
		return a.Contender == contender && a.Answer.OK
	})
}

// FactorsOf returns the factors of every contender of a plan, without the baseline
// and its twin.
func FactorsOf(p *plan.Plan) []Factored {
	out := []Factored{}
	for _, c := range p.Contenders {
		if c.Name == p.Baseline || c.TwinOf != "" {
			continue
		}
		from := len(out)
		for _, cell := range p.Cells {
			f := Factored{Contender: c.Name, Cells: []string{cell.Name}, Factors: []analysis.Factor{}}
			f.Factors = append(f.Factors, p.Factors(c.Name, cell.Name)...)
			i := slices.IndexFunc(out[from:], func(o Factored) bool { return slices.Equal(o.Factors, f.Factors) })
			if i >= 0 {
				out[from+i].Cells = append(out[from+i].Cells, cell.Name)
			} else {
				out = append(out, f)
			}
		}
	}
	return out
}

// unvaried names the cells at which a contender is the baseline once more, although
// it differs at other cells: a run measures them in vain.
func unvaried(all []Factored) (out []string) {
	for _, f := range all {
		differs := slices.ContainsFunc(all, func(o Factored) bool { return o.Contender == f.Contender && len(o.Factors) > 0 })
		if len(f.Factors) == 0 && differs {
			out = append(out, fmt.Sprintf("%s does not differ from the baseline on purpose at %s; leave these cells to "+
				"another lab file", f.Contender, strings.Join(f.Cells, ", ")))
		}
	}
	return out
}

// makesImages reports whether a contender needs something that is built first: an image
// of a distribution, or a kernel.
func makesImages(p *plan.Plan) bool {
	for _, c := range p.Contenders {
		for _, d := range driverall.Drivers() {
			if doc := d.Doc(); doc.Name == c.Driver && doc.Image && c.Image != "" && !strings.HasPrefix(c.Image, "/") &&
				(c.Pinned == nil || doc.Kernel) {
				return true
			}
		}
	}
	return false
}

// What creating an environment takes, roughly, until it was measured.
const (
	createBare   = 100 * time.Millisecond
	createImage  = 400 * time.Millisecond
	createKernel = 8 * time.Second
	bootTime     = 2 * time.Minute // of a machine, into another system
	settle       = 40 * time.Millisecond
)

func costs(p *plan.Plan, noise plan.Noise, o Options) plan.Costs {
	c := plan.Costs{Trial: map[string]time.Duration{}, Create: map[string]time.Duration{}, Fresh: map[string]bool{},
		Own: map[string]map[string]time.Duration{}, Settle: settle, Boot: bootTime, Noise: noise,
		Gone: o.Gone, Unfit: o.Unfit}
	for _, d := range driverall.Drivers() {
		c.Create[d.Doc().Name] = createTime(d.Doc())
	}
	took := estimates(p, o.Timed)
	for _, cell := range p.Cells {
		for _, w := range workloadall.Parsers() {
			if doc := w.Doc(); doc.Name == cell.Workload && doc.Time != nil {
				c.Trial[cell.Name], c.Fresh[cell.Name] = doc.Time(cell.Params), doc.State == workload.Fresh
				for _, x := range p.Contenders {
					if len(x.Params[cell.Name]) == 0 && took[x.Name][cell.Name] == 0 {
						continue
					}
					lists.Inner(c.Own, x.Name)[cell.Name] = doc.Time(withEstimate(x.CellOf(cell.Cell).Params,
						took[x.Name][cell.Name]))
				}
			}
		}
	}
	return c
}

func createTime(d driver.Doc) time.Duration {
	switch {
	case d.Kernel:
		return createKernel
	case d.Image:
		return createImage
	}
	return createBare
}

// EstimateOf says what p is expected to take and to decide within the budget, and
// what finding the difference takes, if one is asked for.
func EstimateOf(p *plan.Plan, o Options, noise plan.Noise) Estimate {
	q := *p
	if o.Budget > 0 {
		q.Design.Budget = o.Budget
	}
	e := q.Estimate(costs(p, noise, o))
	v := viewEstimate(e, o.Difference)
	if e.ByCPU != nil {
		v.ByCPU = new(viewEstimate(*e.ByCPU, o.Difference))
	}
	return v
}

func viewEstimate(e plan.Estimate, difference float64) Estimate {
	v := Estimate{
		Trials: e.Trials, Comparisons: e.Open, BlockNS: int64(e.Block),
		TotalNS: int64(e.Total), BudgetNS: int64(e.Budget), Blocks: e.Blocks,
		NoiseSD: e.Noise.SD, NoiseSource: e.Noise.Source, Looks: []Look{},
	}
	for _, l := range e.Looks {
		v.Looks = append(v.Looks, Look{
			Blocks: l.Blocks, AtNS: int64(l.At), Reached: l.Reached, Possible: l.Possible,
			Smallest: sample.Finite(l.Smallest), Equivalence: sample.Finite(l.Equivalence),
		})
	}
	if difference > 0 {
		n := e.Needs(difference)
		v.Wanted = &Need{Difference: difference, Planned: n.Planned, Reached: n.Reached, AtNS: int64(n.At), Mean: n.Mean,
			Power: n.Power}
		if n.Blocks > 0 {
			v.Wanted.Blocks = &n.Blocks
		}
	}
	return v
}
