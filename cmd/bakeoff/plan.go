package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/lab/env"
	"bakeoff/lab/plan"
	"bakeoff/lab/trial"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
)

func (a *app) plan() *cobra.Command {
	var (
		f      labFlags
		budget time.Duration
		seed   uint64
		asJSON bool
		blocks int
		wanted string
	)
	c := &cobra.Command{
		Use:   "plan [LAB]",
		Short: "Say what would run, how long it takes, what it can decide, what is missing",
		Long: `plan draws the schedule of a lab file and starts nothing. It says what would
run in which order, how long that takes, which differences it can be expected
to find, and what is missing on this machine with the command that installs it.

It exits as run would, as far as that is known before the first trial: 4 where
contenders or cells would be missing, 2 where a cell can have no trial, 1 where
run would refuse to begin.`,
		Example: `  bakeoff plan examples/quick
  bakeoff plan lab.yaml --budget 1h            what an hour could decide
  bakeoff plan lab.yaml --difference 1%        how long it takes to find 1 %
  bakeoff plan lab.yaml --seed 42 --blocks 26  the whole schedule of a seed
  bakeoff plan lab.yaml --json | jq .estimate`,
		Args: between(0, 1, "a lab file"),
		RunE: func(c *cobra.Command, args []string) error {
			if blocks < 0 {
				return usage(c, fmt.Errorf("--blocks %d is no number of blocks that can be shown", blocks))
			}
			if budget < 0 {
				return usage(c, fmt.Errorf("--budget %v is no time that can be spent", budget))
			}
			difference, err := parseDifference(wanted)
			if err != nil {
				return usage(c, err)
			}
			lab, err := f.load(args)
			if err != nil {
				return err
			}
			drawn := seed == 0
			if drawn {
				seed = drawSeed()
			}
			p, err := plan.Expand(lab, catalogue(), seed, versionString())
			if err != nil {
				return err
			}
			v, err := a.view(c.Context(), p, budget, difference)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(v)
			} else {
				a.printPlan(v, lab.Path, drawn, blocks)
			}
			return errors.Join(err, v.ends)
		},
	}
	fl := c.Flags()
	fl.Uint64Var(&seed, "seed", 0, "`number` that the schedule is drawn from; 0 draws one")
	fl.DurationVar(&budget, "budget", 0, "`time` in which blocks may start, instead of the lab file's")
	fl.StringSliceVar(&f.only, "only", nil, "plan this `cell` only; may be given more than once")
	fl.StringVar(&f.profile, "profile", "", "`name` of a profile of the lab file")
	fl.StringVar(&wanted, "difference", "", "`share` of which it is said how many blocks and how long finding it takes: 1% or 0.01")
	fl.IntVar(&blocks, "blocks", 1, "`number` of blocks whose schedule is shown")
	fl.BoolVar(&asJSON, "json", false, "print the plan as one JSON object, with estimate and availability")
	completeLabFlags(c)
	return c
}

// planView is a plan with what can be said of it beforehand.
type planView struct {
	*plan.Plan
	SHA256   string               `json:"plan_sha256"`
	Ready    readyView            `json:"ready"`
	Estimate estimateView         `json:"estimate"`
	Here     []trial.Availability `json:"available"`
	// Missing are programs that a host lacks beside those of drivers.
	Missing []finding `json:"missing"`
	// Energy says of each host what counts its energy.
	Energy []energyView `json:"energy"`
	// Notes are what will be otherwise than the lab file asks for.
	Notes []string `json:"notes"`
	// Install is the command for this machine, InstallOn that of other hosts.
	Install   string            `json:"install"`
	InstallOn map[string]string `json:"install_on"`
	ends      error             // how run would end
}

// readyView is how much of a plan can run.
type readyView struct {
	Contenders int    `json:"contenders"` // without the twin
	Able       int    `json:"can_run"`
	Exit       int    `json:"exit_code"` // of a run, as far as is known beforehand
	Text       string `json:"text,omitempty"`
}

