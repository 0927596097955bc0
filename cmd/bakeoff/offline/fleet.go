package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/fleet"
	"bakeoff/publish/report"
)

// fleetConditions are what --fail-on of fleet can ask for.
var fleetConditions = []struct {
	name  string
	holds func(fleet.Comparison) bool
}{
	{"worse", func(c fleet.Comparison) bool { return c.Verdict == analysis.Worse }},
	{analysis.WorseThanMargin, func(c fleet.Comparison) bool {
		return c.Verdict == analysis.Worse && c.BeyondMargin != nil && *c.BeyondMargin
	}},
	{"better", func(c fleet.Comparison) bool { return c.Verdict == analysis.Better }},
	{"inconclusive", func(c fleet.Comparison) bool { return c.Verdict == analysis.Inconclusive }},
}

func (a reader) fleet() *cobra.Command {
	f := judgeFlags{of: "fleet"}
	for _, c := range fleetConditions {
		f.conditions = append(f.conditions, c.name)
	}
	c := &cobra.Command{
		Use:   "fleet RUN|FOLDER...",
		Short: "Judge runs of one lab on several machines",
		Long: `A run's own verdict holds only for its machine, even if the run has many blocks. fleet
combines runs of one lab on several machines, and gives verdicts that hold for machines of
this kind. It takes one number from each machine: the level (weighted mean) of its runs.
Each machine counts as one observation, however many runs it has. A FOLDER stands for all
runs in it.

A verdict needs runs on five machines. fleet withholds a verdict if the contender failed on
a machine. fleet also shows the result of each machine, how much the machines differ, and
the range in which one more machine of this kind is expected. The machines should be alike;
fleet lists the facts in which they differ.

Runs belong to one machine if they have the same processor, the same host in the lab file and
the same value of the label "machine". If several machines have the same processor and host,
set the label: bakeoff run --label machine=rack2-07.

The error rate (--alpha) holds only if you chose the runs without knowledge of their
results.

With --fail-on the exit code is 3 if a comparison has one of the named verdicts. The exit
code is 6 if fleet withheld a verdict, for example because there are fewer than five
machines. The exit code is also 6 if fleet cannot read a run, and for worse-than-margin as
long as an interval contains the limit. With --fail-on, fleet computes every number of the
runs again, as bakeoff verify does, and exits with 1 if a run folder is damaged.`,
		Example: `  bakeoff fleet runs
  bakeoff fleet box1/runs box2/runs box3/runs box4/runs box5/runs --lab nightly
  bakeoff fleet runs --html fleet.html
  bakeoff fleet runs --fail-on worse,inconclusive
  bakeoff fleet runs --json | jq '.labs[].comparisons[] | {contender, cell, verdict, ratio}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.doFleet(c, f, args) },
	}
	f.declareFlags(c, "the margin of the runs", "error `rate` of the verdicts of one lab",
		"judge only runs of the lab of this `name`")
	f.declareFailOn(c, "exit with 3 if a comparison has one of these `verdicts`: %s; exit with 6 if "+
		"a comparison could not be judged, or worse-than-margin is not decided")
	return c
}

func (a reader) doFleet(c *cobra.Command, f judgeFlags, args []string) error {
	if err := f.check(c, args); err != nil {
		return err
	}
	runs, unread, err := a.historyRuns(args, f.lab)
	if err != nil {
		return err
	}
	res, err := fleet.Of(runs, fleet.Option{Alpha: f.alpha, Margin: f.margin, Unread: unread})
	if err != nil {
		return err
	}
	if len(f.failOn) > 0 {
		if err := a.mustHoldAll(runs); err != nil {
			return err
		}
	}
	page := func() ([]byte, error) {
		return report.Fleet(res, report.RunsOption{Version: a.version, All: f.all, Link: pageFrom(f.html)})
	}
	text := func() error { return report.FleetText(a.Out, res, f.all, terminal(a.Streams)) }
	if err := a.showJudged(f, res, page, text); err != nil {
		return err
	}
	return fleetFailed(res, f.failOn)
}

// mayExceedMargin reports whether the interval of a comparison contains values that are worse by
// more than the margin.
func mayExceedMargin(c fleet.Comparison) bool {
	low, high := c.CI[0], c.CI[1]
	if c.Better == sample.Lower {
		return high == nil || *high > c.Region[1]
	}
	return low == nil || *low < c.Region[0]
}

// fleetFailed is how fleet ends with --fail-on.
func fleetFailed(res fleet.Result, failOn []string) error {
	if len(failOn) == 0 {
		return nil
	}
	asked := strings.Join(failOn, ",")
	var found, open []string
	for _, x := range res.Unread {
		open = append(open, fmt.Sprintf("--fail-on %s is not decided: %s could not be read: %s", asked, x.Folder, x.Reason))
	}
	for _, l := range res.Labs {
		if l.Judged == 0 {
			open = append(open, fmt.Sprintf("--fail-on %s is not decided: lab %s has no primary comparison", asked, l.Lab))
		}
		for _, x := range l.Comparisons {
			name, holds := fmt.Sprintf("%s %s %s in lab %s", x.Contender, x.Cell, x.Metric, l.Lab), false
			for _, c := range fleetConditions {
				if x.Primary && slices.Contains(failOn, c.name) && c.holds(x) {
					found, holds = append(found, "--fail-on "+c.name+": "+name), true
				}
			}
			switch {
			case !x.Primary || holds:
			case x.Reason != "":
				open = append(open, "--fail-on "+asked+" is not decided: "+name+": "+x.Reason)
			case slices.Contains(failOn, analysis.WorseThanMargin) && mayExceedMargin(x):
				open = append(open, "--fail-on "+analysis.WorseThanMargin+" is not decided: "+name+
					": the interval contains the limit; measure on more machines")
			}
		}
	}
	switch lines := lists.Map(append(found, open...), safetext.Line); {
	case len(found) > 0:
		return cli.Exit{Code: cli.ExitAsked, Text: strings.Join(lines, "\n")}
	case len(open) > 0:
		return cli.Exit{Code: cli.ExitUndecided, Text: strings.Join(lines, "\n")}
	}
	return nil
}
