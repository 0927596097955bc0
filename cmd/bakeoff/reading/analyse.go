package reading

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
)

func (a reader) analyse() *cobra.Command {
	var (
		baseline string
		looks    []int
		alphas   []string
		margin   float64
		asJSON   bool
		fail     []string
		sort     string
	)
	c := &cobra.Command{
		Use:   "analyse FILE",
		Short: "Compare numbers measured by other programs",
		Long: `analyse gives verdicts on the numbers of any program, with the statistics of a
run. FILE is CSV with a header, or NDJSON; - reads standard input. Its columns:

  experiment   optional: name; experiments are analyzed separately
  block        number; the unit of replication
  position     number; place of the trial in its block, or among the trials of its
               workload in the block; no two contenders share one
  instance     optional: name of the environment or boot
  contender    name
  workload     name
  metric       name
  unit         s, B/s, request/s …
  better       higher or lower
  value        number; "failed" or empty for a failed trial
  scale        optional: ratio (the default) or difference

Every metric is primary. analyse applies the looks in order, as if the blocks
arrived one by one. It does not use the blocks after the deciding look, and
prints their number.`,
		Example: `  bakeoff analyse numbers.csv
  bakeoff analyse numbers.csv --baseline host --margin 0.05
  bakeoff analyse numbers.ndjson --looks 10,20 --alphas 0.02,0.03 --json`,
		Args: cli.Between(1, 1, "a file of numbers"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(FailOn(fail).Check(), CheckSort(c, sort)); err != nil {
				return err
			}
			opt := analysis.TableOptions{Baseline: baseline, Margin: margin, Looks: looks}
			for _, s := range alphas {
				f, err := strconv.ParseFloat(s, 64)
				if err != nil {
					return fault.New(fault.Invalid, "--alphas must be numbers such as 0.02 (got %q)", s)
				}
				opt.Alphas = append(opt.Alphas, f)
			}
			results, err := a.readTable(args[0], opt)
			if err != nil {
				return err
			}
			for i, r := range results {
				if asJSON {
					if err := a.PrintJSON(r); err != nil {
						return err
					}
					continue
				}
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				if err := PrintAnswer(a.Streams, r, "", sort); err != nil {
					return err
				}
				if r.Unused > 0 {
					fmt.Fprintln(a.Out, unusedText(r))
				}
			}
			return FailOn(fail).endAll(results)
		},
	}
	f := c.Flags()
	f.StringVar(&baseline, "baseline", "", "`contender` to compare the others with (default: the first in FILE)")
	f.IntSliceVar(&looks, "looks", nil,
		"numbers of `blocks` after which to look (default "+commas(analysis.DefaultLooks)+")")
	f.StringSliceVar(&alphas, "alphas", nil,
		"error `rate` to spend at each look (default "+commas(analysis.DefaultAlphas)+
			"; with --looks alone, 5 % shared evenly)")
	margin = analysis.DefaultMargin
	f.Var((*cli.Share)(&margin), "margin", "largest difference, as a `share`, that counts as equivalent")
	f.BoolVar(&asJSON, "json", false, "print one JSON object for each experiment, one per line")
	SortFlag(c, &sort)
	FailOnFlag(c, &fail)
	return c
}

// unusedText says which blocks no verdict uses: those after everything was
// decided, or those after the last look.
func unusedText(r analysis.Results) string {
	text := fmt.Sprintf("unused: %d blocks after the deciding look", r.Unused)
	if decided, all := Decided(r); decided < all && len(r.Looks) > 0 {
		last := r.Looks[len(r.Looks)-1]
		text = fmt.Sprintf("unused: %d blocks after the last look at %d blocks; set other looks with --looks", r.Unused, last)
	}
	return text
}

// commas writes values as a flag takes them.
func commas[T any](vs []T) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ",")
}

func (a reader) readTable(name string, opt analysis.TableOptions) ([]analysis.Results, error) {
	if name == "-" {
		return analysis.ReadTable(a.In, "standard input", opt)
	}
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil, fault.New(fault.NotFound, "%s does not exist", name)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "analyse", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s is a folder", name),
			"use bakeoff verify or bakeoff report for run folders")
	}
	return analysis.ReadTable(io.Reader(f), name, opt)
}
