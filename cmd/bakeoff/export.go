package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/analysis"
	"bakeoff/export"
	"bakeoff/fault"
	"bakeoff/store"
)

func (a *app) export() *cobra.Command {
	var format string
	var names, lines []string
	for _, f := range export.Formats() {
		names = append(names, f.Name)
		lines = append(lines, fmt.Sprintf("  %-12s %s", f.Name, f.Doc))
	}
	c := &cobra.Command{
		Use:   "export RUN…",
		Short: "Write results for other programs: " + strings.Join(names, ", "),
		Long: `export writes the results of runs to standard output, in the format of
another program:

` + strings.Join(lines, "\n"),
		Example: `  bakeoff export runs/20260102T030405Z-quick --format csv > quick.csv
  bakeoff export runs/* --format benchfmt | benchstat -col contender -
  bakeoff export runs/20260102T030405Z-quick --format junit > report.xml`,
		Args: between(1, 10_000, "a run folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			var runs []analysis.Results
			for _, arg := range args {
				dir, err := runDir(arg)
				if err != nil {
					return err
				}
				r, err := readResults(dir)
				if err != nil {
					return err
				}
				runs = append(runs, r)
			}
			return export.Write(a.stdout, format, runs)
		},
	}
	c.Flags().StringVar(&format, "format", "json", "`format`: "+strings.Join(names, ", "))
	c.ValidArgsFunction = completeRuns
	return c
}

// readResults reads the results.json of a run folder.
func readResults(dir string) (analysis.Results, error) {
	var r analysis.Results
	run, err := store.Open(dir)
	if err != nil {
		return r, err
	}
	defer run.Close()
	b, err := run.Results()
	if err != nil {
		return r, fault.WithFix(err, "has the run ended? bakeoff run --resume "+dir+" goes on with it")
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fault.New(fault.Invalid, "%s/%s: %w", dir, store.ResultsFile, err)
	}
	if r.Schema != analysis.ResultsSchema {
		return r, fault.New(fault.Invalid, "%s/%s: schema is %q, this program reads %q", dir, store.ResultsFile, r.Schema, analysis.ResultsSchema)
	}
	return r, nil
}
