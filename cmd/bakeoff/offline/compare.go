package offline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/judge/compare"
	"bakeoff/lab/evidence"
	"bakeoff/publish/difference"
	"bakeoff/publish/export"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	by      string
	margin  float64
	alpha   float64
	repeats []string
	format  string
	json    bool
	all     bool
	failOn  []string
}

func (a reader) compare() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two runs, such as two releases",
		Long: `compare shows what changed from the run OLD to the run NEW, for example from
one release or kernel to the next. Both runs must have done the same work.

The contenders of two different runs do not take turns: anything else that changed between
the runs looks like a difference of the contenders. compare therefore shows two changes. The
relative change is the change of the ratio contender / baseline: a change of the whole
machine cancels out. The direct change is the change of the values themselves, and includes
a change of the machine. The baseline has only a direct change. If something affects the
baseline and a contender alike, such as a new version of the measured program, only the
direct change shows it: use --by direct.

Runs differ even when nothing changed. --repeats names repetitions of OLD: runs of the same
lab file while nothing changed. OLD and its repetitions must be at least three runs. compare
widens the intervals by the differences between these runs; with more runs, the intervals
become narrower. compare also shows the smallest change that it can find with these runs. If
you look for a smaller change, add runs, or measure both sides in one run, as two
contenders. Without --repeats, compare uses three calibrations of the machine (bakeoff
calibrate), if the run folders contain them; calibrations cover only CPU-bound work. Without
repetitions and calibrations, the interval covers only the noise inside the runs. The
verdict is then "not interleaved" (the two sides did not take turns), and compare refuses
conditions of --fail-on that need another verdict.

compare withholds a verdict if a trial failed or a block lacks a value, because the change
then describes a selection of the trials. A primary metric of OLD that is not a primary
metric of NEW counts as missing.

compare withholds the verdict of a direct change if OLD and NEW measured the contender on
different machines: the processor model, the architecture or the label "machine" differs (bakeoff
run --label machine=rack2-07 names a machine). Exact metrics, such as instruction counts, have a
verdict unless the architecture differs. Relative changes have a verdict, and compare prints a
warning. It only warns if something less clear differs: the host of the lab file, the memory, the
flags or the microcode of the processor. Repetitions must come from the machine of OLD; compare
warns about repetitions that were disturbed or are not complete.

With --fail-on, compare computes every number of the runs again, as bakeoff verify does, and
exits with 1 if a run folder is damaged.`,
		Example: `  bakeoff compare runs/20260102T030405Z-quick runs/20260109T030405Z-quick
  bakeoff compare OLD NEW --repeats runs/monday,runs/tuesday,runs/wednesday
  bakeoff compare OLD NEW --repeats runs/monday,runs/tuesday --fail-on worse
  bakeoff compare OLD NEW --repeats runs/a,runs/b --by direct --margin 3% --fail-on worse-than-margin
  bakeoff compare OLD NEW --by direct --json | jq '.yardstick[] | .direct.ratio'
  bakeoff compare OLD NEW --format junit > junit.xml`,
		Args: cli.Each("the run folder OLD", "the run folder NEW"),
		RunE: func(c *cobra.Command, args []string) error { return a.doCompare(c, f, args) },
	}
	fl := c.Flags()
	fl.StringVar(&f.by, "by", string(compare.Relative), "kind of `change` to judge: relative or direct")
	fl.Var((*cli.Share)(&f.margin), "margin",
		"largest difference, as a `share`, that counts as equivalent (default: the margin of OLD)")
	fl.Float64Var(&f.alpha, "alpha", 0.05, "error `rate` of all verdicts together")
	fl.StringSliceVar(&f.repeats, "repeats", nil, "repetitions of OLD: `runs` of the same lab file while nothing changed")
	fl.StringVar(&f.format, "format", "",
		"print the result in the export format of this `name`, instead of a table: "+strings.Join(exportNames(), ", "))
	fl.BoolVar(&f.all, "all", false, "show all metrics, not only primary ones")
	fl.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	FailOnFlag(c, &f.failOn)
	c.ValidArgsFunction = completeRuns
	cli.CompleteFlag(c, "repeats", func([]string) []string { return RunsIn("runs") })
	cli.CompleteFlag(c, "by", func([]string) []string {
		return []string{string(compare.Relative),
			string(compare.Direct)}
	})
	cli.CompleteFlag(c, "format", func([]string) []string { return exportNames() })
	return c
}

