package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/reading"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/calibration"
	"bakeoff/lab/session"
	"bakeoff/publish/report"
	"bakeoff/reach/probe"
)

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
		Args: cli.Between(0, 0, "nothing"),
		RunE: func(c *cobra.Command, _ []string) error {
			if show {
				cal, err := calibration.Of(a.at)
				if err != nil {
					return err
				}
				return a.printCalibration(cal, asJSON)
			}
			if budget < 0 {
				return cli.Usage(c, fmt.Errorf("--budget %v is no time that can be spent", budget))
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
	w := a.watcher(s, asJSON)
	measured, ended, err := calibration.Measure(ctx, design, s, session.Options{At: a.at, Budget: budget, Events: w.event})
	w.close()
	if s.Started() && ended != "" {
		err = errors.Join(err, report.Write(s.Dir, reading.PageOption(versionString())))
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
	return cli.Interrupted(ctx, "what it found until then is kept, and less certain than asked for")
}

func (a *app) printCalibration(c calibrate.Calibration, asJSON bool) error {
	v := calibration.ViewOf(c)
	if asJSON {
		return a.PrintJSON(v)
	}
	last := c.Runs[len(c.Runs)-1]
	fmt.Fprintf(a.Out, "\n%s of this machine, the last %s (%s)\n", calibration.Count(c), last.At.Format(time.RFC3339), last.Run)
	a.Heading("Where nothing differs")
	fmt.Fprintf(a.Out, "  %d false alarms in %d windows of %d blocks: %s; 95 %% interval %s to %s.\n",
		v.Alarms, v.Of, calibrate.Window, share(float64(v.Alarms)/float64(max(1, v.Of))), share(v.Interval[0]), share(v.Interval[1]))
	fmt.Fprintf(a.Out, "  The test of so few blocks promises %s; more calibrations narrow the interval.\n", share(v.Nominal))
	fmt.Fprintf(a.Out, "  From trial to trial the noise is %.2g %%", 100*v.Noise)
	if cpu := c.CPUNoise(); cpu > 0 {
		fmt.Fprintf(a.Out, ", of CPU time %.2g %%", 100*cpu)
		if cpu < v.Noise/2 {
			fmt.Fprint(a.Out, ": most of it is waiting for CPUs that others have")
		}
	}
	fmt.Fprintln(a.Out, ".")
	a.printInjected(last)
	a.Heading("What this machine can tell")
	for _, s := range v.Smallest {
		fmt.Fprintf(a.Out, "  in %s, two contenders that differ by %s, or by %s of CPU time (80 %% probability)\n", shortTime(time.Duration(s.InNS)), percent(s.Difference), percent(s.ByCPU))
	}
	if last.Length > 0 {
		fmt.Fprintf(a.Out, "  with trials of %s, which take %s each with all that belongs to them.\n", shortTime(last.Length), round(last.PerTrial))
	}
	if v.Between == nil {
		fmt.Fprintf(a.Out, "  Change from run to run: unavailable, %d calibrations tell it.\n", calibrate.MinRuns)
	} else {
		fmt.Fprintf(a.Out, "  From run to run, with nothing changed: %.2g %% of the values, %.2g %% of a ratio.\n", 100*v.Between.Direct, 100*v.Between.Relative)
	}
	return nil
}

// printInjected tells what became of the work that was added, and what was
// lacking where it was not found.
func (a *app) printInjected(m calibrate.Measured) {
	a.Heading("Where work was added")
	t := cli.NewTable("  MORE WORK", "BY", "TRULY GIVES", "MEASURED [INTERVAL]", "LEVEL", "BLOCKS", "")
	alone := calibrate.Calibration{Runs: []calibrate.Measured{m}}
	for _, in := range m.Injected {
		word := cli.Colored("found", cli.Green)
		if !in.Found {
			word = cli.Colored("not found", cli.Yellow)
			if n, in := alone.Needs(in.Extra, in.CPU); n > 0 {
				word.Text += fmt.Sprintf("; two contenders alone need about %d blocks (%s) while the machine is like this", n, round(in))
			}
		}
		if in.Ratio != nil && !in.Covers {
			word.Text += "; the interval misses the truth"
		}
		if len(in.Gates) > 0 {
			word.Text += "; a lab file's verdict would be inconclusive, it failed the checks " + strings.Join(in.Gates, ", ")
		}
		measured := "–"
		if in.Ratio != nil {
			measured = fmt.Sprintf("%s %% [%s, %s]", reading.BoundText(in.Ratio, true), reading.BoundText(in.CI[0], true), reading.BoundText(in.CI[1], true))
		}
		by := "the clock"
		if in.CPU {
			by = "CPU time"
		}
		t.Add(cli.Plain(fmt.Sprintf("  %.0f %%", 100*in.Extra)), cli.Plain(by), cli.Plain(reading.BoundText(&in.True, true)+" %"), cli.Plain(measured),
			cli.Plain(share(in.Level)), cli.Plain(fmt.Sprint(in.Blocks)), word)
	}
	t.Print(a.Out, a.Style(a.Out), cli.LogWidth)
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
