package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/lab/dryrun"
	"bakeoff/lab/inputs"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
	"bakeoff/provision/driver"
)

func (a *app) planCommand() *cobra.Command {
	var (
		f      labFlags
		budget time.Duration
		seed   uint64
		asJSON bool
		blocks int
		noTime bool
		wanted string
	)
	c := &cobra.Command{
		Use:   "plan [LAB]",
		Short: "Show what would run, how long it takes, what it can decide and what is missing",
		Long: `plan is a dry run: it draws the schedule of a lab file and creates nothing. It shows the
order of the trials, how long they take, and which differences they can detect. It also
shows what is missing on this machine, and the command that installs it.

To estimate the time of a command, plan executes the command once, with its preparation and
its cleanup. plan does so only if the command would run on this machine itself, and the lab
file gives no estimate (parameter estimate). plan reports that it executed the command, and
kills the command after 10 seconds. With --no-time, plan starts nothing.

The exit code predicts the exit code of run: 4 if contenders or cells (workloads with their
parameters) would be missing, 2 if no contender can run a cell, 1 if run would refuse to
start.`,
		Example: `  bakeoff plan examples/quick
  bakeoff plan lab.yaml --budget 1h            show what an hour can decide
  bakeoff plan lab.yaml --difference 1%        show how long it takes to detect 1 %
  bakeoff plan lab.yaml --seed 42 --blocks 34  show the whole schedule of a seed
  bakeoff plan lab.yaml --json | jq .estimate`,
		Args: cli.Between(0, 1, "a lab file"),
		RunE: func(c *cobra.Command, args []string) error {
			if blocks < 0 {
				return cli.Usage(c, fmt.Errorf("--blocks must be at least 0 (got %d)", blocks))
			}
			if budget < 0 {
				return cli.Usage(c, fmt.Errorf("--budget must be positive (got %v)", budget))
			}
			difference, err := parseDifference(wanted)
			if err != nil {
				return cli.Usage(c, err)
			}
			lab, err := f.loadLab(args)
			if err != nil {
				return err
			}
			drawn := seed == 0
			if drawn {
				seed = session.DrawSeed()
			}
			images, err := a.recordSources(c.Context(), lab)
			if err != nil {
				return err
			}
			if err := inputs.Examine(c.Context(), a.at.Images(nil), lab, a.NoteProgress); err != nil {
				return err
			}
			lab.FollowBudget(budget)
			p, err := plan.Expand(lab, session.Catalogue(), seed, versionString())
			if err != nil {
				return err
			}
			v, err := dryrun.Of(c.Context(), a.at, p, dryrun.Options{Budget: budget, Difference: difference,
				Sources: inputs.Folder(lab), Images: images, Time: !noTime})
			if err != nil {
				return err
			}
			ends := setReadiness(&v)
			if asJSON {
				err = a.PrintJSON(v)
			} else {
				a.printPlan(v, lab.Path, drawn, blocks)
			}
			return errors.Join(err, ends)
		},
	}
	fl := c.Flags()
	fl.Uint64Var(&seed, "seed", 0, "`number` from which plan derives the random schedule; with 0, bakeoff chooses "+
		"a number")
	fl.DurationVar(&budget, "budget", 0,
		"`time` limit instead of the lab file's budget; bakeoff starts no block (round of trials) that would exceed it")
	fl.StringSliceVar(&f.only, "only", nil, "plan only this `cell`; may be repeated")
	fl.StringVar(&f.profile, "profile", "", "`name` of a profile in the lab file")
	fl.StringVar(&wanted, "difference", "",
		"show the blocks and time needed to detect this difference, a `share` such as 1% or 0.01")
	fl.BoolVar(&noTime, "no-time", false, "do not execute any command to time it")
	fl.IntVar(&blocks, "blocks", 1, "show the schedule of this `number` of blocks (rounds of trials)")
	fl.BoolVar(&asJSON, "json", false, "print the plan as one JSON object, with estimate and availability")
	completeLabFlags(c)
	return c
}