// estimateView is a plan.Estimate for JSON: what cannot be is null.
type estimateView struct {
	Trials      int        `json:"trials"`
	BlockNS     int64      `json:"block_ns"`
	TotalNS     int64      `json:"total_ns"`
	BudgetNS    int64      `json:"budget_ns"`
	Blocks      int        `json:"blocks"`
	NoiseSD     float64    `json:"noise_sd"`
	NoiseSource string     `json:"noise_source"`
	Looks       []lookView `json:"looks"`
	// Wanted is what --difference asked for; null where it did not.
	Wanted *needView `json:"wanted"`
	// ByCPU is the same for comparisons of CPU time, with its own noise; null
	// where that is not known, or there are no others.
	ByCPU *estimateView `json:"by_cpu"`
}

// needView is a plan.Need for JSON.
type needView struct {
	Difference float64 `json:"difference"`
	Blocks     *int    `json:"blocks"`  // null: it cannot be told
	Planned    bool    `json:"planned"` // a look of the plan is at Blocks
	Reached    bool    `json:"reached"` // and within the budget
	AtNS       int64   `json:"at_ns"`
	Mean       float64 `json:"mean_blocks"` // used on average within looks and budget
	Power      float64 `json:"power"`       // probability that it is found by then
}

type lookView struct {
	Blocks   int   `json:"blocks"`
	AtNS     int64 `json:"at_ns"`
	Reached  bool  `json:"reached"`
	Possible bool  `json:"possible"`
	// Smallest and Equivalence are shares: 0.03 is 3 %.
	Smallest    *float64 `json:"smallest"`
	Equivalence *float64 `json:"equivalence"`
}

func (a *app) view(ctx context.Context, p *plan.Plan, budget time.Duration, difference float64) (planView, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	text, err := plan.Encode(p)
	if err != nil {
		return planView{}, err
	}
	v := planView{Plan: p, SHA256: plan.Hash(text), Estimate: estimate(p, budget, a.noise(), difference), Missing: []finding{}, Notes: []string{}}
	ctx, cancel := context.WithTimeout(ctx, checkTime*time.Duration(len(p.Contenders)+1))
	defer cancel()
	hosts := a.reach(ctx, p, 0, nil)
	defer hosts.close()
	seen, err := trial.Look(ctx, p, hosts.site(driverall.Drivers()))
	if err != nil {
		return v, err
	}
	v.Ready, v.ends = ready(seen)
	v.Notes = append(v.Notes, seen.Notes...)
	wants := wants{}
	for _, x := range seen.Answers {
		if x.Contender == p.Twin {
			continue
		}
		v.Here = append(v.Here, x)
		if c, _ := p.Contender(x.Contender); !x.Answer.OK {
			wants.add(c.Host, x.Answer.Programs, x.Answer.Packages)
		}
	}
	for _, l := range seen.Lacks {
		v.Missing = append(v.Missing, lackFinding(l))
		wants.add(l.Host, []string{l.Program}, l.Packages)
	}
	for _, x := range seen.Absent {
		v.Missing = append(v.Missing, absentFinding(x))
	}
	for _, err := range seen.Wrong {
		v.Missing = append(v.Missing, finding{Name: "refused", State: absent, Text: err.Error()})
	}
	for _, text := range seen.Unmet {
		v.Missing = append(v.Missing, finding{Name: "hosts", State: absent, Text: text})
	}
	builder, more := builderFindings(makesImages(p))
	for _, f := range builder {
		if f.State == absent {
			v.Missing = append(v.Missing, f)
		}
	}
	wants.add(env.LocalHost, nil, more)
	v.Install, v.InstallOn = wants.lines(ctx, hosts.way)
	v.Energy = hosts.energyEnds(ctx, p)
	return v, nil
}

