package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bakeoff/base/fault"
)

// app is what every command is given.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
}

// root builds the whole command line.
func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "bakeoff",
		Short: "Compare isolation technologies, and show the evidence",
		Long: `bakeoff answers "how does it perform compared to X?" with evidence.

It makes the same environment under every technology that a lab file names,
runs the same work in each, interleaved, compares them with an error rate that
was tested, and writes a page that shows its evidence.`,
		Example: `  bakeoff run examples/quick                    measure, and write a page
  bakeoff run examples/quick --profile ci       the same in a minute; decides nothing
  bakeoff plan examples/quick                   what would run, and what it can decide
  bakeoff verify runs/20260102T030405Z-quick    whether a run's numbers hold
  bakeoff doctor                                what this machine can do`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              a.unknownCommand,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SuggestionsMinimumDistance = 2
	help := c.HelpFunc()
	c.SetHelpFunc(func(of *cobra.Command, args []string) {
		help(of, args)
		if of == c || of.Name() == "run" {
			printExitCodes(of)
		}
	})
	c.SetIn(a.stdin)
	c.SetOut(a.stdout)
	c.SetErr(a.stderr)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, flagError(err)) })
	c.AddGroup(
		&cobra.Group{ID: "measure", Title: "Measure:"},
		&cobra.Group{ID: "evidence", Title: "Look at the evidence:"},
		&cobra.Group{ID: "machine", Title: "This machine:"},
		&cobra.Group{ID: "other", Title: "Other:"},
	)
	for _, g := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{"measure", []*cobra.Command{a.run(), a.plan()}},
		{"evidence", []*cobra.Command{a.report(), a.serve(), a.verify(), a.export(), a.analyse(), a.compare(), a.audit()}},
		{"machine", []*cobra.Command{a.doctor(), a.calibrate(), a.compressEstimate(), a.list(), a.clean()}},
		{"other", []*cobra.Command{a.schema(), a.completion(), a.version(), a.docs(), a.man()}},
	} {
		for _, sub := range g.commands {
			sub.GroupID = g.id
			c.AddCommand(sub)
		}
	}
	c.SetHelpCommandGroupID("other")
	c.SetHelpCommand(a.help())
	return c
}

// help is bakeoff help, which refuses what is no command, as everything does.
func (a *app) help() *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Say how a command is used",
		Example: "  bakeoff help run\n  bakeoff help list drivers",
		GroupID: "other",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if at, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range visible(at) {
					if sub.Parent() == at {
						names = append(names, sub.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return a.unknownCommand(c.Root(), []string{strings.Join(args, " ")})
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// unknownCommand refuses what is no command, with what was perhaps meant.
func (a *app) unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	fix := "bakeoff --help lists the commands"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		fix = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fault.WithFix(fault.New(fault.Invalid, "%q is not a command", args[0]), fix)
}

// usage is an error in how command c was called.
func usage(c *cobra.Command, err error) error {
	return fault.WithFix(fault.Wrap(fault.Invalid, c.Name(), err), "see "+c.CommandPath()+" --help")
}

// flagError says of a flag's value what would be right, where the library says
// which function of Go did not take it.
func flagError(err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	var want string
	switch f := wrong.GetFlag(); f.Value.Type() {
	case "uint64":
		want = "a whole number from 0"
	case "int":
		want = "a whole number"
	case "intSlice":
		want = "a list of whole numbers such as 8,10,12"
	case "float64":
		want = "a number such as 0.02"
	case "duration":
		want = "a time such as 90s, 20m or 1h30m"
	case "bool":
		want = "true or false"
	default:
		return err
	}
	return fmt.Errorf("--%s %q is not %s", wrong.GetFlag().Name, wrong.GetValue(), want)
}

// between accepts lo to hi arguments; what names them.
func between(lo, hi int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= lo && len(args) <= hi {
			return nil
		}
		if len(args) < lo {
			return usage(c, fmt.Errorf("%s is missing", what))
		}
		if hi == 0 {
			return usage(c, fmt.Errorf("%q: it takes no arguments", args[0]))
		}
		return usage(c, fmt.Errorf("%q is too much: it takes %s and no more", args[hi], what))
	}
}

// printJSON writes v as one line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