// exportNames are the formats that can express a change; the others contain the
// samples of one run.
func exportNames() []string { return []string{"junit", markdownFormat, "openmetrics"} }

// markdownFormat is a table of changes; that of a run shows other columns.
const markdownFormat = "markdown"

func (a reader) doCompare(c *cobra.Command, f compareFlags, args []string) error {
	if err := FailOn(f.failOn).Check(); err != nil {
		return err
	}
	switch {
	case f.json && f.format != "":
		return cli.Usage(c, fmt.Errorf("--json and --format cannot be used together"))
	case f.format != "" && !slices.Contains(exportNames(), f.format):
		return cli.Usage(c, fmt.Errorf("--format must be one of %s (got %q)", strings.Join(exportNames(), ", "), f.format))
	case f.by != string(compare.Relative) && f.by != string(compare.Direct):
		return cli.Usage(c, fmt.Errorf("--by must be relative or direct (got %q)", f.by))
	case !(f.alpha > 0 && f.alpha < 1):
		return cli.Usage(c, fmt.Errorf("--alpha must be between 0 and 1, such as 0.05 (got %g)", f.alpha))
	case c.Flags().Changed("margin") && !(f.margin > 0 && f.margin < 1):
		return cli.Usage(c, fmt.Errorf("--margin must be between 0 and 1, such as 0.02 (got %g)", f.margin))
	case len(f.repeats) > maxRuns:
		return cli.Usage(c, fmt.Errorf("--repeats names more than %d runs", maxRuns))
	}
	var runs []compare.Run
	for _, arg := range append(args[:2:2], f.repeats...) {
		r, err := a.readRun(arg)
		if fault.Is(err, fault.Invalid) && len(f.failOn) > 0 {
			err = cmp.Or(a.mustHold(arg), err) // a damaged folder has its own exit code
		}
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	calibrated, err := calibratedSpread(args[:2])
	if err != nil {
		return err
	}
	res, err := compare.Two(runs[0], runs[1], compare.Option{
		Alpha: f.alpha, Margin: f.margin, By: compare.By(f.by), Repeats: runs[2:], Calibrated: calibrated,
	})
	if err != nil {
		return err
	}
	if err := a.canJudge(c, res, f.failOn); err != nil {
		return err
	}
	if len(f.failOn) > 0 && runs[0].Identity() == runs[1].Identity() {
		return cli.Usage(c, fmt.Errorf("OLD and NEW are the same run (%s), so --fail-on cannot find a change; name two runs",
			res.Old))
	}
	for _, text := range compare.Suspicious(runs[0], runs[1], runs[2:]...) {
		fmt.Fprintln(a.Err, safetext.Line("bakeoff: warning: "+text))
	}
	if len(f.failOn) > 0 {
		for _, arg := range append(args[:2:2], f.repeats...) {
			if err := a.mustHold(arg); err != nil {
				return err
			}
		}
	}
	switch {
	case f.json:
		err = a.PrintJSON(res)
	case f.format == markdownFormat:
		_, err = io.WriteString(a.Out, markdownOf(res))
	case f.format != "":
		err = export.Write(a.Out, f.format, []export.Run{{Results: res.Results(), Unplanned: res.Unplanned()}})
	default:
		a.printCompare(res, f.all)
	}
	if err != nil {
		return err
	}
	return a.failIfAsked(res, f.failOn)
}

// canJudge refuses conditions that need a verdict if no comparison can have one.
func (a reader) canJudge(c *cobra.Command, res compare.Result, failOn []string) error {
	if !slices.ContainsFunc(failOn, needsVerdict) {
		return nil
	}
	if r := res.Results(); len(r.Comparisons) == 0 && len(r.Missing) == 0 {
		return cli.Usage(c, uncompared(res, failOn))
	}
	all, some := unjudged(res)
	err := fmt.Errorf("--fail-on %s needs to know how much results differ between runs without a change; add "+
		"--repeats with %d more runs of OLD's lab file in which nothing changed, or calibrate three times before the runs",
		strings.Join(failOn, ","), compare.MinRepeats-1)
	switch {
	case all:
		return cli.Usage(c, err)
	case some:
		fmt.Fprintf(a.Err, "bakeoff: %v (for the comparisons without a verdict)\n", err)
	}
	return nil
}

// failIfAsked returns how compare ends with --fail-on.
func (a reader) failIfAsked(res compare.Result, failOn []string) error {
	remedy := "more runs in --repeats and a quieter machine narrow the intervals"
	if res.MachinesDiffer() {
		remedy = "measure OLD and NEW on one machine, or judge relative changes (--by relative)"
	}
	r := res.Results()
	if r.Twin != nil {
		tested := *r.Twin
		tested.Different = false // res.Disturbed names each run in which it differs
		r.Twin = &tested
	}
	if text := FailOn(failOn).Open(r, remedy); text != "" {
		fmt.Fprintln(a.Err, "bakeoff: note: "+text)
	}
	return FailOn(failOn).endWith([]analysis.Results{r}, map[string][]string{"failed": res.Failed(),
		"twin": lists.Map(res.Disturbed, func(run string) string { return "the twin differs from the baseline in " + run })},
		remedy)
}

// uncompared says why no comparison can have the verdict that --fail-on asks for.
func uncompared(r compare.Result, failOn []string) error {
	err := fault.New(fault.Invalid, "--fail-on %s needs a verdict, but the comparison contains no primary metric",
		strings.Join(failOn, ","))
	if r.By == compare.Relative && slices.ContainsFunc(r.Yardstick, func(x compare.Row) bool { return x.Primary }) {
		return fault.WithFix(err, "add --by direct: only the baseline is in both runs, and it has no relative change")
	}
	return fault.WithFix(err, "write primary: true into a cell of the lab file, and measure again")
}

// unjudged reports whether all and whether some comparisons could not get a verdict,
// because it is unknown how much runs differ.
func unjudged(r compare.Result) (all, some bool) {
	n, of := 0, r.Results().Comparisons
	for _, c := range of {
		if slices.ContainsFunc(c.Gates, func(g analysis.Gate) bool { return g.Name == string(compare.NotInterleaved) }) {
			n++
		}
	}
	return n > 0 && n == len(of), n > 0
}

// calibratedSpread is the difference from run to run by the calibrations in the
// run folders, the larger of both; nil where there are too few, or where the
// machine had changed since.
func calibratedSpread(args []string) (out *compare.Spread, err error) {
	for _, arg := range args {
		c, err := keptCalibration(arg)
		if err != nil {
			return nil, err
		}
		direct, relative, ok := c.Spread()
		if !ok || len(c.Changed) > 0 || out != nil && out.Relative >= relative {
			continue
		}
		out = &compare.Spread{Runs: len(c.Runs), Direct: direct, Relative: relative,
			Source: fmt.Sprintf("%d calibrations of the machine, of work that computes", len(c.Runs))}
	}
	return out, nil
}

// keptCalibration reads the calibration in a run folder; one without runs
// where there is none.
func keptCalibration(arg string) (c calibrate.Calibration, err error) {
	run, err := openRun(arg)
	if err != nil {
		return c, err
	}
	defer run.Close()
	text, _, err := run.Calibration()
	if fault.Is(err, fault.NotFound) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	c, err = calibrate.Decode(text)
	return c, fault.Op(run.Dir(), err)
}

// readRun reads what compare needs of a run folder: results, fingerprints, and
// what the plan records about the lab.
func (a reader) readRun(arg string) (out compare.Run, err error) {
	run, err := openRun(arg)
	if err != nil {
		return out, err
	}
	defer run.Close()
	var o evidence.Outline
	if out.Results, o, err = a.readOutlined(run); err != nil {
		return out, err
	}
	out.Unplanned, out.Results.Run, out.At = o.Unplanned, cmp.Or(out.Results.Run, run.Base()), o.Began()
	out.Labels = o.Labels()
	out.Facts, err = o.Recorded(run, out.Results)
	return out, err
}

// printCompare prints the changes for a person, the warning first.
func (a reader) printCompare(r compare.Result, all bool) {
	fmt.Fprintln(a.Out, a.Style(a.Out).Paint(cli.Bold, safetext.Line(r.Old+" → "+r.New)))
	for i, text := range append([]string{r.Warning}, r.Warnings...) {
		col := cli.Yellow
		if i > 0 {
			col = ""
		}
		a.Fold(col, safetext.Line(text))
	}
	rows, yardstick := shownRows(r, all)
	a.changes("Against the baseline (contender / baseline, NEW over OLD)", false, r.Margin, rows,
		func(x compare.Row) *compare.Change { return x.Relative })
	a.changes("The values themselves (NEW over OLD), the baseline first", true, r.Margin, append(yardstick, rows...),
		func(x compare.Row) *compare.Change { return x.Direct })
	a.smallest(r, append(yardstick, rows...))
	a.notCompared(append(yardstick, rows...))
	a.changedFacts(r)
	share := fmt.Sprintf("%d primary comparisons share", r.Judged)
	if r.Judged == 1 {
		share = "1 primary comparison has"
	}
	fmt.Fprintf(a.Out, "\nIntervals of %s; %s an error rate of %g; margin %g %%.\n",
		difference.Level(1-levelOf(r)), share, r.Alpha,
		100*r.Margin)
}

// shownRows are the rows of metrics that are primary in any row, or all if none
// is. The baseline and its twin, the yardstick, are shown for those metrics too.
func shownRows(r compare.Result, all bool) (rows, yardstick []compare.Row) {
	primary := map[[2]string]bool{}
	for _, x := range slices.Concat(r.Yardstick, r.Rows) {
		if x.Primary {
			primary[[2]string{x.Cell, x.Metric}] = true
		}
	}
	hidden := func(x compare.Row) bool {
		return !all && len(primary) > 0 && !primary[[2]string{x.Cell, x.Metric}]
	}
	return slices.DeleteFunc(slices.Clone(r.Rows), hidden), slices.DeleteFunc(slices.Clone(r.Yardstick), hidden)
}

func levelOf(r compare.Result) float64 {
	for _, x := range slices.Concat(r.Rows, r.Yardstick) {
		return x.Level
	}
	return 1 - r.Alpha
}

// changes is a table of changes, with what lies between runs below it if it is known of
// any; else the first lines say that it is not.
func (a reader) changes(title string, values bool, margin float64, rows []compare.Row,
	of func(compare.Row) *compare.Change) {
	t := cli.NewTable("  CONTENDER", "CELL", "METRIC")
	if values {
		t.Head = append(t.Head, "OLD → NEW")
	}
	t.Head = append(t.Head, "CHANGE", "BLOCKS", "")
	for _, x := range rows {
		c := of(x)
		if c == nil {
			continue
		}
		word, col := changeWord(x, c, margin)
		change := difference.Change(x.Scale, x.Unit, c.Ratio, c.CI[0], c.CI[1])
		cells := []cli.Cell{cli.Plain("  " + safetext.Line(x.Contender)), cli.Plain(safetext.Line(x.Cell)),
			cli.Plain(safetext.Line(x.Metric))}
		if values {
			cells = append(cells, cli.Plain(safetext.Line(bothValues(c, x.Unit))))
		}
		cells = append(cells, cli.Plain(cli.Whole(change)))
		t.Add(append(cells, cli.Plain(cli.Whole(fmt.Sprintf("%d, %d", c.Blocks[0], c.Blocks[1]))),
			cli.Colored(safetext.Line(word), col))...)
	}
	if len(t.Rows) == 0 {
		return
	}
	a.Heading(title)
	a.PrintText(t)
	if between := betweenRuns(rows, of); between != "" {
		a.Fold("", "  "+between)
	}
}

// smallest says which changes these runs could have found, for the comparisons that get
// a verdict.
func (a reader) smallest(r compare.Result, rows []compare.Row) {
	t := cli.NewTable("  CONTENDER", "CELL", "METRIC", "WORSE BY", "WORSE BY MORE THAN THE MARGIN BY")
	for _, x := range rows {
		c := x.Relative
		if r.By == compare.Direct {
			c = x.Direct
		}
		if c == nil || c.Smallest == nil || c.SmallestBeyond == nil {
			continue
		}
		n := difference.Of(x.Scale, x.Unit, c.Smallest, c.SmallestBeyond)
		t.Row("  "+safetext.Line(x.Contender), safetext.Line(x.Cell), safetext.Line(x.Metric),
			cli.Whole(n.Text(*c.Smallest)), cli.Whole(n.Text(*c.SmallestBeyond)))
	}
	if len(t.Rows) == 0 {
		return
	}
	a.Heading("The smallest change that these runs find in half of the cases")
	a.PrintText(t)
}

// arrow is between the values of two runs. A line may end after it.
const arrow = cli.Nbsp + "→ "

// bothValues are the values of both runs: "23.8 ms → 24.1 ms".
func bothValues(c *compare.Change, u string) string {
	if c.Old == nil || c.New == nil {
		return "–"
	}
	before, after := unit.FormatBoth(*c.Old, *c.New, u)
	return cli.Whole(before) + arrow + cli.Whole(after)
}

// betweenRuns says how much runs differ when nothing changed; "" if it is known of no row.
func betweenRuns(rows []compare.Row, of func(compare.Row) *compare.Change) string {
	var where lists.Groups[string, string]
	for _, x := range rows {
		c := of(x)
		if c == nil || c.Spread == nil || c.Exact {
			continue
		}
		kind := "runs"
		if c.Calibrated {
			kind = "calibrations"
		}
		from := fmt.Sprintf("Standard deviation between %d %s in which nothing changed: ", c.Runs, kind)
		much := fmt.Sprintf("%.2f %%", 100**c.Spread)
		if x.Scale == sample.Difference {
			much = fmt.Sprintf("%.3g %s", *c.Spread, x.Unit)
		}
		where.Add(from, cli.Whole(safetext.Line(x.Contender+" "+x.Cell+" "+x.Metric+" "+much)))
	}
	var out []string
	for from, all := range where.All() {
		out = append(out, from+strings.Join(all, ", ")+".")
	}
	return strings.Join(out, " ")
}

// changeWord is the verdict on a change, or why there is none.
func changeWord(x compare.Row, c *compare.Change, margin float64) (string, cli.Color) {
	word, col := verdictOf(c.Verdict)
	word += analysis.Amount(c.BeyondMargin, margin)
	if len(x.Gates) > 0 && c.Verdict == analysis.Inconclusive {
		word = "inconclusive: " + x.Gates[0].Name + ": " + x.Gates[0].Reason
	} else if c.Withheld != "" && c.Verdict == analysis.Inconclusive && x.Failures == [2]int{} {
		word = "inconclusive: " + c.Withheld
	}
	if x.TwinOf != "" {
		word = "the twin of the baseline"
	}
	if c.Exact {
		exact := "deterministic in both runs"
		if c == x.Direct && *c.Old != *c.New {
			exact += ", " + difference.Amount(*c.New-*c.Old, x.Unit) + " exactly"
		}
		word = strings.TrimPrefix(word+"; "+exact, "; ")
	}
	if f := x.Failures; f[0]+f[1] > 0 {
		word = strings.TrimPrefix(fmt.Sprintf("%s; failed trials: %d, %d", word, f[0], f[1]), "; ")
	}
	return word, col
}

// notCompared names what has no values in one of the runs: a contender that now
// fails is the largest change of all.
func (a reader) notCompared(rows []compare.Row) {
	var cells lists.Groups[string, string]
	for _, x := range rows {
		if x.Direct == nil && !slices.Contains(cells.Of(x.Contender), x.Cell) {
			cells.Add(x.Contender, x.Cell)
		}
	}
	if len(cells.Keys()) == 0 {
		return
	}
	a.Heading("Not compared, because one run has no values")
	for name, cells := range cells.All() {
		a.Fold(cli.Yellow, "  "+safetext.Line(name+" at "+strings.Join(cells, ", ")))
	}
}

func verdictOf(v analysis.Verdict) (string, cli.Color) {
	switch v {
	case analysis.Better:
		return string(v), cli.Green
	case analysis.Worse:
		return string(v), cli.Red
	case analysis.Equivalent:
		return string(v), cli.Bold
	}
	return string(v), cli.Yellow
}

// maxFact bounds the printed length of a fact; --json has all of it.
const maxFact = 48

// changedFacts lists what else changed.
func (a reader) changedFacts(r compare.Result) {
	for _, x := range r.OnlyOld {
		fmt.Fprintln(a.Out, safetext.Line("only in OLD: "+x))
	}
	for _, x := range r.OnlyNew {
		fmt.Fprintln(a.Out, safetext.Line("only in NEW: "+x))
	}
	a.Heading("What else changed")
	if len(r.Differences) == 0 {
		fmt.Fprintln(a.Out, "  nothing in the fingerprints")
		return
	}
	t := cli.NewTable("  FACT", "WHERE", "OLD → NEW")
	var where lists.Groups[compare.Difference, string]
	for _, d := range withoutUnread(r.Differences) {
		where.Add(compare.Difference{Fact: d.Fact, Old: d.Old, New: d.New}, cmp.Or(d.Contender, "laboratory"))
	}
	for d, names := range where.All() {
		t.Row("  "+safetext.Line(d.Fact), safetext.Line(strings.Join(names, ", ")),
			safetext.Line(safetext.Clip(d.Old, maxFact)+" → "+safetext.Clip(d.New, maxFact)))
	}
	a.PrintText(t)
}

// manyFacts is the number of facts above which the facts of a contender that only
// one run has are counted, not listed.
const manyFacts = 5

// withoutUnread replaces the differences of a contender that has a fingerprint in
// only one run by a single difference.
func withoutUnread(ds []compare.Difference) (out []compare.Difference) {
	type side struct{ old, new, all int }
	of := map[string]side{}
	for _, d := range ds {
		s := of[d.Contender]
		s.all++
		if d.Old == "unavailable" {
			s.old++
		}
		if d.New == "unavailable" {
			s.new++
		}
		of[d.Contender] = s
	}
	told := map[string]bool{}
	for _, d := range ds {
		s := of[d.Contender]
		if s.all <= manyFacts || s.old < s.all && s.new < s.all {
			out = append(out, d)
			continue
		}
		if told[d.Contender] {
			continue
		}
		told[d.Contender] = true
		d = compare.Difference{Contender: d.Contender, Fact: fmt.Sprintf("%d facts", s.all), Old: "unavailable", New: "known"}
		if s.new == s.all {
			d.Old, d.New = d.New, d.Old
		}
		out = append(out, d)
	}
	return out
}
