package offline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/publish/report"
)

// analyseFlags are the flags of analyse.
type analyseFlags struct {
	from, contender, baseline string
	group                     string
	looks                     []int
	alphas                    []string
	margin                    float64
	json, markdown            bool
	failOn                    []string
	sort                      string
}

func (a reader) analyse() *cobra.Command {
	f := analyseFlags{margin: analysis.DefaultMargin}
	c := &cobra.Command{
		Use:     "analyse FILE...",
		Aliases: []string{"analyze"},
		Short:   "Compare numbers measured by other programs",
		Long: `analyse compares the numbers of any program. FILE is a table of your own or the output of a
benchmark program; - reads standard input. analyse recognizes these formats, unless --from
names one:

` + formatLines() + `

The contenders are the compared sides. A block is a round that measures each contender. If
the numbers were measured in blocks, with the contenders in random order in each block,
analyse gives verdicts, by the same statistics as bakeoff run. Benchmark programs measure
one contender after the other. If the machine changes in between, the change looks like a
difference of the contenders. For the output of such programs, analyse therefore prints no
verdict. It prints an interval for each difference, and what is known about the order of the
measurements. docs/special/analyse.md describes each format, and how to measure in blocks
with go test.

If you name several files, each file is a contender with the name of the file. NAME=FILE
gives the contender another name. Several files with the same NAME are repetitions of one
contender. FILE may be a pattern in quotes: 'old=old-*.json'. If you name one file, the format
determines the contenders, such as the commands of hyperfine or the systems of Phoronix.
To compare something else, --contender names a label: a part of the names of Go benchmarks,
or a parameter of hyperfine or pytest. Each value of the label is then a contender. --group
also names a label: analyse then prints separate geometric means for each of its values. The
geometric mean of a metric covers only the cells (workloads with their parameters) that both
sides have.

analyse leaves out parts of a file that it cannot use, and prints a warning that names the
line. If a file has only statistics, such as means, and no individual values, the
differences have no intervals.

A table is CSV or TSV with a header, or NDJSON. Lines that begin with # may stand before the
header. The columns:

  experiment   optional: name; experiments are analyzed separately
  block        number; the unit of replication
  position     number; place of the trial in its block, or among the trials of its
               workload in the block; no two contenders share a position
  instance     optional: name of the environment or boot
  contender    name
  workload     name
  metric       name
  unit         s, B/s, request/s …
  better       higher or lower
  value        number; "failed" or empty for a failed trial
  scale        optional: ratio (the default) or difference

The order of the rows is the order of measurement. It does not say which contender is the
baseline. The conditions of --fail-on that have a direction, such as worse, therefore need
--baseline.

All metrics of a table are primary: every comparison gets a verdict. analyse applies the
looks (interim analyses) in order, as if the blocks arrived one by one. It does not use the
blocks after the look that decides, and prints how many blocks these are.`,
		Example: `  bakeoff analyse numbers.csv --baseline host --margin 0.05
  bakeoff analyse numbers.ndjson --looks 10,20 --alphas 0.02,0.03 --json
  bakeoff analyse hyperfine.json
  bakeoff analyse old.txt new.txt                      # go test -bench . -count 10
  bakeoff analyse bench.txt --contender algo           # BenchmarkSum/algo=md5
  bakeoff analyse sweep.json --contender cc --group opt  # hyperfine -L cc … -L opt …
  bakeoff analyse 'ext4=ext4-*.json' 'xfs=xfs-*.json'  # fio, several files of each
  bakeoff analyse composite.xml --from phoronix --json | jq .comparisons`,
		Args: cli.Between(1, math.MaxInt, "a file of numbers"),
		RunE: func(c *cobra.Command, args []string) error { return a.doAnalyse(c, f, args) },
	}
	fl := c.Flags()
	fl.StringVar(&f.from, "from", "", "`format` of the files: "+strings.Join(formatNames(), ", ")+
		" (default: bakeoff recognizes the format)")
	fl.StringVar(&f.contender, "contender", "",
		"`label` that distinguishes contenders: file (the name of the file), or a label that the file contains")
	fl.StringVar(&f.group, "group", "",
		"print geometric means for each value of a `label`: file (the name of the file), or a label that the file contains")
	fl.StringVar(&f.baseline, "baseline", "", "`contender` to compare the others with (default: the first in FILE)")
	fl.IntSliceVar(&f.looks, "looks", nil,
		"numbers of `blocks` after which to decide (default "+joinCommas(analysis.DefaultLooks)+")")
	fl.StringSliceVar(&f.alphas, "alphas", nil,
		"error `rate` of each look (interim analysis): one rate for each number in --looks (default "+
			joinCommas(analysis.DefaultAlphas)+"; with --looks alone, equal rates that add up to 5 %)")
	fl.Var((*cli.Share)(&f.margin), "margin", "largest difference, as a `share`, that counts as equivalent")
	fl.BoolVar(&f.json, "json", false, "print one JSON object for each experiment, one per line")
	fl.BoolVar(&f.markdown, "markdown", false, "print tables for an issue or a pull request")
	SortFlag(c, &f.sort)
	FailOnFlag(c, &f.failOn)
	cli.CompleteFlag(c, "from", func([]string) []string { return formatNames() })
	cli.CompleteFlag(c, "contender", func([]string) []string { return labelNames() })
	cli.CompleteFlag(c, "group", func([]string) []string { return labelNames() })
	return c
}