// setReadiness sets in v how a run would end, as far as that is known, and returns the
// error with which plan ends.
func setReadiness(v *dryrun.View) error {
	err := v.Refusal()
	switch {
	case err != nil:
		v.Ready.Text = "run would refuse to start"
	case v.Seen.Short():
		v.Ready.Text, err = "a run would end with missing cells", cli.Exit{Code: cli.ExitMissing}
	}
	v.Ready.Exit = cli.ExitCode(err)
	return err
}

// maxDifference is a factor of 101: more needs no statistics.
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
		return 0, fmt.Errorf("--difference must be a share above 0, such as 1%% or 0.01 (got %q)", s)
	}
	return v, nil
}

// printPlan prints a plan for a person.
func (a *app) printPlan(v dryrun.View, path string, drawn bool, blocks int) {
	s := a.Style(a.Out)
	columns, _ := a.Size(a.Out)
	head := fmt.Sprintf("%s (%s), seed %d", v.Lab, path, v.Seed)
	if v.Profile != "" {
		head = fmt.Sprintf("%s (%s, profile %s), seed %d", v.Lab, path, v.Profile, v.Seed)
	}
	fmt.Fprintln(a.Out, s.Paint(cli.Bold, head))
	a.planReady(v.Ready)
	if drawn {
		flag := cli.Whole(fmt.Sprintf("--seed %d.", v.Seed))
		for _, line := range cli.Wrap("plan chose this seed at random. To run this schedule, use bakeoff run with the flag "+
			flag, columns) {
			fmt.Fprintln(a.Out, line)
		}
	}
	a.planContenders(v)
	a.planCells(v)
	a.planFiles(v.Plan)
	a.planFactors(v)
	a.planSchedule(v, blocks)
	a.planEstimate(v)
	a.planMissing(v)
}

// planMissing shows what is missing, and how to install it.
func (a *app) planMissing(v dryrun.View) {
	if len(v.Missing) > 0 || v.Install != "" || len(v.InstallOn) > 0 {
		a.Heading("Missing")
	}
	for _, f := range v.Missing {
		a.Paragraph("", f.Name+": "+f.Text)
	}
	if len(v.Seen.LeftOut) > 0 {
		a.Paragraph("", "A run leaves out cells that cannot run, and shows them with the reason.")
	}
	if v.Install != "" {
		fmt.Fprintln(a.Out, "  "+v.Install)
	}
	for _, host := range slices.Sorted(maps.Keys(v.InstallOn)) {
		fmt.Fprintf(a.Out, "  on %s: %s\n", host, v.InstallOn[host])
	}
}

// planReady shows first whether the plan can run.
func (a *app) planReady(r dryrun.Ready) {
	text := fmt.Sprintf("%d of %d contenders can run here", r.Able, r.Contenders)
	if r.Exit == cli.ExitDone {
		a.Paragraph(cli.Green, text+".")
		return
	}
	a.Paragraph(cli.Red, fmt.Sprintf("%s; %s (exit code %d).", text, r.Text, r.Exit))
}

