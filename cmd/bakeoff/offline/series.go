package offline

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/format"
	"bakeoff/judge/series"
	"bakeoff/publish/difference"
	"bakeoff/publish/report"
)

// analyseFormat analyzes the output of a benchmark program: with verdicts if it names
// blocks, and otherwise as series.
func (a reader) analyseFormat(c *cobra.Command, f analyseFlags, x format.Format, files inputs,
	table analysis.TableOptions) error {
	sources, err := files.readAs(x, len(f.failOn) > 0)
	if err != nil {
		return err
	}
	if c.Flags().Changed("baseline") && f.baseline == "" {
		f.baseline = `""` // as an empty value is shown
		table.Baseline = f.baseline
	}
	opt := series.Option{By: f.contender, Baseline: f.baseline, Group: f.group}
	rows, why, err := series.Rows(x.Doc(), sources, opt)
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		if f.group != "" {
			return errGroup
		}
		results, err := analysis.AnalyseRows(rows, sources[0].Path, table)
		if err != nil {
			return err
		}
		for i := range results {
			results[i].Warnings = append(append(results[i].Warnings, why...), sources[0].Warnings...)
		}
		return a.printTable(results, f, lostIn(sources, opt.By))
	}
	for _, name := range []string{"looks", "alphas", "margin"} {
		if c.Flags().Changed(name) {
			return cli.Usage(c, fmt.Errorf("--%s can be used only with values in blocks, and %s names no blocks",
				name, sources[0].Path))
		}
	}
	if i := slices.IndexFunc(f.failOn, needsVerdict); i >= 0 {
		return cli.Usage(c, fmt.Errorf("--fail-on %s needs a verdict, and values that were not measured in blocks get none",
			f.failOn[i]))
	}
	r, err := series.Compare(x.Doc(), sources, opt)
	if err != nil {
		return err
	}
	r.Warnings = append(r.Warnings, why...)
	switch {
	case f.json:
		err = a.PrintJSON(r)
	case f.markdown:
		_, err = io.WriteString(a.Out, markdownSeries(r, f.sort))
	default:
		a.printSeries(r, f.sort)
	}
	if err != nil {
		return err
	}
	return FailOn(f.failOn).endWith([]analysis.Results{r.Results()}, lostIn(sources, opt.By), "")
}

// lostIn are the lines of the conditions missing and failed about what the files lack: a
// contender of which every part was left out does not count. by is the option --contender.
func lostIn(sources []series.Source, by string) map[string][]string {
	out := map[string][]string{}
	if n := series.WithoutContender(sources, by); n > 0 {
		out["missing"] = append(out["missing"], fmt.Sprintf("%s without %q", unit.Count(n, "result"), by))
	}
	for _, s := range sources {
		if s.LeftOut > 0 {
			out["missing"] = append(out["missing"], fmt.Sprintf("%s: %s cannot be used", s.Path, unit.Count(s.LeftOut, "part")))
		}
		for _, text := range s.Failures {
			out["missing"] = append(out["missing"], named(s.Path, text))
			out["failed"] = append(out["failed"], named(s.Path, text))
		}
		for _, text := range s.Cut {
			out["missing"] = append(out["missing"], named(s.Path, text))
		}
		for _, rec := range s.Records {
			if rec.Failed > 0 && len(rec.Series) == 0 { // no summary counts it
				out["failed"] = append(out["failed"], safetext.Line(fmt.Sprintf("%s:%d: %s", s.Path, rec.Line, rec.Reason)))
			}
		}
	}
	return out
}

// The first warning of every comparison of series is one of these.
const (
	notInterleaved = "Not interleaved: anything that changed between the sides, such as temperature, caches or other " +
		"programs, looks like a difference. bakeoff gives intervals and no verdict."
	noBlocks = "No blocks: the files do not say which values were measured close together, so a change of the machine " +
		"cannot be separated from a difference. bakeoff gives intervals and no verdict."
)

