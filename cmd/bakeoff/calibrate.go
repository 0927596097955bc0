package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/calibration"
	"bakeoff/lab/session"
	"bakeoff/publish/difference"
	"bakeoff/publish/report"
	"bakeoff/reach/probe"
)

func (a *app) calibrate() *cobra.Command {
	var quick, show, asJSON bool
	var out string
	var budget time.Duration
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure false alarms, noise and detectable differences on this machine",
		Long: `calibrate runs an experiment whose true differences are known. Some contenders are
identical; others do 1, 2, 5 and 10 % of extra work. The results do not count the extra work
as work, so these contenders are slower by a known amount. As in any run, the contenders
take turns; the trials are short and many. calibrate writes a run folder.

From the identical contenders, calibrate computes the noise, and the rate of false alarms
with its interval. The contenders with extra work show whether the verdicts detect this
work. If the verdicts do not detect the work, calibrate shows how long a run must be to
detect it. With --quick, the only extra work is 5 %, and calibrate stops when it has
detected this work, or after six minutes.

calibrate combines repeated calibrations of one machine. Three or more calibrations also
show how much runs differ when nothing changed. A change of the machine, its kernel or its
settings makes calibrations outdated. bakeoff plan uses the noise, and every later report of
a run on this machine shows the results of the calibrations.`,
		Example: `  bakeoff calibrate --quick          calibrate in minutes
  bakeoff calibrate                  calibrate in twenty minutes, more precisely
  bakeoff calibrate --budget 1h      detect smaller differences
  bakeoff calibrate --show           show the calibrations of this machine`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if show {
				cal, err := calibration.Of(a.at)
				if err != nil {
					return err
				}
				return a.printCalibration(cal, asJSON)
			}
			if budget < 0 {
				return cli.Usage(c, fmt.Errorf("--budget must be positive (got %v)", budget))
			}
			return a.doCalibrate(c.Context(), quick, budget, out, asJSON)
		},
	}
	f := c.Flags()
	f.BoolVar(&quick, "quick", false, "detect only 5 % of extra work; takes minutes")
	f.DurationVar(&budget, "budget", 0,
		"`time` limit; bakeoff starts no block (round of trials) that would exceed it (default 20m; 6m with --quick)")
	f.BoolVar(&show, "show", false, "show the stored calibrations and measure nothing")
	f.StringVar(&out, "out", "runs", "`folder` in which to create the run folder")
	f.BoolVar(&asJSON, "json", false, "print the calibrations of this machine as one JSON object")
	return c
}

func (a *app) doCalibrate(ctx context.Context, quick bool, budget time.Duration, out string, asJSON bool) error {
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	design := calibration.Thorough
	if quick {
		design = calibration.Quick
	}
	s, err := calibration.New(design, versionString(), out)
	if err != nil {
		return err
	}
	// Before the run: while it lasts this program keeps off the contenders'
	// CPUs, and would count only those that are left to it.
	machine := probe.ReadFingerprint(nil)
	w := a.watcher(s, runFlags{json: asJSON})
	measured, ended, err := calibration.Measure(ctx, design, s, session.Options{At: a.at, Budget: budget,
		Events: w.showEvent})
	w.closeView()
	if s.Started() && ended != "" {
		err = errors.Join(err, report.Write(s.Dir, offline.PageOption(versionString(), "")))
	}
	if err != nil {
		return err
	}
	cal, err := calibration.Keep(a.at, machine, measured)
	if err != nil {
		return err
	}
	if err := a.printCalibration(cal, asJSON); err != nil || ended != analysis.EndedInterrupted {
		return err
	}
	return cli.Interrupted(ctx, "the results so far are kept; they are less precise than those of a full calibration")
}

