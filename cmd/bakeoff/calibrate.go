package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	work "bakeoff/measure/workload/calibrate"
	"bakeoff/provision/confine"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	hostdriver "bakeoff/provision/driver/host"
	"bakeoff/publish/report"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// slowed are the contenders that do more work than is counted, in per cent.
var slowed = map[string]int{"slow-1": 1, "slow-2": 2, "slow-5": 5, "slow-10": 10}

// trialLength is the timed part of a trial. On two CPUs with a load of 2 to 3,
// neighbouring trials of 25 and of 100 ms scattered alike by the clock (6.3 and
// 5.4 %); with a load of 17 to 20 trials of 5, 20, 50 and 200 ms had a noise of
// 110, 100, 59 and 57 %, and by CPU time of 51, 16, 12 and 7 %. So shorter
// ones tell less, and longer ones no more in the same time.
const trialLength = 50 * time.Millisecond

// calibrationDesign is what a calibration compares, and when it stops: at a look at
// which everything is decided, or when the time is spent. The first look is
// late enough for a false alarm interval that says something.
type calibrationDesign struct {
	contenders []string // beside the base and its twin
	margin     float64
	looks      []int
	alphas     []float64
	budget     time.Duration
}

// quickly has one question only, which then has all of the error rate; every
// contender more would take its part of the time and of the rate.
var quickly = calibrationDesign{
	contenders: []string{"slow-5"}, margin: 0.02, budget: 6 * time.Minute,
	looks:  []int{144, 192, 240, 300, 360, 420},
	alphas: []float64{.018, .006, .006, .006, .006, .006},
}

var thoroughly = calibrationDesign{
	contenders: []string{"copy-1", "copy-2", "slow-1", "slow-2", "slow-5", "slow-10"}, margin: 0.005, budget: 20 * time.Minute,
	looks:  []int{48, 96, 144, 192, 288, 384, 576, 768, 984},
	alphas: []float64{.008, .005, .005, .005, .005, .005, .005, .005, .005},
}

func (a *app) calibrate() *cobra.Command {
	var quick, show, asJSON bool
	var out string
	var budget time.Duration
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure false alarms, noise and power on this machine",
		Long: `calibrate runs a laboratory in which the truth is known: contenders that are
the same, and some that do 1, 2, 5 and 10 per cent more work than is counted.
They run like those of any lab file, next to each other in many short trials,
and leave a run folder.

From the same ones come the false alarms, with the interval that so few trials
allow, and the noise; from the slowed ones, whether what was injected is found,
by the rules of any verdict, and if not, how long that would take. --quick has
one question: 5 per cent. It stops when it has found them, or after six minutes.

Several calibrations of one machine add up, and from three on they tell how
much runs differ although nothing was changed. A change of the machine, its
kernel or their settings outdates them. bakeoff plan reckons with the noise,
and every later report of this machine says what was found.`,
		Example: `  bakeoff calibrate --quick          in minutes
  bakeoff calibrate                  better, in twenty minutes
  bakeoff calibrate --budget 1h      finds smaller differences
  bakeoff calibrate --show           what is known of this machine`,
		Args: between(0, 0, "nothing"),
		RunE: func(c *cobra.Command, _ []string) error {
			if show {
				cal, err := a.calibration()
				if err != nil {
					return err
				}
				return a.printCalibration(cal, asJSON)
			}
			if budget < 0 {
				return usage(c, fmt.Errorf("--budget %v is no time that can be spent", budget))
			}
			return a.doCalibrate(c.Context(), quick, budget, out, asJSON)
		},
	}
	f := c.Flags()
	f.BoolVar(&quick, "quick", false, "look for an injected 5 % alone, in minutes")
	f.DurationVar(&budget, "budget", 0, "`time` in which blocks may start (default 20m; 6m with --quick)")
	f.BoolVar(&show, "show", false, "measure nothing, show what is known")
	f.StringVar(&out, "out", "runs", "`folder` in which the run folder is made")
	f.BoolVar(&asJSON, "json", false, "print what is known of this machine as one JSON object")
	return c
}

// calibrationLab is the laboratory, as a lab file.
func calibrationLab(d calibrationDesign) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Made by bakeoff calibrate. slow-N does N per cent more work than is counted:
# its facts say so.
schema: bakeoff/lab/v1
name: calibrate
defaults: {cpus: 1, memory: 128MiB}
baseline: base
contenders:
  - {name: base, driver: host}
