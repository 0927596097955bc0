package offline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/audit"
)

func (a reader) auditCommand() *cobra.Command {
	var (
		asJSON bool
		fail   []string
	)
	c := &cobra.Command{
		Use:   "audit TABLE.yaml...",
		Short: "Check which claims published tables support",
		Long: `audit reads published tables and the claims that are based on them. It gives one answer to
each claim: supported, not supported, contradicted, or cannot be told. It looks for
differences that noise can explain, figures that a link or a processor limits, and
impossible rates. It also looks for wrong derived columns, missing figures, cut-off bars of
charts, and defaults of benchmark programs that distort a figure. docs/special/audit.md
shows the format of a table by example, and explains every check.

The exit code is 0 for all answers, unless --fail-on names one of them.`,
		Example: `  bakeoff audit examples/published/*.yaml
  bakeoff audit mine.yaml --fail-on contradicted
  bakeoff audit mine.yaml --json | jq .answers`,
		Args: cli.Between(1, math.MaxInt, "a table"),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range fail {
				if !slices.Contains(answerNames(), name) {
					return fault.New(fault.Invalid, "--fail-on must be one of %s (got %q)", strings.Join(answerNames(), ", "), name)
				}
			}
			reports, err := a.auditTables(args)
			if err != nil {
				return err
			}
			for i, r := range reports {
				if err := a.printAudit(r, asJSON, i > 0); err != nil {
					return err
				}
			}
			return endAudit(reports, fail)
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print one JSON object for each table, one per line")
	f.Var((*cli.Names)(&fail), "fail-on",
		"exit with 3 if a claim has one of these `answers`: "+strings.Join(answerNames(), ", "))
	cli.CompleteFlag(c, "fail-on", func([]string) []string { return answerNames() })
	return c
}

// auditTables reads every table before the first is printed: with invalid input,
// audit prints only errors.
func (a reader) auditTables(names []string) (reports []audit.Report, err error) {
	var errs []error
	for _, name := range names {
		src, file, err := a.readSource(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t, err := audit.Parse(file, src)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		reports = append(reports, audit.Of(t))
	}
	return reports, errors.Join(errs...)
}

// readSource reads one table; - is standard input.
func (a reader) readSource(name string) (src []byte, file string, err error) {
	if name == "-" {
		src, err = cli.Source(a.In, "standard input")
		return src, "standard-input", err
	}
	src, err = cli.ReadSource(name)
	return src, name, err
}

func (a reader) printAudit(r audit.Report, asJSON, again bool) error {
	if asJSON {
		return a.PrintJSON(r)
	}
	if again {
		fmt.Fprintln(a.Out)
	}
	opt := audit.TextOption{Width: a.TextWidth(), Colour: a.Style(a.Out).Colored, ASCII: a.ASCII()}
	return audit.Text(a.Out, r, opt)
}

// answerNames are the degrees of support as one word each, for --fail-on.
func answerNames() (names []string) {
	for _, v := range audit.Supports {
		if v != audit.Supported {
			names = append(names, answerName(v))
		}
	}
	return names
}

func answerName(v audit.Support) string { return strings.ReplaceAll(string(v), " ", "-") }

func endAudit(reports []audit.Report, fail []string) error {
	var lines []string
	for _, r := range reports {
		for _, answer := range r.Answers {
			if name := answerName(answer.Support); slices.Contains(fail, name) {
				lines = append(lines, fmt.Sprintf("--fail-on %s: %s: %s", name, r.File, answer.Claim))
			}
		}
	}
	if len(lines) > 0 {
		return cli.Exit{Code: cli.ExitAsked, Text: strings.Join(lines, "\n")}
	}
	return nil
}
