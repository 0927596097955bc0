package reading

import (
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
	)
	c := &cobra.Command{
		Use:   "analyse FILE",
		Short: "Compare numbers that were measured elsewhere",
		Long: `analyse gives verdicts on numbers out of any tool, by the statistics of a run.
FILE is CSV with a header, or NDJSON; - reads standard input. Its columns:

  experiment   optional: several are analysed each by itself
  block        number; the unit of replication
  position     number; place of the trial in its block, or among those of its
               workload there: no two contenders have the same one
  instance     optional: name of the environment or boot
  contender    name
  workload     name
  metric       name
  unit         s, B/s, request/s …
  better       higher or lower
  value        number; "failed" or empty: the trial failed
  scale        optional: ratio (the default) or difference

Every metric is primary. Looks are taken as they are and applied in order, as
if blocks arrived one by one; blocks after the deciding look are unused, and
that is said.`,
		Example: `  bakeoff analyse numbers.csv
  bakeoff analyse numbers.csv --baseline host --margin 0.05
  bakeoff analyse numbers.ndjson --looks 10,20 --alphas 0.02,0.03 --json`,
		Args: cli.Between(1, 1, "a file of numbers"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := FailOn(fail).Check(); err != nil {
				return err
			}
			opt := analysis.TableOptions{Baseline: baseline, Margin: margin, Looks: looks}
			for _, s := range alphas {
				f, err := strconv.ParseFloat(s, 64)
				if err != nil {
					return fault.New(fault.Invalid, "--alphas: %q is not a number", s)
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
				if err := PrintAnswer(a.Streams, r, ""); err != nil {
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
	f.StringVar(&baseline, "baseline", "", "`contender` that the others are compared with (default: the first one in FILE)")
	f.IntSliceVar(&looks, "looks", nil, "`blocks` after which to look (default "+commas(analysis.DefaultLooks)+")")
	f.StringSliceVar(&alphas, "alphas", nil, "error `rate` to spend at each look (default "+commas(analysis.DefaultAlphas)+"; 5 % shared evenly where looks are given alone)")
	f.Float64Var(&margin, "margin", analysis.DefaultMargin, "largest `share` of a difference that still counts as equivalent")
	f.BoolVar(&asJSON, "json", false, "print one results object for each experiment, one a line")
	FailOnFlag(c, &fail)
	return c
}

// unusedText says which blocks no verdict rests on: those after everything was
// decided, or those after the last look.
func unusedText(r analysis.Results) string {
	text := fmt.Sprintf("unused: %d blocks after the look that decided", r.Unused)
	if decided, all := Decided(r); decided < all && len(r.Looks) > 0 {
		last := r.Looks[len(r.Looks)-1]
		text = fmt.Sprintf("unused: %d blocks after the last look, which is after %d: --looks names others", r.Unused, last)
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
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s is a folder", name), "bakeoff verify and bakeoff report read run folders")
	}
	return analysis.ReadTable(io.Reader(f), name, opt)
}