func (a *app) printCalibration(c calibrate.Calibration, asJSON bool) error {
	v := calibration.ViewOf(c)
	if asJSON {
		return a.PrintJSON(v)
	}
	last := c.Runs[len(c.Runs)-1]
	fmt.Fprintf(a.Out, "\n%s of this machine, the latest on %s (%s)\n", calibration.Count(c),
		last.At.Format(time.RFC3339), last.Run)
	a.Heading("Identical contenders")
	fmt.Fprintf(a.Out, "  %d false alarms in %d windows of %d blocks: %s; 95 %% interval %s to %s.\n",
		v.Alarms, v.Of, calibrate.Window, shareText(float64(v.Alarms)/float64(max(1, v.Of))), shareText(v.Interval[0]),
		shareText(v.Interval[1]))
	fmt.Fprintf(a.Out, "  The nominal rate of the test with so few blocks is %s; more calibrations narrow the interval.\n",
		shareText(v.Nominal))
	fmt.Fprintf(a.Out, "  The noise from trial to trial is %.2g %%", 100*v.Noise)
	if cpu := c.CPUNoise(); cpu > 0 {
		fmt.Fprintf(a.Out, ", of CPU time %.2g %%", 100*cpu)
		if cpu < v.Noise/2 {
			fmt.Fprint(a.Out, ": most of it is time spent waiting for CPUs that other programs use")
		}
	}
	fmt.Fprintln(a.Out, ".")
	a.printInjected(last)
	a.Heading("Smallest detectable difference")
	for _, s := range v.Smallest {
		fmt.Fprintf(a.Out, "  in %s: %s, or %s of CPU time (two contenders, power 80 %%)\n",
			shortTime(time.Duration(s.InNS)), percent(s.Difference), percent(s.ByCPU))
	}
	if last.Length > 0 {
		fmt.Fprintf(a.Out, "  with trials of %s, each of which takes %s in all.\n", shortTime(last.Length),
			roundEstimate(last.PerTrial))
	}
	if v.Between == nil {
		fmt.Fprintf(a.Out, "  Difference from run to run: unavailable; it needs %d calibrations.\n", calibrate.MinRuns)
	} else {
		fmt.Fprintf(a.Out, "  Difference from run to run, when nothing changed: %.2g %% of the values, %.2g %% of a ratio.\n",
			100*v.Between.Direct, 100*v.Between.Relative)
	}
	return nil
}

// printInjected shows whether the added work was detected, and what that would
// take where it was not.
func (a *app) printInjected(m calibrate.Measured) {
	a.Heading("Contenders with added work")
	t := cli.NewTable("  ADDED WORK", "BY", "TRUE CHANGE", "MEASURED [INTERVAL]", "LEVEL", "BLOCKS", "")
	alone := calibrate.Calibration{Runs: []calibrate.Measured{m}}
	for _, in := range m.Injected {
		word := cli.Colored("detected", cli.Green)
		if !in.Found {
			word = cli.Colored("not detected", cli.Yellow)
			if n, in := alone.Needs(in.Extra, in.CPU); n > 0 {
				word.Text += fmt.Sprintf("; with two contenders this takes about %d blocks (%s) with the present noise of the "+
					"machine", n,
					roundEstimate(in))
			}
		}
		if in.Ratio != nil && !in.Covers {
			word.Text += "; the interval does not cover the true change"
		}
		if len(in.Gates) > 0 {
			word.Text += "; in a lab file the verdict would be inconclusive: it failed the checks " +
				strings.Join(in.Gates, ", ")
		}
		by := "the clock"
		if in.CPU {
			by = "CPU time"
		}
		t.Add(cli.Plain(fmt.Sprintf("  %.0f %%", 100*in.Extra)), cli.Plain(by),
			cli.Plain(difference.Ratios().Text(in.True)),
			cli.Plain(difference.Change(sample.Ratio, "", in.Ratio, in.CI[0], in.CI[1])),
			cli.Plain(shareText(in.Level)), cli.Plain(fmt.Sprint(in.Blocks)), word)
	}
	t.Print(a.Out, a.Style(a.Out), cli.LogWidth)
}

// shortTime returns a duration without zero parts: 5m, not 5m0s.
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

func shareText(p float64) string {
	if math.IsNaN(p) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*p)
}