func (a *app) planContenders(v dryrun.View) {
	a.Heading("Contenders")
	t := cli.NewTable("  NAME", "DRIVER", "IMAGE", "CPUS", "MEMORY", "HERE")
	for _, x := range v.Here {
		i := slices.IndexFunc(v.Contenders, func(c plan.Contender) bool { return c.Name == x.Contender })
		c := v.Contenders[i]
		here := cli.Colored("ready", cli.Green)
		if text := checkLine(x.Answer); x.Answer.OK && text != "" {
			here.Text += ": " + text
		} else if !x.Answer.OK {
			here = cli.Colored("missing: "+text, cli.Red)
		}
		name := c.Name
		if name == v.Baseline {
			name = cli.Whole(name + " (baseline)")
		}
		memory := c.Memory.String()
		if c.Memory == 0 {
			memory = "–"
		}
		t.Add(cli.Plain("  "+name), cli.Plain(c.Driver), cli.Plain(cmp.Or(c.Image, "–")), cli.Plain(fmt.Sprint(c.CPUs)),
			cli.Plain(memory), here)
	}
	a.Print(t)
	a.planEmulated(v)
	for _, note := range v.Notes {
		a.Paragraph(cli.Yellow, note+".")
	}
	a.Paragraph("", v.Twin+" is the baseline under a second name: it must not differ from the baseline.")
	if g := v.Generator; g != "" {
		for _, name := range slices.Sorted(maps.Keys(v.Hosts)) {
			if link := v.Hosts[name].Uplink; name == g {
				a.Paragraph("", fmt.Sprintf("Host %s generates the load over its interface %s, which the run uses exclusively.", g,
					link))
			} else if link != "" {
				a.Paragraph("", fmt.Sprintf("Host %s receives it over %s, which the run also uses exclusively.", name, link))
			}
		}
	}
	a.planEnergy(v)
}

// planEmulated names the contenders whose CPU is emulated in software: no other
// note is as easy to overlook and changes as much.
func (a *app) planEmulated(v dryrun.View) {
	for _, x := range v.Here {
		if x.Answer.OK && x.Answer.Facts[driver.FactAccelerator] == driver.Emulated {
			a.Paragraph(cli.Yellow,
				x.Contender+" will run with an emulated CPU (TCG), which makes most work many times slower. "+
					"The results say nothing about the same machine with hardware virtualization.")
		}
	}
}

func (a *app) planCells(v dryrun.View) {
	a.Heading("Cells")
	t := cli.NewTable("  NAME", "WORKLOAD", "VERDICTS ON", "PARAMETERS")
	for _, c := range v.Cells {
		t.Row("  "+c.Name, c.Workload, cmp.Or(strings.Join(c.Primary, ", "), "–"),
			strings.NewReplacer("\n", ",", "\r", "⏎").Replace(strings.Join(c.Params.Args(), " ")))
	}
	a.Print(t)
}

// planFactors shows which parameters, variables, packages and files differ on purpose.
// The other factors are in the table of the contenders.
func (a *app) planFactors(v dryrun.View) {
	t := cli.NewTable("  CONTENDER", "CELLS", "FACTOR", "VALUE", strings.ToUpper(v.Baseline))
	rows := 0
	for _, f := range v.Factors {
		if own, base := sweepsOf(v.Plan, f.Contender); base != nil && len(f.Factors) > 0 {
			rows++
			t.Row("  "+f.Contender, strings.Join(f.Cells, ", "), own.Name, own.Value, base.Value)
			continue
		}
		for _, x := range f.Factors {
			kind, _, _ := strings.Cut(x.Name, ".")
			if !slices.Contains([]string{"params", "env", "packages", "files"}, kind) {
				continue
			}
			rows++
			t.Row("  "+f.Contender, strings.Join(f.Cells, ", "), x.Name, cmp.Or(x.Contender, "not set"),
				cmp.Or(x.Baseline, "not set"))
		}
	}
	if rows == 0 {
		return
	}
	a.Heading("Factors")
	a.Paragraph("", "What differs on purpose from the baseline. Every other difference is a confounder.")
	a.Print(t)
}

// sweepsOf returns the places of a contender and of the baseline in the sweep that
// both are part of: its value is all that differs between them. Otherwise it returns
// nil.
func sweepsOf(p *plan.Plan, contender string) (own, base *analysis.Sweep) {
	c, _ := p.Contender(contender)
	b, _ := p.Contender(p.Baseline)
	if c.Sweep == nil || b.Sweep == nil || c.Sweep.Of != b.Sweep.Of || c.Sweep.Name != b.Sweep.Name {
		return nil, nil
	}
	return c.Sweep, b.Sweep
}

