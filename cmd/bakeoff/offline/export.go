package offline

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/lists"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/history"
	"bakeoff/publish/export"
	"bakeoff/publish/runsite"
)

func (a reader) exportCommand() *cobra.Command {
	var format string
	var names, meanings []string
	for _, f := range export.Formats() {
		names = append(names, f.Name)
		meanings = append(meanings, fmt.Sprintf("  %-12s %s", f.Name, f.Doc))
	}
	c := &cobra.Command{
		Use:   "export RUN…",
		Short: "Write results in formats of other programs",
		Long: "export writes the results of one or more runs to standard output. The formats are\n\n" +
			strings.Join(meanings, "\n") +
			"\n\nEvery format also contains what a reader must know about each run: reasons not to trust the run, warnings,\n" +
			"the result of the twin (a copy of the baseline), and what the verdicts hold for. The format csv has a column\n" +
			"for each parameter that the lab file sweeps. If a run and a copy of its folder are named, export writes one of\n" +
			"them, and says so on standard error.",
		Example: `  bakeoff export runs/20260102T030405Z-quick > numbers.csv
  bakeoff export --format benchfmt runs/* | benchstat -col contender -
  bakeoff export --format markdown runs/20260102T030405Z-quick | gh pr comment --body-file -
  bakeoff export --format junit runs/20260102T030405Z-quick > junit.xml`,
		Args: cli.Between(1, maxRuns, "a run folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			var runs []history.Run
			for _, arg := range args {
				if len(args) > 1 && isIndex(arg) {
					continue
				}
				r, err := a.readRunOf(arg)
				if err != nil {
					return err
				}
				runs = append(runs, r)
			}
			return export.Write(a.Out, format, lists.Map(a.withoutCopies(runs, holds), func(r history.Run) export.Run {
				return export.Run{Results: r.Results, Unplanned: r.Unplanned}
			}))
		},
	}
	c.Flags().StringVar(&format, "format", "csv", "`name` of the format: "+strings.Join(names, ", "))
	cli.CompleteFlag(c, "format", func([]string) []string { return names })
	c.ValidArgsFunction = completeRuns
	return c
}

// isIndex reports whether name is of the index that report writes into a folder of
// runs: runs/* matches it too.
func isIndex(name string) bool {
	base := filepath.Base(name)
	return (base == runsite.IndexFile || base == runsite.PagesDir) && len(RunsIn(filepath.Dir(name))) > 0
}

// maxRuns bounds how many runs one command reads.
const maxRuns = 10000
