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

	"bakeoff/calibrate"
	"bakeoff/confine"
	"bakeoff/conn"
	"bakeoff/driver"
	driverall "bakeoff/driver/all"
	hostdriver "bakeoff/driver/host"
	"bakeoff/env"
	"bakeoff/fault"
	"bakeoff/manifest"
	"bakeoff/plan"
	"bakeoff/probe"
	"bakeoff/report"
	"bakeoff/store"
	work "bakeoff/workload/calibrate"
)

// slowed are the contenders that do more work than is counted, in per cent.
var slowed = map[string]int{"slow-1": 1, "slow-2": 2, "slow-5": 5, "slow-10": 10}

func (a *app) calibrate() *cobra.Command {
	var quick, show, asJSON bool
	var out string
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure false alarms, noise and power on this machine",
		Long: `calibrate runs a laboratory in which the truth is known: four contenders that
are the same, and four that do 1, 2, 5 and 10 per cent more work than is
counted. They run like those of any lab file, and leave a run folder.

From the same ones come the false alarms, with the interval that so few trials
allow, and the noise; from the slowed ones, whether what was injected is found.
Several calibrations of one machine add up, and from three on they tell how
much runs differ although nothing was changed. A change of the machine, its
kernel or their settings outdates them. bakeoff plan reckons with the noise.`,
		Example: `  bakeoff calibrate --quick     in minutes
  bakeoff calibrate             better, in a quarter of an hour
  bakeoff calibrate --show      what is known of this machine`,
		Args: between(0, 0, "nothing"),
		RunE: func(c *cobra.Command, _ []string) error {
			if show {
				cal, err := a.calibration()
				if err != nil {
					return err
				}
				return a.printCalibration(cal, asJSON)
			}
			return a.doCalibrate(c.Context(), quick, out, asJSON)
		},
	}
	f := c.Flags()
	f.BoolVar(&quick, "quick", false, "fewer and shorter trials, in minutes")
	f.BoolVar(&show, "show", false, "measure nothing, show what is known")
	f.StringVar(&out, "out", "runs", "`folder` in which the run folder is made")
	f.BoolVar(&asJSON, "json", false, "print what is known of this machine as one JSON object")
	return c
}

// calibrationLab is the laboratory, as a lab file.
func calibrationLab(quick bool) string {
	blocks, length := 60, "500ms"
	if quick {
		blocks, length = 24, "100ms"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Made by bakeoff calibrate. slow-N does N per cent more work than is counted:
# its facts say so.
schema: bakeoff/lab/v1
name: calibrate
defaults: {cpus: 1, memory: 128MiB}
baseline: base
contenders:
  - {name: base, driver: host}
  - {name: copy-1, driver: host}
  - {name: copy-2, driver: host}
`)
	for _, n := range slowNames() {
		fmt.Fprintf(&b, "  - {name: %s, driver: host}\n", n)
	}
	fmt.Fprintf(&b, `cells:
  - {name: work, workload: calibrate, params: {time: %s}, primary: true}
design: {margin: 0.02, looks: [%d], alphas: [.05]}
`, length, blocks)
	return b.String()
}

func slowNames() (names []string) {
	for n := range slowed {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return slowed[a] - slowed[b] })
	return names
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

func (a *app) doCalibrate(ctx context.Context, quick bool, out string, asJSON bool) error {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	src := []byte(calibrationLab(quick))
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
	s := &session{app: a, runFlags: runFlags{out: out, json: asJSON}, plan: p, text: text, lab: src}
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
	if err := report.Write(s.dir, report.Option{Version: versionString()}); err != nil {
		return err
	}
	extra := map[string]float64{}
	for n, percent := range slowed {
		extra[n] = float64(percent) / 100
	}
	m, err := calibrate.Measure(outcome.Results, calibrate.Design{
		Base: "base", Copies: []string{p.Twin, "copy-1", "copy-2"}, Extra: extra,
		Cell: "work", Metric: "throughput", Took: took, At: from.UTC(),
	})
	if err != nil {
		return fault.Op(s.dir, err)
	}
	cal, err := a.keep(machine, m)
	if err != nil {
		return err
	}
	return a.printCalibration(cal, asJSON)
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

// noise is what a plan reckons with: the calibration's, or a supposed one.
func (a *app) noise() plan.Noise {
	cal, err := a.calibration()
	if err != nil {
		n := plan.AssumedNoise
		if fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), "outdated") {
			n.Source = "assumed: 2 % from trial to trial; " + err.Error()
		}
		return n
	}
	return plan.Noise{SD: cal.Noise(), Source: fmt.Sprintf("%.2g %% from trial to trial, as %s on this machine found for work that only computes; other work may scatter more",
		100*cal.Noise(), plural(len(cal.Runs), "calibration"))}
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
}

type betweenRun struct {
	Direct   float64 `json:"direct"`
	Relative float64 `json:"relative"`
}

func viewCalibration(c calibrate.Calibration) calibrationView {
	v := calibrationView{Calibration: c, Nominal: calibrate.Nominal, Noise: c.Noise()}
	v.Alarms, v.Of, v.Interval[0], v.Interval[1] = c.FalseAlarms()
	for _, d := range []time.Duration{5 * time.Minute, 20 * time.Minute, time.Hour} {
		v.Smallest = append(v.Smallest, sees{int64(d), finite(c.Smallest(d))})
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
	fmt.Fprintf(a.stdout, "  From trial to trial the noise is %.2g %%.\n", 100*v.Noise)
	a.heading("Where work was added")
	t := table{head: []string{"  MORE WORK", "TRULY GIVES", "MEASURED [95 %]", ""}}
	for _, in := range last.Injected {
		word := cell{"not found", yellow}
		if in.Found {
			word = cell{"found", green}
		}
		if in.Ratio != nil && !in.Covers {
			word.text += "; the interval misses the truth"
		}
		measured := "–"
		if in.Ratio != nil {
			measured = fmt.Sprintf("%s %% [%s, %s]", boundText(in.Ratio, true), boundText(in.CI[0], true), boundText(in.CI[1], true))
		}
		t.add(cell{text: fmt.Sprintf("  %.0f %%", 100*in.Extra)}, cell{text: boundText(&in.True, true) + " %"}, cell{text: measured}, word)
	}
	t.print(a.stdout, a.style(a.stdout), logWidth)
	a.heading("What this machine can tell")
	for _, s := range v.Smallest {
		fmt.Fprintf(a.stdout, "  in %s, two contenders that differ by %s (80 %% probability)\n", time.Duration(s.InNS), percent(s.Difference))
	}
	if v.Between == nil {
		fmt.Fprintf(a.stdout, "  Change from run to run: unavailable, %d calibrations tell it.\n", calibrate.MinRuns)
	} else {
		fmt.Fprintf(a.stdout, "  From run to run, with nothing changed: %.2g %% of the values, %.2g %% of a ratio.\n", 100*v.Between.Direct, 100*v.Between.Relative)
	}
	return nil
}

func share(p float64) string {
	if math.IsNaN(p) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*p)
}