func (a *app) planSchedule(v dryrun.View, blocks int) {
	a.Heading("Schedule")
	spare := 0
	for _, b := range v.Blocks {
		if b.Spare {
			spare++
		}
	}
	planned := len(v.Blocks) - spare
	a.Paragraph("", fmt.Sprintf("at most %d blocks of %d trials, and %d spare blocks that replace void ones",
		planned, v.Estimate.Trials/max(1, planned), spare))
	for _, b := range v.Blocks[:min(max(blocks, 0), len(v.Blocks))] {
		b = b.Without(v.Gone, v.Unfit)
		t := cli.NewTable("", "")
		t.Row(fmt.Sprintf("  block %d", b.Index+1), "create in the order "+strings.Join(b.Create, ", "))
		for i, visit := range b.Visits {
			if len(b.Boots) > 0 && (i == 0 || b.Visits[i-1].Boot != visit.Boot) {
				if boot := b.Boots[visit.Boot]; boot.Host != "" {
					t.Row("    boot", boot.Host+" into "+boot.System)
				}
			}
			order := slices.DeleteFunc(slices.Clone(visit.Order), func(c string) bool { return c == "" })
			t.Row("    "+visit.Cell, strings.Join(order, " "))
		}
		a.PrintBody(t)
	}
	if rest := len(v.Blocks) - blocks; rest > 0 {
		fmt.Fprintf(a.Out, "  … and %d more; --blocks %d shows all\n", rest, len(v.Blocks))
	}
}

func (a *app) planEstimate(v dryrun.View) {
	a.Heading("Time and power")
	e := v.Estimate
	block, total := time.Duration(e.BlockNS), time.Duration(e.TotalNS)
	text := fmt.Sprintf("A block takes about %s, all blocks about %s.", roundEstimate(block), roundEstimate(total))
	if e.BudgetNS > 0 {
		text += " " + cli.Whole(fmt.Sprintf("The budget of %s is enough for about %d blocks.",
			roundEstimate(time.Duration(e.BudgetNS)),
			e.Blocks))
	}
	a.Paragraph("", text)
	a.planTimed(v)
	a.planImages(v)
	switch {
	case len(v.Family) > 0 && exactOnly(v.Plan):
		a.Paragraph("", exactPlan(v))
	case len(e.Looks) == 0:
		a.Paragraph("", "The run gives no verdicts: it has too few blocks for a look.")
	case len(v.Family) == 0:
		a.Paragraph(cli.Yellow, noVerdicts(v.Plan))
	default:
		a.planLooks(v)
	}
}

// planTimed says which commands plan executed, and what it assumes of others.
func (a *app) planTimed(v dryrun.View) {
	var took []string
	for _, t := range v.Timed {
		if t.NS == nil {
			a.Paragraph(cli.Yellow, fmt.Sprintf("The command of %s at %s could not be timed: %s.", t.Contender, t.Cell,
				safetext.Line(t.Why)))
			continue
		}
		length := roundEstimate(time.Duration(*t.NS))
		if t.AtLeast {
			length = "more than " + length
		}
		took = append(took, cli.Whole(t.Contender+" "+length))
	}
	const most = 8
	if n := len(took); n > most {
		took = append(took[:most], fmt.Sprintf("and %d more", n-most))
	}
	if len(took) > 0 {
		a.Paragraph("", "To know the time, plan executed commands without estimate once: "+strings.Join(took, ", ")+".")
	}
}

// exactPlan says when a run whose primary metrics are exact is decided.
func exactPlan(v dryrun.View) string {
	needed, trials := max(analysis.Repeats, v.Plan.Design.ExactTrials), v.Plan.Planned()
	if v.Plan.Design.Mirror {
		trials *= 2
	}
	if trials < needed {
		return fmt.Sprintf("The run gives no verdicts: %d trials of each side must agree, and it has at most %d.", needed,
			trials)
	}
	return fmt.Sprintf("Every primary metric repeats itself exactly. The first block in which all trials of each side "+
		"agree, and each side has %d of them, decides %s, whatever the noise of the machine.", needed,
		comparisons(v.Estimate.Comparisons))
}

