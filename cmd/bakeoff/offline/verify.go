package offline

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/history"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
	workloadall "bakeoff/measure/workload/all"
)

func (a reader) verifyCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify RUN",
		Short: "Recompute every number of a run, and check the run against its registered plan",
		Long: `verify checks that a run followed its registered plan: the plan follows from the
lab file, the trials follow the plan, no raw file changed, and the raw files give the stored
results. It prints each finding with the affected numbers. A finding is one of

  tampered            a file differs from its hash in the journal
  parser has changed  this version of bakeoff reads other numbers from the same bytes
  not as planned      the run differs from its registered plan
  results differ      results.json differs from what the raw files give

If the run has verdicts by earlier rules, and a gate has changed since, verify prints what
the present rules decide as notes. Notes are not findings.

verify exits with 1 if there is a finding.`,
		Example: `  bakeoff verify runs/20260102T030405Z-quick
  bakeoff verify runs/20260102T030405Z-quick --json | jq '.findings[].numbers'`,
		Args: cli.Between(1, 1, "a run folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			cat, err := manifest.Written(workloadall.Parsers())
			if err != nil {
				return err
			}
			r, err := verified(args[0], &cat)
			if err != nil {
				return err
			}
			if asJSON {
				if err := a.PrintJSON(r); err != nil {
					return err
				}
			} else {
				a.printVerification(r)
			}
			if !r.OK() {
				return cli.Exit{Code: cli.ExitFailed}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.ValidArgsFunction = completeRuns
	return c
}

// mustHold refuses a run folder that is damaged: a condition that such a folder does not
// fulfil has not passed. It computes every number again. What another version of bakeoff
// reads differently is no damage.
func (a reader) mustHold(arg string) error {
	r, err := verified(arg, nil)
	if fault.Is(err, fault.Unsupported) {
		fmt.Fprintf(a.Err, "bakeoff: note: the numbers of %s were not computed again: %s\n", safetext.Line(arg),
			safetext.Line(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	all := len(r.Findings)
	damage := r.Damage()
	if len(damage) == 0 {
		if all > 0 {
			fmt.Fprintf(a.Err, "bakeoff: note: this version of bakeoff computes other numbers for %s; run bakeoff "+
				"verify %s for details\n", safetext.Line(arg), shell.Quote(arg))
		}
		return nil
	}
	first := damage[0]
	return fault.WithFix(fault.New(fault.Lab, "--fail-on cannot judge %s, because the run folder is damaged: %s, the "+
		"first: %s: %s: %s", arg, unit.Count(len(damage), "finding"), first.Kind, first.Where, first.Problem),
		"run bakeoff verify "+shell.Quote(arg)+" for all of them")
}

// mustHoldAll is mustHold for many runs.
func (a reader) mustHoldAll(runs []history.Run) error {
	began, told := time.Now(), false
	for i, r := range runs {
		if !told && time.Since(began) > time.Second {
			told = true
			fmt.Fprintf(a.Err, "bakeoff: computing the numbers of %s again\n", unit.Count(len(runs)-i, "run"))
		}
		if err := a.mustHold(r.Folder); err != nil {
			return err
		}
	}
	return nil
}

// mustBeWhole refuses runs of a store that are damaged, as far as the store knows. It computes
// nothing again.
func mustBeWhole(runs []history.Run) error {
	for _, r := range runs {
		const cannot = "--fail-on cannot judge the run %s of the store, because "
		switch {
		case r.Damage == nil:
			return fault.WithFix(fault.New(fault.Lab, cannot+"the index does not say whether its bundle is damaged: an "+
				"earlier version of bakeoff wrote the index", r.Results.Run), "run bakeoff store rebuild")
		case *r.Damage != "":
			return fault.WithFix(fault.New(fault.Lab, cannot+"its bundle %s is damaged: %s", r.Results.Run, r.Folder,
				*r.Damage), "add the whole run folder with bakeoff store add, or judge only the runs after it with --newest")
		}
	}
	return nil
}

// verified checks a run; with a catalogue also that its plan follows from the lab file. A
// folder with only a part of a run has a finding, like any other damage.
func verified(arg string, cat *manifest.Catalogue) (r evidence.Report, err error) {
	dir, err := RunDir(arg)
	if damage, ok := errors.AsType[*store.Tampered](err); ok {
		return evidence.Damaged(filepath.Base(filepath.Clean(arg)), damage), nil
	}
	if err != nil {
		return r, err
	}
	run, err := store.Open(dir)
	if err != nil {
		return r, err
	}
	defer run.Close()
	return evidence.Verify(run, workloadall.Parsers(), cat)
}

// shownDifferences bounds how many differing numbers are printed: one cause
// changes every number computed from it. --json has all of them.
const shownDifferences = 12

// shownNumbers bounds how many numbers of one finding are printed; --json has
// all of them.
const shownNumbers = 12

func (a reader) printVerification(r evidence.Report) {
	s := a.Style(a.Out)
	differ := 0
	for _, f := range r.Findings {
		if f.Stored != "" {
			if differ++; differ > shownDifferences {
				continue
			}
		}
		fmt.Fprintf(a.Out, "%s %s: %s\n", s.Paint(cli.Red, string(f.Kind)+":"), safetext.Line(f.Where),
			safetext.Line(f.Problem))
		for i, n := range f.Numbers {
			if i == shownNumbers {
				fmt.Fprintf(a.Out, "  … and %d more numbers\n", len(f.Numbers)-i)
				break
			}
			fmt.Fprintln(a.Out, "  "+safetext.Line(n))
		}
	}
	if differ > shownDifferences {
		fmt.Fprintf(a.Out, "… and %d more differing values of results.json; --json lists all\n", differ-shownDifferences)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(a.Out, "note: "+safetext.Line(n))
	}
	checked := fmt.Sprintf("%d trials, %d raw files of %d bytes, %d numbers", r.Trials, r.Files, r.Bytes, r.Numbers)
	if r.OK() {
		fmt.Fprintf(a.Out, "%s %s: %s\n", s.Paint(cli.Green, "holds:"), safetext.Line(r.Run), checked)
		return
	}
	findings := "1 finding"
	if n := len(r.Findings); n > 1 {
		findings = fmt.Sprintf("%d findings", n)
	}
	fmt.Fprintf(a.Out, "%s %s: %s in %s\n", s.Paint(cli.Red, "does not hold:"), safetext.Line(r.Run), findings, checked)
}
