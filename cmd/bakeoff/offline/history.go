package offline

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/lab/archive/index"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// judgeFlags are the flags of the commands that judge many runs: history and fleet.
type judgeFlags struct {
	of         string   // the command
	conditions []string // what --fail-on can name
	margin     float64
	alpha      float64
	lab        string
	all        bool
	json       bool
	html       string
	failOn     []string
}

// declareFlags declares all but --fail-on, with the texts that differ.
func (f *judgeFlags) declareFlags(c *cobra.Command, margin, alpha, lab string) {
	fl := c.Flags()
	fl.Var((*cli.Share)(&f.margin), "margin",
		"largest difference, as a `share`, that counts as equivalent (default: "+margin+")")
	fl.Float64Var(&f.alpha, "alpha", analysis.MaxAlpha, alpha)
	fl.StringVar(&f.lab, "lab", "", lab)
	fl.BoolVar(&f.all, "all", false, "show all metrics, not only primary ones")
	fl.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	fl.StringVar(&f.html, "html", "", "write a page with the result to this `file`")
	c.ValidArgsFunction = completeRuns
}

// declareFailOn declares --fail-on; usage has a place for the conditions.
func (f *judgeFlags) declareFailOn(c *cobra.Command, usage string) {
	c.Flags().Var((*cli.Names)(&f.failOn), "fail-on", fmt.Sprintf(usage, strings.Join(f.conditions, ", ")))
	cli.CompleteFlag(c, "fail-on", func([]string) []string { return f.conditions })
}

// check refuses values that cannot be meant.
func (f judgeFlags) check(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usage(c, fmt.Errorf("the run folders are missing"))
	}
	for _, name := range f.failOn {
		if !slices.Contains(f.conditions, name) {
			return cli.Usage(c, fmt.Errorf("--fail-on must be one of %s (got %q)", strings.Join(f.conditions, ", "), name))
		}
	}
	switch {
	case !(f.alpha > 0 && f.alpha < 1):
		return cli.Usage(c, fmt.Errorf("--alpha must be between 0 and 1, such as 0.05 (got %g)", f.alpha))
	case c.Flags().Changed("margin") && !(f.margin > 0 && f.margin <= analysis.MaxMargin):
		return cli.Usage(c, fmt.Errorf("--margin must be between 0 and %g, such as 0.02 (got %g)", analysis.MaxMargin,
			f.margin))
	}
	return nil
}

// showJudged writes the page if --html asks for it, and prints the result.
func (a reader) showJudged(f judgeFlags, res any, page func() ([]byte, error), text func() error) error {
	if f.html != "" {
		page, err := page()
		if err != nil {
			return err
		}
		if err := replaceFile(f.html, page); err != nil {
			return fault.Op(f.of, err)
		}
	}
	if f.json {
		return a.PrintJSON(res)
	}
	err := text()
	if f.html != "" {
		fmt.Fprintln(a.Out, "\nPage: "+f.html)
	}
	return err
}

// historyFlags are the flags of history.
type historyFlags struct {
	judgeFlags
	by     string
	newest int
	store  string
	most   int
}

// suspectCondition asks --fail-on for a newest run that stands out.
const suspectCondition = "suspect"

// stepConditions are what --fail-on of history can ask for, besides suspectCondition.
var stepConditions = []struct {
	name  string
	holds func(history.Step) bool
}{
	{"step", func(history.Step) bool { return true }},
	{"worse", func(s history.Step) bool { return s.Verdict == analysis.Worse }},
	{"worse-than-margin", func(s history.Step) bool {
		return s.Verdict == analysis.Worse && s.BeyondMargin != nil && *s.BeyondMargin
	}},
	{"better", func(s history.Step) bool { return s.Verdict == analysis.Better }},
}