// exactOnly reports whether all primary metrics of a plan are exact.
func exactOnly(p *plan.Plan) bool {
	for _, c := range p.Cells {
		for _, m := range c.Metrics {
			if m.Primary && !m.Exact {
				return false
			}
		}
	}
	return true
}

// planImages says what making the images takes.
func (a *app) planImages(v dryrun.View) {
	brought := map[string]bool{}
	pulled, download := 0, int64(0)
	for _, i := range v.Images {
		brought[i.Image] = true
		if i.Digest == "" {
			continue
		}
		pulled++
		download += i.Download
		if i.Note != "" {
			a.Paragraph(cli.Yellow, fmt.Sprintf("The registry of %s does not answer. A run would use %s from the cache, "+
				"which the tag named when it was pulled.", i.Image, i.Digest))
		}
	}
	if slices.ContainsFunc(v.Plan.Contenders, func(c plan.Contender) bool {
		return c.Image != "" && !path.IsAbs(c.Image) && !brought[c.Image]
	}) {
		a.Paragraph("", "Before the first block, bakeoff builds each image of a distribution that is not in the cache; "+
			"that takes about a minute.")
	}
	switch {
	case pulled == 0:
	case download == 0:
		a.Paragraph("", "Every image of a registry is in the cache; nothing is downloaded.")
	default:
		var parts []string
		for _, i := range v.Images {
			if i.Download > 0 {
				parts = append(parts, fmt.Sprintf("%s of %s", cli.FileSize(i.Download), i.Image))
			}
		}
		a.Paragraph("", "Before the first block, bakeoff downloads "+strings.Join(parts, ", ")+".")
	}
}

// noVerdicts explains why a plan has no primary comparison.
func noVerdicts(p *plan.Plan) string {
	if !slices.ContainsFunc(p.Contenders, func(c plan.Contender) bool { return c.Name != p.Baseline && c.TwinOf == "" }) {
		return "The run gives no verdicts: the baseline has no other contender to compare with."
	}
	return "The run gives no verdicts: no cell is primary. Write primary: true into the cells that should have verdicts."
}

// planLooks shows the power of each look.
func (a *app) planLooks(v dryrun.View) {
	e := v.Estimate
	t := cli.NewTable("  LOOK AT", "AFTER ABOUT", "DETECTS", "EQUIVALENT WITHIN")
	if e.ByCPU != nil {
		t.Head = append(t.Head, "BY CPU TIME", "EQUIVALENT WITHIN")
	}
	t.Head = append(t.Head, "")
	for i, l := range e.Looks {
		note := ""
		switch {
		case !l.Reached:
			note = "beyond the budget"
		case !l.Possible:
			note = "too few blocks for so many comparisons"
		}
		row := []string{"  " + cli.Whole(fmt.Sprintf("%d blocks", l.Blocks)), roundEstimate(time.Duration(l.AtNS)),
			cli.Whole(percent(l.Smallest)), cli.Whole(percent(l.Equivalence))}
		if e.ByCPU != nil {
			by := e.ByCPU.Looks[i]
			row = append(row, cli.Whole(percent(by.Smallest)), cli.Whole(percent(by.Equivalence)))
		}
		t.Row(append(row, note)...)
	}
	a.Print(t)
	if text := cannotDecide(e, e.Comparisons); text != "" {
		a.Paragraph(cli.Yellow, text)
	}
	a.Paragraph("", fmt.Sprintf("%s Noise: %s. That is the noise of CPU-bound work: disks, networks and high "+
		"percentiles of latency often vary more.", powerText(e.Comparisons), e.NoiseSource))
	a.Paragraph("", marginText(v.Design.Margin, e.Looks))
	if e.Wanted != nil {
		text := wantedText(*e.Wanted)
		if e.ByCPU != nil {
			text += " By CPU time: " + wantedText(*e.ByCPU.Wanted)
		}
		a.Paragraph("", text)
	}
}