// lackFinding is a program that a host lacks.
func lackFinding(l trial.Lack) finding {
	f := finding{Name: l.Program, State: absent, Fix: l.Fix, Text: strings.Join(l.Contenders, ", ") + " needs it at " + strings.Join(l.Cells, ", ")}
	if l.Host != env.LocalHost {
		f.Text += ", on " + l.Host
	}
	return f
}

// absentFinding is a file that contenders do not have.
func absentFinding(x trial.Absence) finding {
	return finding{Name: "cell " + x.Cell, State: absent, Text: x.String() + "; " + x.Fix}
}

// ready says how run would end, as far as that is known, and with which error
// plan ends therefore.
func ready(seen trial.Survey) (readyView, error) {
	r := readyView{}
	r.Able, r.Contenders = seen.Count()
	err := seen.Refusal()
	switch {
	case err != nil:
		r.Text = "run refuses to begin"
	case seen.Short():
		r.Text, err = "a run ends with missing cells", verdict{exitMissing, ""}
	}
	r.Exit = exitCode(err)
	return r, err
}

// makesImages says whether a contender is made from an image that is made first.
func makesImages(p *plan.Plan) bool {
	for _, c := range p.Contenders {
		for _, d := range driverall.Drivers() {
			if doc := d.Doc(); doc.Name == c.Driver && doc.Image && c.Image != "" && !strings.HasPrefix(c.Image, "/") {
				return true
			}
		}
	}
	return false
}

// What making an environment takes, roughly, until it has been seen here.
const (
	createBare   = 100 * time.Millisecond
	createImage  = 400 * time.Millisecond
	createKernel = 8 * time.Second
	bootTime     = 2 * time.Minute // of a machine, into another system
	settle       = 40 * time.Millisecond
)