// orders says what is known about the order of two sides.
var orders = map[series.Order]string{
	series.Sequence: "all values of one side were measured before those of the other",
	series.Turns:    "the sides took turns",
	series.Together: "the sides ran at the same time and competed for the machine",
	series.Unknown:  "the files do not say which side was measured first",
}

// printSeries prints a comparison of series for a person, the warning first.
func (a reader) printSeries(r series.Result, sort string) {
	fmt.Fprintln(a.Out, a.Style(a.Out).Paint(cli.Bold, safetext.Line(sourceText(r))))
	say := func(col cli.Color, text string) { a.Fold(col, safetext.Line(text)) }
	if len(r.Comparisons) > 0 {
		say(cli.Yellow, firstWarning(r))
	}
	say("", r.Measured)
	for _, text := range orderTexts(r) {
		say("", text)
	}
	for _, text := range r.Warnings {
		say(cli.Yellow, "warning: "+text)
	}
	if len(r.Contenders) == 1 {
		say("", fmt.Sprintf("There is one contender, %s. Add files, or choose with --contender what to compare.",
			r.Contenders[0]))
	}
	for _, metric := range tablesOf(r) {
		a.printMetric(r, metric, sort)
	}
	for _, m := range r.Missing {
		say(cli.Yellow, strings.TrimSuffix(fmt.Sprintf("missing: %s at %s", m.Contender, m.Cell), " at ")+": "+m.Reason)
	}
	a.printDifferences(r)
	a.Out.Write([]byte("\n"))
	say("", lastNote(r))
}

// firstWarning is the warning of all comparisons.
func firstWarning(r series.Result) string {
	if slices.ContainsFunc(r.Comparisons, func(c series.Comparison) bool { return c.Order != series.Turns }) {
		return notInterleaved
	}
	return noBlocks
}

// lastNote says what the intervals cover.
func lastNote(r series.Result) string {
	if !slices.ContainsFunc(r.Summaries, func(s series.Summary) bool { return s.CI[0] != nil }) &&
		!slices.ContainsFunc(r.Comparisons, func(c series.Comparison) bool { return c.CI[0] != nil }) {
		return "No intervals: there are too few single values."
	}
	return fmt.Sprintf("Intervals of %g %% for each comparison alone; they cover the noise among repetitions only.",
		100*r.Level)
}

// sourceText names the files: "old (6 files), new: fio-3.33".
func sourceText(r series.Result) string {
	var names, programs []string
	count := map[string]int{}
	for _, s := range r.Sources {
		if count[s.Name]++; count[s.Name] == 1 {
			names = append(names, s.Name)
		}
		if s.Program != "" && !slices.Contains(programs, s.Program) {
			programs = append(programs, s.Program)
		}
	}
	names = lists.Map(names, func(n string) string {
		if count[n] > 1 {
			return fmt.Sprintf("%s (%d files)", n, count[n])
		}
		return n
	})
	return strings.Join(names, ", ") + ": " + strings.Join(programs, ", ")
}

// orderTexts say how the compared sides were ordered.
func orderTexts(r series.Result) (out []string) {
	count := map[series.Order]int{}
	for _, c := range r.Comparisons {
		count[c.Order]++
	}
	for _, o := range []series.Order{series.Sequence, series.Turns, series.Together, series.Unknown} {
		switch n := count[o]; {
		case n == 0:
		case n == len(r.Comparisons):
			out = append(out, "Here "+orders[o]+".")
		default:
			out = append(out, fmt.Sprintf("In %d of %d comparisons %s.", n, len(r.Comparisons), orders[o]))
		}
	}
	return out
}

// seriesTable is a metric with its direction. Each has a table of its own.
type seriesTable struct {
	metric string
	better sample.Better
}