func (a reader) doAnalyse(c *cobra.Command, f analyseFlags, args []string) error {
	if err := errors.Join(FailOn(f.failOn).Check(), CheckSort(c, f.sort)); err != nil {
		return err
	}
	if f.json && f.markdown {
		return fault.New(fault.Invalid, "--json and --markdown exclude each other; remove one of them")
	}
	opt := analysis.TableOptions{Baseline: f.baseline, Margin: f.margin, Looks: f.looks, FailOn: f.failOn}
	for _, s := range f.alphas {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fault.New(fault.Invalid, "--alphas must be numbers such as 0.02 (got %q)", s)
		}
		opt.Alphas = append(opt.Alphas, v)
	}
	if f.from != "" && !slices.Contains(formatNames(), f.from) {
		return fault.New(fault.Invalid, "--from must be one of %s (got %q)", strings.Join(formatNames(), ", "), f.from)
	}
	files, err := a.openInputs(args)
	defer files.closeAll()
	if err != nil {
		return err
	}
	x, err := files.commonFormat(f.from)
	switch {
	case err != nil:
		return err
	case x != nil:
		return a.analyseFormat(c, f, x, files, opt)
	case len(files) > 1:
		return fault.New(fault.Invalid, "%s is a table, and analyse reads one table at a time; join the tables, "+
			"and add a column experiment if they contain different experiments", files[0].path)
	case f.contender != "":
		return fault.New(fault.Invalid, "--contender is for the output of benchmark programs; a table names its "+
			"contenders in its column contender")
	case f.group != "":
		return errGroup
	}
	results, err := analysis.ReadTable(files[0].in, files[0].path, opt)
	if err != nil {
		return err
	}
	for i := range results {
		results[i].Warnings = append(results[i].Warnings, files[0].cutShort()...)
	}
	return a.printTable(results, f, map[string][]string{"missing": files[0].cutShort()})
}

// errGroup refuses --group for values in blocks, whose cells have no labels.
var errGroup = fault.New(fault.Invalid, "--group is for the output of benchmark programs without blocks; remove it")

// checkConditions refuses conditions of --fail-on that say nothing about values in blocks. The
// first contender of a table is the baseline by chance: the rows are in the order of
// measurement, which should be random.
func (f analyseFlags) checkConditions(results []analysis.Results) error {
	if i := slices.IndexFunc(f.failOn, needsVerdict); i >= 0 && f.baseline == "" {
		names := lists.Map(results[0].Contenders, func(c analysis.Contender) string { return c.Name })
		return fault.WithFix(fault.New(fault.Invalid, "--fail-on %s needs --baseline: the first contender of the values is "+
			"not necessarily the baseline", f.failOn[i]),
			"set --baseline to one of "+strings.Join(names, ", "))
	}
	return nil
}

// printTable prints results of values in blocks. lost has more lines for conditions; it is not
// nil.
func (a reader) printTable(results []analysis.Results, f analyseFlags, lost map[string][]string) error {
	if err := f.checkConditions(results); err != nil {
		return err
	}
	for i, r := range results {
		if f.json {
			if err := a.PrintJSON(r); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		if f.markdown {
			if err := report.Markdown.Results(a.Out, r, nil, report.Option{Sort: report.Order(f.sort)}); err != nil {
				return err
			}
			continue
		}
		if err := PrintAnswer(a.Streams, report.Text, r, "", f.sort); err != nil {
			return err
		}
		if r.Unused > 0 {
			fmt.Fprintln(a.Out, unusedText(r))
		}
	}
	remedy := "measure more blocks, or on a quieter machine"
	if slices.ContainsFunc(results, noCommonBlock) {
		remedy = "measure both sides in each block"
	}
	for _, r := range results {
		if text := FailOn(f.failOn).Open(r, remedy); text != "" {
			fmt.Fprintln(a.Err, "bakeoff: note: "+text)
		}
	}
	if n := results[0].LeftOut; n > 0 {
		lost["missing"] = append(lost["missing"], unit.Count(n, "row")+" cannot be used")
	}
	return FailOn(f.failOn).endWith(results, lost, remedy)
}

// noCommonBlock reports whether no block has trials of both sides of a comparison.
func noCommonBlock(r analysis.Results) bool {
	return slices.ContainsFunc(r.Comparisons, func(c analysis.Comparison) bool {
		return c.Blocks == 0 && c.Incomplete > 0
	})
}

// unusedText says which blocks no verdict uses: those after everything was
// decided, or those after the last look.
func unusedText(r analysis.Results) string {
	blocks := unit.Count(r.Unused, "block")
	text := "unused: " + blocks + " after the deciding look"
	if decided, all := Decided(r); decided < all && len(r.Looks) > 0 {
		last := r.Looks[len(r.Looks)-1]
		text = fmt.Sprintf("unused: %s after the last look at %d blocks; set other looks with --looks", blocks, last)
	}
	return text
}

// joinCommas writes values as a flag takes them.
func joinCommas[T any](vs []T) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ",")
}