func (a reader) history() *cobra.Command {
	f := historyFlags{judgeFlags: judgeFlags{of: "history"}}
	for _, c := range stepConditions {
		f.conditions = append(f.conditions, c.name)
	}
	f.conditions = append(f.conditions, suspectCondition)
	c := &cobra.Command{
		Use:   "history RUN|FOLDER...",
		Short: "Show runs of a lab over time, and find the run at which something changed",
		Long: `history shows runs of one lab over time, such as one run for every commit or every night. It
shows how the contenders compare with the baseline in each run, and the steps (lasting
changes). For the runs between two steps, it shows their level (weighted mean). A FOLDER
stands for all runs in it. Each machine has a history of its own.

Each run counts as one observation. The spread between runs is part of every interval, so
one bad day does not count as a regression. A step needs two runs on one side and five runs
on the other side, or three runs on both sides. If a step may have happened in the newest
runs, history prints how many more runs would decide this. It also prints the smallest step
that it would probably find after one more run, two more runs, and so on. If nothing
changed, at most 5 % of histories (--alpha) show a step; all primary comparisons of a lab on
one machine share this rate.

history names what else changed at a step: the kernel, the image, files that the lab file
places in environments, and the labels that bakeoff run --label gave to the runs. Such a
change is a possible cause of the step.

history leaves a run out if the run did other work, if a check failed, or if its twin (a
copy of the baseline) differs from the baseline. history prints the reason.

With --fail-on the exit code is 3 if one of the named conditions is true. With --newest 10,
the exit code depends only on the newest 10 runs of each history. The exit code is 6 if
history left out the newest run or could not read it, and if too few runs are comparable with
the newest run although the history is long enough. It is also 6 if the newest run lacks a
contender, a cell or a primary metric that an earlier run has; with --newest 10, only if it
was lost in one of the newest 10 runs. The condition suspect is true if the
newest run is farther from the earlier level than any other run, and farther than chance
allows. The newest run is then either the first run of a large step or a single disturbed
run; the next run shows which. With --fail-on, history computes every number of these newest
runs again, as bakeoff verify does, or of all runs without --newest. It exits with 1 if a run
folder is damaged.

With --store, history reads the newest runs, with their
primary metrics, from the index of a store: as many runs as --most says, of --lab or of all
labs. It then computes no number again: run bakeoff store verify --full. With --fail-on, it
exits with 1 if raw files of one of these newest runs are missing, or if its numbers did not
hold when bakeoff store add --damaged added it.`,
		Example: `  bakeoff history runs
  bakeoff run lab.yaml --label commit=$(git rev-parse --short HEAD) && bakeoff history runs --lab nightly
  bakeoff history runs --html history.html
  bakeoff history runs --by direct --all
  bakeoff history runs --fail-on worse --newest 10
  bakeoff history runs --fail-on suspect,step --newest 2
  bakeoff history --store store --lab nightly
  bakeoff history runs --json | jq '.labs[].series[].steps'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.doHistory(c, f, args) },
	}
	fl := c.Flags()
	fl.StringVar(&f.by, "by", string(compare.Relative),
		"`estimate`: relative (contender / baseline) or direct (the values themselves)")
	f.declareFlags(c, "the margin of the newest run", "error `rate` of the steps of one lab on one machine",
		"show only runs of the lab of this `name`")
	fl.StringVar(&f.store, "store", "", "read the runs from the index of the store in this `folder`")
	fl.IntVar(&f.most, "most", 1000, "with --store: read this `number` of the newest runs")
	fl.IntVar(&f.newest, "newest", 0, "use only this `number` of the newest runs for --fail-on; 0: all runs")
	f.declareFailOn(c, "exit with 3 if one of these `conditions` is true: %s; exit with 6 if "+
		"the newest run was left out, cannot be read, lost something, or is comparable with too few runs")
	cli.CompleteFlag(c, "by", func([]string) []string {
		return []string{string(compare.Relative), string(compare.Direct)}
	})
	return c
}

func (a reader) doHistory(c *cobra.Command, f historyFlags, args []string) error {
	if f.store != "" && len(args) > 0 {
		return cli.Usage(c, fmt.Errorf("name run folders, or a store with --store, not both"))
	}
	if f.store != "" {
		args = []string{f.store}
	}
	if err := f.check(c, args); err != nil {
		return err
	}
	switch {
	case f.store != "" && (f.by != string(compare.Relative) || f.all):
		return cli.Usage(c, fmt.Errorf("--by direct and --all need run folders: the index of a store has only "+
			"primary metrics, relative to the baseline"))
	case f.most < 1 || f.most > maxHistory:
		return cli.Usage(c, fmt.Errorf("--most must be between 1 and %d (got %d)", maxHistory, f.most))
	case f.by != string(compare.Relative) && f.by != string(compare.Direct):
		return cli.Usage(c, fmt.Errorf("--by must be relative or direct (got %q)", f.by))
	case f.newest < 0:
		return cli.Usage(c, fmt.Errorf("--newest must be 0 or more (got %d)", f.newest))
	case f.newest == 1 && slices.ContainsFunc(f.failOn, func(c string) bool { return c != suspectCondition }):
		return cli.Usage(c, fmt.Errorf("--newest 1 contains no step, because a step has two or more runs after it, so "+
			"only --fail-on %s can be true; write --newest 2 or more", suspectCondition))
	}
	var runs []history.Run
	var unread []history.Unread
	var err error
	if f.store == "" {
		runs, unread, err = a.historyRuns(args, f.lab)
	} else {
		runs, unread, err = a.storedRuns(c.Context(), f)
	}
	if err != nil {
		return err
	}
	res, err := history.Of(runs, history.Option{Alpha: f.alpha, Margin: f.margin, By: compare.By(f.by), Unread: unread})
	if err != nil {
		return err
	}
	if len(f.failOn) > 0 {
		mustHold := a.mustHoldAll
		if f.store != "" {
			mustHold = mustBeWhole
		}
		if err := mustHold(judgedRuns(res, runs, f.newest)); err != nil {
			return err
		}
	}
	page := func() ([]byte, error) {
		return report.History(res, report.RunsOption{Version: a.version, All: f.all, Link: pageFrom(f.html)})
	}
	text := func() error { return report.HistoryText(a.Out, res, f.all, terminal(a.Streams)) }
	if err := a.showJudged(f.judgeFlags, res, page, text); err != nil {
		return err
	}
	a.noteFew(res, f.failOn)
	return stepsFound(res, runs, f)
}

// judgedRuns are the newest runs of each history, or all, that --fail-on judges.
func judgedRuns(res history.Result, runs []history.Run, newest int) []history.Run {
	judged := map[string]bool{}
	for _, l := range res.Labs {
		first := 0
		if newest > 0 {
			first = max(0, len(l.Runs)-newest)
		}
		for _, p := range l.Runs[first:] {
			judged[p.Folder] = true
		}
	}
	return lists.Filter(runs, func(r history.Run) bool { return judged[r.Folder] })
}

// pageFrom returns the address of the page of a run as seen from a page in a file; ""
// if the run has no page, or if its folder is not reachable by a relative address.
func pageFrom(file string) func(string) string {
	base, err := filepath.Abs(filepath.Dir(file))
	return func(folder string) string {
		page, pageErr := filepath.Abs(filepath.Join(folder, filepath.FromSlash(store.ReportFile)))
		if err != nil || pageErr != nil {
			return ""
		}
		if info, err := os.Lstat(page); err != nil || !info.Mode().IsRegular() {
			return ""
		}
		rel, err := filepath.Rel(base, page)
		if err != nil {
			return ""
		}
		return (&url.URL{Path: filepath.ToSlash(rel)}).String()
	}
}

// stepsFound is how history ends with --fail-on.
func stepsFound(res history.Result, runs []history.Run, f historyFlags) error {
	var lines []string
	for _, l := range res.Labs {
		for _, s := range l.Primary() {
			if x := s.Suspect; x != nil && x.Clear && slices.Contains(f.failOn, suspectCondition) {
				lines = append(lines, safetext.Line(fmt.Sprintf("--fail-on %s: %s %s %s in lab %s: run %s stands out",
					suspectCondition, s.Contender, s.Cell, s.Metric, l.Lab, l.Runs[x.Run].Run)))
			}
			for _, step := range s.Steps {
				if f.newest > 0 && step.Run < len(l.Runs)-f.newest {
					continue
				}
				for _, c := range stepConditions {
					if slices.Contains(f.failOn, c.name) && c.holds(step) {
						lines = append(lines, safetext.Line(fmt.Sprintf("--fail-on %s: %s %s %s in lab %s changed at run %s", c.name,
							s.Contender, s.Cell, s.Metric, l.Lab, l.Runs[step.Run].Run)))
					}
				}
			}
		}
	}
	open := undecidedSteps(res, runs, f)
	switch {
	case len(lines) > 0:
		return cli.Exit{Code: cli.ExitAsked, Text: strings.Join(append(lines, open...), "\n")}
	case len(open) > 0:
		return cli.Exit{Code: cli.ExitUndecided, Text: strings.Join(open, "\n")}
	}
	return nil
}

// undecidedSteps says where the newest run says nothing: it could not be read, lost what one of
// the runs to judge has, or does not count for a series. Without it, --fail-on would let pass
// what nobody judged.
func undecidedSteps(res history.Result, runs []history.Run, f historyFlags) (lines []string) {
	failOn := f.failOn
	if len(failOn) == 0 {
		return nil
	}
	say := func(format string, args ...any) {
		lines = append(lines, safetext.Line(fmt.Sprintf("--fail-on %s is not decided: %s", strings.Join(failOn, ","),
			fmt.Sprintf(format, args...))))
	}
	for _, l := range res.Labs {
		last := len(l.Runs) - 1
		present, before := false, len(lines)
		for _, x := range l.Lost {
			if f.newest == 0 || x.Last >= last-f.newest {
				say("the newest run %s of lab %s has no %s; %s is the last that has it", l.Runs[last].Run, l.Lab, x.What,
					l.Runs[x.Last].Run)
			}
		}
		for _, s := range l.Primary() {
			name := fmt.Sprintf("%s %s %s in lab %s", s.Contender, s.Cell, s.Metric, l.Lab)
			switch {
			case hasNewest(l, s):
				if present = true; severed(l, s) {
					say("%s: %s of %d can be used, and %d are needed: %s", name, unit.Count(len(s.Estimates), "run"), len(l.Runs),
						s.Needs, s.LeftOut[len(s.LeftOut)-1].Reason)
				}
			case plans(runs, l.Runs[last], s):
				why := "it has no value"
				for _, x := range s.LeftOut {
					if x.Run == last {
						why = x.Reason
					}
				}
				say("%s: the newest run %s has no usable value: %s", name, l.Runs[last].Run, why)
			}
		}
		switch {
		case len(lines) > before:
		case !present:
			say("the newest run %s of lab %s has nothing to judge", l.Runs[last].Run, l.Lab)
		case renamed(l):
			say("no comparison of the newest run %s of lab %s is in enough earlier runs", l.Runs[last].Run, l.Lab)
		}
	}
	for _, u := range res.Unread {
		known := slices.ContainsFunc(res.Labs, func(l history.Lab) bool { return l.Lab == u.Lab })
		if u.Lab != "" && !known || slices.ContainsFunc(res.Labs, u.MayBeNewest) {
			say("the newest run %s could not be read: %s", u.Folder, u.Reason)
		}
	}
	return lines
}

// hasNewest reports whether the newest run counts for a series.
func hasNewest(l history.Lab, s history.Series) bool {
	n := len(s.Estimates)
	return n > 0 && s.Estimates[n-1].Run == len(l.Runs)-1
}

// renamed reports whether no series of the newest run has the runs for a step although the
// history has enough: those before have other contenders, cells or metrics.
func renamed(l history.Lab) bool {
	return !slices.ContainsFunc(l.Primary(), func(s history.Series) bool {
		return hasNewest(l, s) && (s.Needs == 0 || len(l.Runs) < s.Needs)
	})
}

// severed reports whether a series lacks the runs for a step although the history has enough:
// those before did other work, or could not be used.
func severed(l history.Lab, s history.Series) bool {
	return s.Needs > 0 && len(l.Runs) >= s.Needs && len(s.LeftOut) > 0
}

// plans reports whether a run has the contender and the cell of a series: a lab file may
// have lost them on purpose.
func plans(runs []history.Run, p history.Point, s history.Series) bool {
	return slices.ContainsFunc(runs, func(r history.Run) bool {
		return r.Folder == p.Folder &&
			slices.ContainsFunc(r.Results.Contenders, func(c analysis.Contender) bool { return c.Name == s.Contender }) &&
			slices.ContainsFunc(r.Results.Cells, func(c analysis.Cell) bool { return c.Name == s.Cell })
	})
}

// noteFew says that conditions of --fail-on cannot be true yet, because there are too few runs.
func (a reader) noteFew(res history.Result, failOn []string) {
	for _, l := range res.Labs {
		needs, fewest := 0, len(l.Runs)
		for _, s := range l.Primary() {
			if s.Needs > 0 && !severed(l, s) {
				needs, fewest = max(needs, s.Needs), min(fewest, len(s.Estimates))
			}
		}
		if len(failOn) > 0 && needs > 0 && !renamed(l) {
			fmt.Fprintln(a.Err, safetext.Line(fmt.Sprintf("bakeoff: note: lab %s has %s on this machine, but history needs "+
				"%d or more to find a step; until then --fail-on %s never fails", l.Lab,
				unit.Count(fewest, "comparable run"), needs, strings.Join(failOn, ","))))
		}
	}
}

// maxHistory bounds the runs that one call reads.
const maxHistory = 5000

// historyRuns reads the runs that args name: run folders, and folders of them. What
// cannot be read is in unread.
func (a reader) historyRuns(args []string, lab string) (runs []history.Run, unread []history.Unread, err error) {
	folders, err := runFolders(args)
	if err != nil {
		return nil, nil, err
	}
	began, told := time.Now(), false
	for i, dir := range folders {
		if !told && time.Since(began) > time.Second {
			told = true
			fmt.Fprintf(a.Err, "bakeoff: reading %d runs\n", len(folders)-i)
		}
		r, err := report.ReadHistory(dir)
		if err != nil {
			if lab == "" || r.Lab == "" || r.Lab == lab {
				unread = append(unread, history.Unread{Folder: dir, Reason: err.Error(), Lab: r.Lab, At: r.At})
			}
			continue
		}
		runs = append(runs, r)
	}
	runs = a.withoutCopies(runs, holds)
	all := lists.Map(runs, func(r history.Run) string { return r.Lab })
	if lab != "" {
		runs = lists.Filter(runs, func(r history.Run) bool { return r.Lab == lab })
	}
	switch {
	case len(runs) > 0:
		return runs, unread, nil
	case lab != "" && len(all) > 0:
		slices.Sort(all)
		return nil, nil, fault.WithFix(fault.New(fault.NotFound, "found no run of the lab %q", lab),
			"the runs belong to these labs: "+safetext.Line(strings.Join(slices.Compact(all), ", ")))
	case len(unread) > 0:
		return nil, nil, fault.WithFix(fault.New(fault.NotFound, "none of the runs can be read; the first is %s: %s",
			safetext.Line(unread[0].Folder), unread[0].Reason), "run bakeoff report FOLDER for runs that were killed")
	}
	return nil, nil, fault.New(fault.NotFound, "no run found")
}

// withoutCopies keeps one of the folders that were copied from one run, and names the others,
// because a copy measured nothing. It keeps the one that is as planned, complete and has most
// blocks; if two are alike, the first that is intact.
func (a reader) withoutCopies(runs []history.Run, intact func(history.Run) bool) (out []history.Run) {
	kept := map[compare.Identity]int{}
	order := func(x, y history.Run) int {
		return cmp.Or(cmp.Compare(len(y.Unplanned), len(x.Unplanned)), cmp.Compare(completeness(x), completeness(y)),
			cmp.Compare(x.Results.Blocks, y.Results.Blocks))
	}
	for _, r := range runs {
		id := r.Identity()
		i, copied := kept[id]
		if !copied {
			kept[id] = len(out)
			out = append(out, r)
			continue
		}
		if n := order(r, out[i]); n > 0 || n == 0 && !intact(out[i]) && intact(r) {
			r, out[i] = out[i], r
		}
		fmt.Fprintf(a.Err, "bakeoff: %s is a copy of the run in %s, and is not counted\n", safetext.Line(r.Folder),
			safetext.Line(out[i].Folder))
	}
	return out
}

// holds reports whether the folder of a run is intact.
func holds(r history.Run) bool {
	v, err := verified(r.Folder, nil)
	return err == nil && len(v.Damage()) == 0
}

// completeness is higher for a run that ended by its own rules than for one that was stopped.
func completeness(r history.Run) int {
	switch r.Results.Ended {
	case "":
		return 0
	case analysis.EndedInterrupted, analysis.EndedVoid:
		return 1
	}
	return 2
}

// storedRuns reads the runs from the index of a store. Those whose values the index lacks are
// in unread.
func (a reader) storedRuns(
	ctx context.Context,
	f historyFlags,
) (runs []history.Run, unread []history.Unread, err error) {
	x, err := a.open(ctx, f.store)
	if err != nil {
		return nil, nil, err
	}
	defer x.Close()
	runs, unread, err = x.Past(ctx, index.Filter{Lab: f.lab, Most: f.most})
	if err != nil {
		return nil, nil, err
	}
	if len(unread) > 0 {
		fmt.Fprintf(a.Err, "bakeoff: the index lacks the values of %s that history needs; run bakeoff store rebuild\n",
			unit.Count(len(unread), "run"))
	}
	if len(runs) == 0 {
		return nil, nil, fault.WithFix(fault.New(fault.NotFound, "the store %s has no run%s with the values that history "+
			"needs", f.store,
			map[bool]string{true: fmt.Sprintf(" of the lab %q", f.lab)}[f.lab != ""]), "run bakeoff store list")
	}
	return a.withoutCopies(runs, func(r history.Run) bool { return r.Damage != nil && *r.Damage == "" }), unread, nil
}

// runFolders lists the run folders that args name, each once.
func runFolders(args []string) (out []string, err error) {
	seen := map[string]bool{}
	for _, arg := range args {
		inside := RunsIn(arg)
		if isRun(arg) || len(inside) == 0 {
			dir, err := RunDir(arg)
			if err != nil {
				return nil, err
			}
			inside = []string{dir}
		}
		for _, dir := range inside {
			place := dir
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				place = real
			}
			if real, err := filepath.Abs(place); err == nil {
				place = real
			}
			if !seen[place] {
				seen[place] = true
				out = append(out, dir)
			}
		}
	}
	if len(out) > maxHistory {
		return nil, fault.WithFix(fault.New(fault.Invalid, "there are %d runs, but history reads at most %d",
			len(out), maxHistory),
			"name fewer runs")
	}
	return out, nil
}