func tablesOf(r series.Result) (out []seriesTable) {
	for _, s := range r.Summaries {
		if t := (seriesTable{s.Metric, s.Better}); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

func (t seriesTable) tableTitle() string {
	if t.better == "" {
		return t.metric
	}
	return t.metric + ", " + string(t.better) + " is better"
}

// rowsOf are the summaries of a table.
func (t seriesTable) rowsOf(r series.Result) []series.Summary {
	return lists.Filter(r.Summaries, func(s series.Summary) bool { return s.Metric == t.metric && s.Better == t.better })
}

// geomeans are the geometric means of a table.
func (t seriesTable) geomeans(r series.Result) []analysis.Geomean {
	return lists.Filter(r.Geomeans, func(g analysis.Geomean) bool { return g.Metric == t.metric && g.Better == t.better })
}

// printMetric prints a table of one metric.
func (a reader) printMetric(r series.Result, metric seriesTable, sort string) {
	head, rows, notes := seriesRows(r, metric, sort)
	head[0] = "  " + head[0]
	t := cli.NewTable(head...)
	for _, row := range rows {
		row[0] = "  " + row[0]
		t.Row(lists.Map(row, safetext.Line)...)
	}
	a.Heading(safetext.Line(metric.tableTitle()))
	a.PrintText(t)
	for _, n := range notes {
		a.Fold(cli.Yellow, "  "+safetext.Line(n))
	}
}

// seriesRows are the head and the rows of a table, and the warnings of its comparisons.
func seriesRows(r series.Result, metric seriesTable, sort string) (head []string, out [][]string, notes []string) {
	rows := metric.rowsOf(r)
	cells := slices.ContainsFunc(rows, func(s series.Summary) bool { return s.Cell != "" })
	compared := len(r.Comparisons) > 0
	head = []string{"CONTENDER", "MEDIAN", "VALUES"}
	if slices.ContainsFunc(rows, func(s series.Summary) bool { return s.Median == nil && s.Stats != nil }) {
		head[1] = "CENTER"
	}
	if cells {
		head = append([]string{"CELL"}, head...)
	}
	if compared {
		head = append(head, "AGAINST THE BASELINE")
	}
	before := ""
	all := comparisonsOf(r)
	for i, x := range arranged(all, rows, sort) {
		row := []string{x.Contender, medianText(x), valuesText(x)}
		if cells {
			name := cmp.Or(x.Cell, "–")
			if i > 0 && name == before {
				name = ""
			}
			before = cmp.Or(x.Cell, "–")
			row = append([]string{name}, row...)
		}
		if compared {
			text, more := changeText(all, x)
			row = append(row, text)
			notes = lists.AddNew(notes, more...)
		}
		out = append(out, row)
	}
	for _, g := range metric.geomeans(r) {
		out = append(out, []string{report.GeomeanName(g), g.Contender, "", "", geomeanText(g, rows[0].Unit)})
	}
	return head, out, notes
}

// valuesText says of how many values a center is.
func valuesText(x series.Summary) string {
	text := fmt.Sprint(x.N)
	if x.Stats != nil {
		text = "statistics"
		if x.Stats.N != nil {
			text = fmt.Sprintf("statistics of %d", *x.Stats.N)
		}
	}
	if x.Failures > 0 {
		text += fmt.Sprintf(", %d failed", x.Failures)
	}
	return text
}

// geomeanText is the geometric mean of a metric with this unit.
func geomeanText(g analysis.Geomean, unitName string) string {
	words := difference.Speak(g.Metric, unitName, g.Better)
	return cli.Whole(words.Change(sample.Ratio, unitName, g.Ratio, g.CI[0], g.CI[1]))
}

// arranged returns the summaries of a metric: those of a cell together, and in it the
// baseline first, then the best if the order is by estimate.
func arranged(all comparisons, rows []series.Summary, sort string) []series.Summary {
	place := map[string]int{}
	for _, x := range rows {
		if _, ok := place[x.Cell]; !ok {
			place[x.Cell] = len(place)
		}
	}
	rank := func(x series.Summary) float64 {
		c, ok := all.of[placeOf(x)]
		switch {
		case !ok && x.N > 0:
			return math.Inf(-1) // the baseline
		case !ok || c.Ratio == nil:
			return math.Inf(1)
		case report.Order(sort) != report.ByEstimate || x.Better == "":
			return 0
		case x.Better == sample.Higher:
			return -*c.Ratio
		}
		return *c.Ratio
	}
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(x, y series.Summary) int {
		return cmp.Or(cmp.Compare(place[x.Cell], place[y.Cell]), cmp.Compare(rank(x), rank(y)))
	})
	return out
}

// place is what a summary and a comparison have in common: a contender in a cell, with a metric.
type place struct {
	contender, cell, metric, unit string
	better                        sample.Better
}

func placeOf(x series.Summary) place { return place{x.Contender, x.Cell, x.Metric, x.Unit, x.Better} }

// comparisons are those of a result by the places of their contenders, and the places of the baselines.
type comparisons struct {
	of        map[place]series.Comparison
	baselines map[place]bool
}

func comparisonsOf(r series.Result) comparisons {
	out := comparisons{map[place]series.Comparison{}, map[place]bool{}}
	for _, c := range r.Comparisons {
		out.of[place{c.Contender, c.Cell, c.Metric, c.Unit, c.Better}] = c
		out.baselines[place{c.Baseline, c.Cell, c.Metric, c.Unit, c.Better}] = true
	}
	return out
}

// medianText writes a median with its interval: "29.5 ms [26.1 ms to 32.0 ms]". All
// values may be the same.
func medianText(x series.Summary) string {
	spread := ""
	if x.Stats != nil && x.Stats.Stddev != nil {
		spread = ", standard deviation " + measure(*x.Stats.Stddev, x.Unit)
	}
	switch {
	case x.Median == nil && x.Stats != nil && x.Stats.Mean != nil:
		return "mean " + cli.Whole(measure(*x.Stats.Mean, x.Unit)) + spread
	case x.Median == nil:
		return "–"
	}
	text := measure(*x.Median, x.Unit) + spread
	if x.CI[0] != nil && x.CI[1] != nil && *x.CI[0] != *x.CI[1] {
		text += " [" + measure(*x.CI[0], x.Unit) + " to " + measure(*x.CI[1], x.Unit) + "]"
	}
	return cli.Whole(text)
}

// measure writes a value. Units that bakeoff does not know get no prefix.
func measure(v float64, u string) string {
	if _, known := slices.BinarySearch(prefixed, u); known {
		return unit.Format(v, u)
	}
	return strings.TrimSpace(unit.Format(v, "1") + " " + strings.TrimPrefix(u, "1"))
}

// prefixed are the units that take a prefix, in order.
var prefixed = []string{"B/op", "B/s", "frame/s", "op/s", "request/s", "s", "s/op"}

// changeText writes the difference of a contender, with its warnings.
func changeText(all comparisons, x series.Summary) (text string, notes []string) {
	c, ok := all.of[placeOf(x)]
	switch {
	case !ok && all.baselines[placeOf(x)]:
		return "baseline", nil
	case !ok:
		return "–", nil
	}
	words := difference.Speak(c.Metric, c.Unit, c.Better)
	return cli.Whole(words.Change(c.Scale, c.Unit, c.Ratio, c.CI[0], c.CI[1])), c.Warnings
}

// printDifferences lists the facts that the contenders do not share.
func (a reader) printDifferences(r series.Result) {
	if len(r.Differences) == 0 {
		return
	}
	a.Heading("What else differs")
	t := cli.NewTable("  FACT", "CONTENDERS")
	for _, d := range r.Differences {
		values := lists.Map(d.Values, func(v series.Value) string {
			return v.Contender + ": " + safetext.Clip(v.Value, maxFact)
		})
		t.Row("  "+safetext.Line(d.Fact), safetext.Line(strings.Join(values, "; ")))
	}
	a.PrintText(t)
}