// cannotDecide says that no look within the budget can give a verdict, and what would
// change that; "" if one can. n is the number of primary comparisons.
func cannotDecide(e dryrun.Estimate, n int) string {
	possible := func(l dryrun.Look) bool { return l.Possible }
	i := slices.IndexFunc(e.Looks, possible)
	switch {
	case i < 0:
		return fmt.Sprintf("This run cannot give a verdict: its looks have too few blocks for %s. Increase design.looks "+
			"or design.blocks, or make fewer contenders or metrics primary.", comparisons(n))
	case e.Looks[i].Reached:
		return ""
	}
	once := ""
	if least := 1 + int(math.Ceil(math.Log2(float64(n)/analysis.MaxAlpha))); e.Blocks >= least {
		once = fmt.Sprintf(" Or look only once, at the end of the budget: design: {looks: [%d]}.", e.Blocks)
	}
	return fmt.Sprintf("This run cannot give a verdict within its budget: that needs at least the look at %d blocks, "+
		"after about %s, for %s. Increase the budget, or make blocks shorter: fewer contenders or cells, or less time for "+
		"each trial.",
		e.Looks[i].Blocks, roundEstimate(time.Duration(e.Looks[i].AtNS)), comparisons(n)) + once
}

func comparisons(n int) string {
	if n == 1 {
		return "1 primary comparison"
	}
	return fmt.Sprintf("%d primary comparisons", n)
}

// marginText explains equivalent, and from which look on to expect it.
func marginText(margin float64, looks []dryrun.Look) string {
	text := fmt.Sprintf("Equivalent means a difference within the margin of %s", percent(&margin))
	for _, l := range looks {
		if l.Equivalence != nil && *l.Equivalence <= margin {
			if l.Reached {
				return text + fmt.Sprintf("; expect that verdict from the look at %d blocks.", l.Blocks)
			}
			return text + fmt.Sprintf("; expect that verdict from the look at %d blocks, which is beyond the budget.", l.Blocks)
		}
	}
	return text + "; no look of this plan is expected to show it. " +
		"That takes more blocks, less noise or a larger design.margin."
}

// powerText explains the column DETECTS for n primary comparisons.
func powerText(n int) string {
	const text = "A look detects a difference of the size in DETECTS with power 80 %"
	if n == 1 {
		return text + "."
	}
	return text + fmt.Sprintf(" if none of the %d primary comparisons was decided before. Each decision raises the power "+
		"for the others.", n)
}

// wantedText says what detecting a difference takes.
func wantedText(n dryrun.Need) string {
	s := fmt.Sprintf("A difference of %s ", percent(&n.Difference))
	switch {
	case n.Blocks == nil:
		return s + "cannot be detected with these looks: they have too few blocks for so many comparisons."
	case n.Reached:
		s += fmt.Sprintf("is detected with power 80 %% at the look at %d blocks, after about %s", *n.Blocks,
			roundEstimate(time.Duration(n.AtNS)))
	case n.Planned:
		s += fmt.Sprintf("needs the look at %d blocks, after about %s, which is beyond the budget", *n.Blocks,
			roundEstimate(time.Duration(n.AtNS)))
	default:
		s += fmt.Sprintf("needs about %d blocks, which take about %s; add a last look there to design.looks", *n.Blocks,
			roundEstimate(time.Duration(n.AtNS)))
	}
	return s + fmt.Sprintf(". This plan detects it with power %.0f %%, after %.0f blocks on average.", 100*n.Power, n.Mean)
}

func percent(f *float64) string {
	if f == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100**f)
}

// roundEstimate returns a duration with as many digits as an estimate has.
func roundEstimate(d time.Duration) string {
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

// planEnergy shows what measures the energy of each end.
func (a *app) planEnergy(v dryrun.View) {
	for _, e := range v.Energy {
		where := ""
		if v.Generator != "" {
			where = " (contenders)"
			if slices.Contains(e.Ends, "generator") {
				where = " (load generator)"
			}
		}
		a.Paragraph("", "Energy of "+e.Host+where+": "+e.Text+".")
	}
}