func costs(p *plan.Plan, noise plan.Noise) plan.Costs {
	c := plan.Costs{Trial: map[string]time.Duration{}, Create: map[string]time.Duration{}, Fresh: map[string]bool{}, Settle: settle, Boot: bootTime, Noise: noise}
	for _, d := range driverall.Drivers() {
		c.Create[d.Doc().Name] = createTime(d.Doc())
	}
	for _, cell := range p.Cells {
		for _, w := range workloadall.Workloads() {
			if doc := w.Doc(); doc.Name == cell.Workload && doc.Time != nil {
				c.Trial[cell.Name], c.Fresh[cell.Name] = doc.Time(cell.Params), doc.State == "fresh"
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

// maxDifference is a hundredfold: more needs no statistics.
const maxDifference = 100

// parseDifference reads a share, 1% or 0.01; 0 for none.
func parseDifference(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v <= maxDifference) {
		return 0, fmt.Errorf("--difference %q is no share of a difference; 1%% or 0.01 is one", s)
	}
	return v, nil
}

// estimate tells what p can be expected to take and to decide within budget,
// 0 for the plan's own, and what finding a difference takes, if it is not 0.
func estimate(p *plan.Plan, budget time.Duration, noise plan.Noise, difference float64) estimateView {
	q := *p
	if budget > 0 {
		q.Design.Budget = budget
	}
	e := q.Estimate(costs(p, noise))
	v := viewEstimate(e, difference)
	if e.ByCPU != nil {
		by := viewEstimate(*e.ByCPU, difference)
		v.ByCPU = &by
	}
	return v
}

func viewEstimate(e plan.Estimate, difference float64) estimateView {
	v := estimateView{
		Trials: e.Trials, BlockNS: int64(e.Block), TotalNS: int64(e.Total), BudgetNS: int64(e.Budget), Blocks: e.Blocks,
		NoiseSD: e.Noise.SD, NoiseSource: e.Noise.Source, Looks: []lookView{},
	}
	for _, l := range e.Looks {
		v.Looks = append(v.Looks, lookView{
			Blocks: l.Blocks, AtNS: int64(l.At), Reached: l.Reached, Possible: l.Possible,
			Smallest: finite(l.Smallest), Equivalence: finite(l.Equivalence),
		})
	}
	if difference > 0 {
		n := e.Needs(difference)
		v.Wanted = &needView{Difference: difference, Planned: n.Planned, Reached: n.Reached, AtNS: int64(n.At), Mean: n.Mean, Power: n.Power}
		if n.Blocks > 0 {
			v.Wanted.Blocks = &n.Blocks
		}
	}
	return v
}

func finite(f float64) *float64 {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil
	}
	return &f
}

// printPlan tells a plan to a person.
func (a *app) printPlan(v planView, path string, drawn bool, blocks int) {
	s := a.style(a.stdout)
	columns, _ := a.size(a.stdout)
	head := fmt.Sprintf("%s (%s), seed %d", v.Lab, path, v.Seed)
	if v.Profile != "" {
		head = fmt.Sprintf("%s (%s, profile %s), seed %d", v.Lab, path, v.Profile, v.Seed)
	}
	fmt.Fprintln(a.stdout, s.paint(bold, head))
	a.planReady(v.Ready)
	if drawn {
		for _, line := range wrap("The seed was drawn now; run draws another one unless it is given "+whole(fmt.Sprintf("--seed %d.", v.Seed)), columns) {
			fmt.Fprintln(a.stdout, line)
		}
	}
	a.planContenders(v, columns)
	a.planCells(v, columns)
	a.planSchedule(v, columns, blocks)
	a.planEstimate(v, columns)
	if len(v.Missing) > 0 || v.Install != "" || len(v.InstallOn) > 0 {
		a.heading("Missing")
	}
	for _, f := range v.Missing {
		a.paragraph("", f.Name+": "+f.Text)
	}
	if v.Install != "" {
		fmt.Fprintln(a.stdout, "  "+v.Install)
	}
	for _, host := range sortedKeys(v.InstallOn) {
		fmt.Fprintf(a.stdout, "  on %s: %s\n", host, v.InstallOn[host])
	}
}

// planReady says first what decides whether the rest is worth reading.
func (a *app) planReady(r readyView) {
	text := fmt.Sprintf("%d of %d contenders can run here", r.Able, r.Contenders)
	if r.Exit == exitDone {
		a.paragraph(green, text+".")
		return
	}
	a.paragraph(red, fmt.Sprintf("%s; %s, with exit code %d.", text, r.Text, r.Exit))
}

func (a *app) heading(text string) {
	fmt.Fprintln(a.stdout, "\n"+a.style(a.stdout).paint(bold, text))
}

func (a *app) planContenders(v planView, columns int) {
	a.heading("Contenders")
	t := table{head: []string{"  NAME", "DRIVER", "IMAGE", "CPUS", "MEMORY", "HERE"}}
	for _, x := range v.Here {
		i := slices.IndexFunc(v.Contenders, func(c plan.Contender) bool { return c.Name == x.Contender })
		c := v.Contenders[i]
		here := cell{"ready", green}
		if text := checkLine(x.Answer); x.Answer.OK && text != "" {
			here.text += ": " + text
		} else if !x.Answer.OK {
			here = cell{"missing: " + text, red}
		}
		name := c.Name
		if name == v.Baseline {
			name = whole(name + " (baseline)")
		}
		memory := c.Memory.String()
		if c.Memory == 0 {
			memory = "–"
		}
		t.add(cell{text: "  " + name}, cell{text: c.Driver}, cell{text: cmp.Or(c.Image, "–")}, cell{text: fmt.Sprint(c.CPUs)}, cell{text: memory}, here)
	}
	t.print(a.stdout, a.style(a.stdout), columns)
	a.planEmulated(v)
	for _, note := range v.Notes {
		a.paragraph(yellow, note+".")
	}
	a.paragraph("", v.Twin+" is the baseline a second time, to see what no difference looks like here.")
	if g := v.Generator; g != "" {
		for _, name := range sortedKeys(v.Hosts) {
			if link := v.Hosts[name].Uplink; name == g {
				a.paragraph("", fmt.Sprintf("Load comes from host %s over its interface %s, which is taken for as long as the run lasts.", g, link))
			} else if link != "" {
				a.paragraph("", fmt.Sprintf("Host %s gets it over %s, which is taken as well.", name, link))
			}
		}
	}
	a.planEnergy(v)
}

// planEmulated names the machines whose processor a program will stand for:
// nothing else that plan says is so easily overlooked, and changes so much.
func (a *app) planEmulated(v planView) {
	for _, x := range v.Here {
		if x.Answer.OK && x.Answer.Facts[driver.FactAccelerator] == driver.Emulated {
			a.paragraph(yellow, x.Contender+" will be emulated here: a program takes the place of its processor, which makes most of what it does many times slower. What it measures says nothing about the same machine with hardware virtualisation.")
		}
	}
}

func (a *app) planCells(v planView, columns int) {
	a.heading("Cells")
	t := table{head: []string{"  NAME", "WORKLOAD", "VERDICTS ON", "PARAMETERS"}}
	for _, c := range v.Cells {
		t.row("  "+c.Name, c.Workload, cmp.Or(strings.Join(c.Primary, ", "), "–"), strings.ReplaceAll(strings.Join(c.Params.Args(), " "), "\n", ","))
	}
	t.print(a.stdout, a.style(a.stdout), columns)
}

func (a *app) planSchedule(v planView, columns, blocks int) {
	a.heading("Schedule")
	spare := 0
	for _, b := range v.Blocks {
		if b.Spare {
			spare++
		}
	}
	trials := 0
	if len(v.Blocks) > 0 {
		trials = len(v.Blocks[0].Slots())
	}
	a.paragraph("", fmt.Sprintf("at most %d blocks of %d trials, and %d spare ones for those that our own failures make void", len(v.Blocks)-spare, trials, spare))
	for _, b := range v.Blocks[:min(max(blocks, 0), len(v.Blocks))] {
		t := table{head: []string{"", ""}}
		t.row(fmt.Sprintf("  block %d", b.Index+1), "made in the order "+strings.Join(b.Create, ", "))
		for i, visit := range b.Visits {
			if len(b.Boots) > 0 && (i == 0 || b.Visits[i-1].Boot != visit.Boot) {
				if boot := b.Boots[visit.Boot]; boot.Host != "" {
					t.row("    boot", boot.Host+" into "+boot.System)
				}
			}
			t.row("    "+visit.Cell, strings.Join(visit.Order, " "))
		}
		t.body(a)
	}
	if rest := len(v.Blocks) - blocks; rest > 0 {
		fmt.Fprintf(a.stdout, "  … and %d more: --blocks %d shows all\n", rest, len(v.Blocks))
	}
}

func (a *app) planEstimate(v planView, columns int) {
	a.heading("Time, and what it can decide")
	e := v.Estimate
	block, total := time.Duration(e.BlockNS), time.Duration(e.TotalNS)
	text := fmt.Sprintf("A block takes about %s, all of them %s.", round(block), round(total))
	if e.BudgetNS > 0 {
		text += " " + whole(fmt.Sprintf("The budget of %s lasts for about %d.", round(time.Duration(e.BudgetNS)), e.Blocks))
	}
	a.paragraph("", text)
	a.paragraph("", "Images that are not in the cache are built before, once, in a minute or so each.")
	switch {
	case len(e.Looks) == 0:
		a.paragraph("", "It exercises everything and decides nothing: there are too few blocks for a look.")
	case len(v.Family) == 0:
		a.paragraph(yellow, noVerdicts(v.Plan))
	default:
		a.planLooks(v, columns)
	}
}

// noVerdicts says why a plan has no primary comparison.
func noVerdicts(p *plan.Plan) string {
	if !slices.ContainsFunc(p.Contenders, func(c plan.Contender) bool { return c.Name != p.Baseline && c.TwinOf == "" }) {
		return "It decides nothing: there is no contender beside the baseline and its twin."
	}
	return "It decides nothing: no cell is primary; write primary: true into those that are to have verdicts."
}

// planLooks says what each look can be expected to decide.
func (a *app) planLooks(v planView, columns int) {
	e := v.Estimate
	t := table{head: []string{"  LOOK AT", "AFTER ABOUT", "FINDS A DIFFERENCE OF", "FINDS EQUAL WITHIN"}}
	if e.ByCPU != nil {
		t.head = append(t.head, "BY CPU TIME", "EQUAL WITHIN")
	}
	t.head = append(t.head, "")
	for i, l := range e.Looks {
		note := ""
		switch {
		case !l.Reached:
			note = "beyond the budget"
		case !l.Possible:
			note = "too few for so many comparisons"
		}
		row := []string{"  " + whole(fmt.Sprintf("%d blocks", l.Blocks)), round(time.Duration(l.AtNS)), whole(percent(l.Smallest)), whole(percent(l.Equivalence))}
		if e.ByCPU != nil {
			by := e.ByCPU.Looks[i]
			row = append(row, whole(percent(by.Smallest)), whole(percent(by.Equivalence)))
		}
		t.row(append(row, note)...)
	}
	t.print(a.stdout, a.style(a.stdout), columns)
	a.paragraph("", fmt.Sprintf("with 80 %% probability, %s. Noise: %s.", openText(len(v.Family)), e.NoiseSource))
	a.paragraph("", marginText(v.Design.Margin, e.Looks))
	if e.Wanted != nil {
		text := wantedText(*e.Wanted)
		if e.ByCPU != nil {
			text += " By CPU time: " + wantedText(*e.ByCPU.Wanted)
		}
		a.paragraph("", text)
	}
}

// marginText says what equivalent means, and from which look on it can be told.
func marginText(margin float64, looks []lookView) string {
	text := fmt.Sprintf("Equivalent means within the margin of %s", percent(&margin))
	for _, l := range looks {
		if l.Equivalence != nil && *l.Equivalence <= margin {
			if l.Reached {
				return text + fmt.Sprintf(": to be expected from the look at %d blocks on.", l.Blocks)
			}
			return text + fmt.Sprintf(": to be expected from the look at %d blocks on, which is beyond the budget.", l.Blocks)
		}
	}
	return text + ", which no look here can be expected to tell: it takes more blocks, less noise or a larger design.margin."
}

func openText(n int) string {
	if n == 1 {
		return "for the one primary comparison"
	}
	return fmt.Sprintf("while all %d primary comparisons are open; fewer open ones need less", n)
}

// wantedText says what a wanted difference takes.
func wantedText(n needView) string {
	s := fmt.Sprintf("A difference of %s ", percent(&n.Difference))
	switch {
	case n.Blocks == nil:
		return s + "cannot be found with these looks: they have too few blocks for so many comparisons."
	case n.Reached:
		s += fmt.Sprintf("is found with 80 %% probability by the look at %d blocks, after about %s", *n.Blocks, round(time.Duration(n.AtNS)))
	case n.Planned:
		s += fmt.Sprintf("needs the look at %d blocks, after about %s, which is beyond the budget", *n.Blocks, round(time.Duration(n.AtNS)))
	default:
		s += fmt.Sprintf("needs about %d blocks, which take about %s: give design.looks a last one there", *n.Blocks, round(time.Duration(n.AtNS)))
	}
	return s + fmt.Sprintf(". This plan finds it with %.0f %% probability, in %.0f blocks on average.", 100*n.Power, n.Mean)
}

func percent(f *float64) string {
	if f == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100**f)
}

// round writes a duration with as many digits as an estimate deserves.
func round(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Second:
		d = d.Round(time.Second)
	default:
		d = d.Round(10 * time.Millisecond)
	}
	return d.String()
}