`)
	for _, n := range d.contenders {
		fmt.Fprintf(&b, "  - {name: %s, driver: host}\n", n)
	}
	list := func(v any) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }
	fmt.Fprintf(&b, `cells:
  - {name: work, workload: calibrate, params: {time: %s}, primary: [throughput, %s]}
design: {margin: %v, looks: %s, alphas: %s, budget: %s}
`, trialLength, work.CPUThroughput, d.margin, list(d.looks), list(d.alphas), d.budget)
	return b.String()
}

// labour is the host driver whose slowed contenders do more work.
type labour struct{ hostdriver.Driver }

// Create makes an environment as the host driver does.
func (l labour) Create(ctx context.Context, h conn.Conn, spec driver.Spec) (driver.Instance, error) {
	in, err := l.Driver.Create(ctx, h, spec)
	e, ok := in.(*confine.Env)
	if err != nil || !ok || slowed[spec.Name] == 0 {
		return in, err
	}
	extra := slowed[spec.Name]
	file := path.Join(e.Info().Scratch, work.Extra)
	if err := e.Push(ctx, file, 0o644, strings.NewReader(fmt.Sprint(extra))); err != nil {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, e.Close(down))
	}
	return labourer{e, extra}, nil
}

// labourer is an environment in which the work is more than is counted.
type labourer struct {
	*confine.Env
	extra int
}

// Info adds what is done here to the facts.
func (l labourer) Info() driver.Info {
	info := l.Env.Info()
	facts := map[string]string{"extra": fmt.Sprintf("%d %% more work than is counted", l.extra)}
	for k, v := range info.Facts {
		facts[k] = v
	}
	info.Facts = facts
	return info
}

func (a *app) doCalibrate(ctx context.Context, quick bool, budget time.Duration, out string, asJSON bool) error {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	design := thoroughly
	if quick {
		design = quickly
	}
	src := []byte(calibrationLab(design))
	lab, err := manifest.Parse("calibrate", src, catalogue(), "")
	if err != nil {
		return err
	}
	p, err := plan.Expand(lab, catalogue(), drawSeed(), versionString())
	if err != nil {
		return err
	}
	text, err := plan.Encode(p)
	if err != nil {
		return err
	}
	s := &session{app: a, runFlags: runFlags{out: out, json: asJSON, budget: budget}, plan: p, text: text, lab: src}
	s.dir = filepath.Join(out, store.Name(time.Now(), lab.Name))
	s.drivers = labourers()
	// Before the run: while it lasts this program keeps off the contenders'
	// CPUs, and would count only those that are left to it.
	machine := probe.ReadFingerprint(nil)
	from := time.Now()
	outcome, err := s.measure(ctx)
	if err != nil {
		return err
	}
	took := time.Since(from)
	if err := report.Write(s.dir, pageOption()); err != nil {
		return err
	}
	copies, extra := []string{p.Twin}, map[string]float64{}
	for _, n := range design.contenders {
		if percent, ok := slowed[n]; ok {
			extra[n] = float64(percent) / 100
		} else {
			copies = append(copies, n)
		}
	}
	m, err := calibrate.Measure(outcome.Results, calibrate.Design{
		Base: "base", Copies: copies, Extra: extra,
		Cell: "work", Metric: "throughput", CPUMetric: work.CPUThroughput, Length: trialLength, Took: took, At: from.UTC(),
	})
	if err != nil {
		return fault.Op(s.dir, err)
	}
	cal, err := a.keep(machine, m)
	if err != nil {
		return err
	}
	if err := a.printCalibration(cal, asJSON); err != nil || outcome.Ended != analysis.EndedInterrupted {
		return err
	}
	return interrupted(ctx, "what it found until then is kept, and less certain than asked for")
}

// labourers are all drivers, with the slowed one for the host.
func labourers() []driver.Driver {
	ds := slices.Clone(driverall.Drivers())
	for i, d := range ds {
		if h, ok := d.(hostdriver.Driver); ok {
			ds[i] = labour{h}
		}
	}
	return ds
}

// keep adds a measurement to what is stored.
func (a *app) keep(machine probe.Fingerprint, m calibrate.Measured) (calibrate.Calibration, error) {
	state, _ := env.Dirs(a.env, os.Getuid())
	root, err := os.OpenRoot(state)
	if err != nil {
		return calibrate.Calibration{}, fault.Wrap(fault.Lab, "state directory", err)
	}
	defer root.Close()
	old, err := calibrate.Load(root)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return old, fault.WithFix(err, "remove "+filepath.Join(state, calibrate.File))
	}
	cal := old.Add(machine, m)
	return cal, calibrate.Save(root, cal)
}

// calibration reads what is stored, unless it is outdated.
func (a *app) calibration() (calibrate.Calibration, error) {
	fix := "bakeoff calibrate --quick measures it in minutes"
	state, _ := env.Dirs(a.env, os.Getuid())
	root, err := os.OpenRoot(state)
	if errors.Is(err, os.ErrNotExist) {
		return calibrate.Calibration{}, fault.WithFix(fault.New(fault.NotFound, "this machine was not calibrated"), fix)
	}
	if err != nil {
		return calibrate.Calibration{}, fault.Wrap(fault.Lab, "state directory", err)
	}
	defer root.Close()
	cal, err := calibrate.Load(root)
	if err != nil {
		return cal, fault.WithFix(err, fix)
	}
	if changed := cal.Outdated(probe.ReadFingerprint(nil)); changed != nil {
		return cal, fault.WithFix(fault.New(fault.NotFound, "the calibration is outdated: changed since were %s", strings.Join(changed, ", ")), fix)
	}
	return cal, nil
}

// known is what is kept in a run folder of what is known of this machine, nil
// where nothing is. It must be asked before a run narrows this program's CPUs.
func (a *app) known() ([]byte, error) {
	state, _ := env.Dirs(a.env, os.Getuid())
	root, err := os.OpenRoot(state)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "state directory", err)
	}
	defer root.Close()
	cal, err := calibrate.Load(root)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.WithFix(err, "remove "+filepath.Join(state, calibrate.File))
	}
	return cal.Kept(probe.ReadFingerprint(nil))
}

// keepKnown puts what is known of this machine into the folder of a run that
// begins, or of one that was killed before the journal spoke of it.
func keepKnown(run *store.Run, text []byte, began bool) error {
	if text == nil {
		return nil
	}
	if !began {
		lines, err := run.Journal()
		if err != nil {
			return err
		}
		kept := slices.ContainsFunc(lines, func(l store.Line) bool { return l.Type == store.LineCalibration })
		if _, _, err := run.Calibration(); kept || err != nil {
			return nil
		}
	}
	return run.KeepCalibration(time.Now(), text)
}

// noise is what a plan reckons with: the calibration's, or a supposed one.
func (a *app) noise() plan.Noise {
	cal, err := a.calibration()
	if err != nil {
		n := plan.AssumedNoise
		if fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), "outdated") {
			n.Source = fmt.Sprintf("assumed: %.2g %% from trial to trial; %v", 100*n.SD, err)
		}
		return n
	}
	n := plan.Noise{SD: cal.Noise(), CPU: cal.CPUNoise(), Source: fmt.Sprintf("%.2g %% from trial to trial", 100*cal.Noise())}
	if n.CPU > 0 {
		n.Source += fmt.Sprintf(", of CPU time %.2g %%", 100*n.CPU)
	}
	n.Source += fmt.Sprintf(", as %s on this machine found for work that only computes; other work may scatter more", plural(len(cal.Runs), "calibration"))
	return n
}

func plural(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// calibrationView is a calibration for JSON, with what follows from it.
type calibrationView struct {
	calibrate.Calibration
	Alarms   int         `json:"alarms"`
	Of       int         `json:"of"`
	Interval [2]float64  `json:"alarm_interval"` // 95 %
	Nominal  float64     `json:"nominal"`
	Noise    float64     `json:"noise"`
	Smallest []sees      `json:"smallest"`
	Between  *betweenRun `json:"between_runs"`
}

type sees struct {
	InNS       int64    `json:"in_ns"`
	Difference *float64 `json:"difference"` // a share; null: none
	ByCPU      *float64 `json:"by_cpu"`     // the same, of CPU time
}

type betweenRun struct {
	Direct   float64 `json:"direct"`
	Relative float64 `json:"relative"`
}

func viewCalibration(c calibrate.Calibration) calibrationView {
	v := calibrationView{Calibration: c, Nominal: calibrate.Nominal, Noise: c.Noise()}
	v.Alarms, v.Of, v.Interval[0], v.Interval[1] = c.FalseAlarms()
	for _, d := range []time.Duration{5 * time.Minute, 20 * time.Minute, time.Hour} {
		v.Smallest = append(v.Smallest, sees{int64(d), finite(c.Smallest(d)), finite(c.SmallestByCPU(d))})
	}
	if d, r, ok := c.Spread(); ok {
		v.Between = &betweenRun{d, r}
	}
	return v
}

func (a *app) printCalibration(c calibrate.Calibration, asJSON bool) error {
	v := viewCalibration(c)
	if asJSON {
		return a.printJSON(v)
	}
	last := c.Runs[len(c.Runs)-1]
	fmt.Fprintf(a.stdout, "\n%s of this machine, the last %s (%s)\n", plural(len(c.Runs), "calibration"), last.At.Format(time.RFC3339), last.Run)
	a.heading("Where nothing differs")
	fmt.Fprintf(a.stdout, "  %d false alarms in %d windows of %d blocks: %s; 95 %% interval %s to %s.\n",
		v.Alarms, v.Of, calibrate.Window, share(float64(v.Alarms)/float64(max(1, v.Of))), share(v.Interval[0]), share(v.Interval[1]))
	fmt.Fprintf(a.stdout, "  The test of so few blocks promises %s; more calibrations narrow the interval.\n", share(v.Nominal))
	fmt.Fprintf(a.stdout, "  From trial to trial the noise is %.2g %%", 100*v.Noise)
	if cpu := c.CPUNoise(); cpu > 0 {
		fmt.Fprintf(a.stdout, ", of CPU time %.2g %%", 100*cpu)
		if cpu < v.Noise/2 {
			fmt.Fprint(a.stdout, ": most of it is waiting for CPUs that others have")
		}
	}
	fmt.Fprintln(a.stdout, ".")
	a.printInjected(last)
	a.heading("What this machine can tell")
	for _, s := range v.Smallest {
		fmt.Fprintf(a.stdout, "  in %s, two contenders that differ by %s, or by %s of CPU time (80 %% probability)\n", shortTime(time.Duration(s.InNS)), percent(s.Difference), percent(s.ByCPU))
	}
	if last.Length > 0 {
		fmt.Fprintf(a.stdout, "  with trials of %s, which take %s each with all that belongs to them.\n", shortTime(last.Length), round(last.PerTrial))
	}
	if v.Between == nil {
		fmt.Fprintf(a.stdout, "  Change from run to run: unavailable, %d calibrations tell it.\n", calibrate.MinRuns)
	} else {
		fmt.Fprintf(a.stdout, "  From run to run, with nothing changed: %.2g %% of the values, %.2g %% of a ratio.\n", 100*v.Between.Direct, 100*v.Between.Relative)
	}
	return nil
}

// printInjected tells what became of the work that was added, and what was
// lacking where it was not found.
func (a *app) printInjected(m calibrate.Measured) {
	a.heading("Where work was added")
	t := table{head: []string{"  MORE WORK", "BY", "TRULY GIVES", "MEASURED [INTERVAL]", "LEVEL", "BLOCKS", ""}}
	alone := calibrate.Calibration{Runs: []calibrate.Measured{m}}
	for _, in := range m.Injected {
		word := cell{"found", green}
		if !in.Found {
			word = cell{"not found", yellow}
			if n, in := alone.Needs(in.Extra, in.CPU); n > 0 {
				word.text += fmt.Sprintf("; two contenders alone need about %d blocks (%s) while the machine is like this", n, round(in))
			}
		}
		if in.Ratio != nil && !in.Covers {
			word.text += "; the interval misses the truth"
		}
		if len(in.Gates) > 0 {
			word.text += "; a lab file's verdict would be inconclusive, it failed the checks " + strings.Join(in.Gates, ", ")
		}
		measured := "–"
		if in.Ratio != nil {
			measured = fmt.Sprintf("%s %% [%s, %s]", boundText(in.Ratio, true), boundText(in.CI[0], true), boundText(in.CI[1], true))
		}
		by := "the clock"
		if in.CPU {
			by = "CPU time"
		}
		t.add(cell{text: fmt.Sprintf("  %.0f %%", 100*in.Extra)}, cell{text: by}, cell{text: boundText(&in.True, true) + " %"}, cell{text: measured},
			cell{text: share(in.Level)}, cell{text: fmt.Sprint(in.Blocks)}, word)
	}
	t.print(a.stdout, a.style(a.stdout), logWidth)
}

// shortTime writes a duration without parts that are nought: 5m, not 5m0s.
func shortTime(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func share(p float64) string {
	if math.IsNaN(p) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*p)
}
