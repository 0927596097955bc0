package main

import (
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/archive"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/guests"
	"bakeoff/cmd/bakeoff/images"
	"bakeoff/cmd/bakeoff/install"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/cmd/bakeoff/site"
	"bakeoff/lab/hosts"
)

// app is what the commands share.
type app struct {
	*cli.Streams
	at   hosts.Controller
	line []string // the whole command line; empty if it is not known
}

// rootCommand builds the whole command line.
func (a *app) rootCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bakeoff",
		Short: "Compare isolation technologies and show the evidence",
		Long: `bakeoff answers "how does it perform compared to X?" with evidence.

It creates an environment with each technology that a lab file names, and runs the same work
in all environments in turn. It compares the results by a method whose error rate is tested,
and writes a page with the verdicts and their evidence.`,
		Example: `  bakeoff try host crun:debian:bookworm -- gzip --version
                                                compare a command in two environments
  bakeoff try -c 'sleep 0.1' -c 'sleep 0.2'     compare two commands
  bakeoff init crun files                       write a lab file to start from
  bakeoff run examples/quick                    measure, and write a page
  bakeoff run examples/quick --profile ci       the same in a minute, without verdicts
  bakeoff plan examples/quick                   show what would run and what it can decide
  bakeoff verify runs/20260102T030405Z-quick    check the numbers of a run
  bakeoff doctor                                show what works on this machine`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Version:           versionString(),
		Args:              cli.UnknownCommand,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return cli.CheckVariables(a.Env) },
	}
	c.SetVersionTemplate(versionLine())
	c.SuggestionsMinimumDistance = 2
	cli.AlignFlags(c)
	help := c.HelpFunc()
	c.SetHelpFunc(func(of *cobra.Command, args []string) {
		help(of, args)
		if of == c || of.Flags().Lookup("fail-on") != nil {
			cli.PrintExitCodes(of)
		}
	})
	c.SetIn(a.In)
	c.SetOut(a.Out)
	c.SetErr(a.Err)
	c.SetFlagErrorFunc(cli.FlagError)
	c.AddGroup(
		&cobra.Group{ID: "measure", Title: "Measure:"},
		&cobra.Group{ID: "evidence", Title: "Read the evidence:"},
		&cobra.Group{ID: "publish", Title: "Publish:"},
		&cobra.Group{ID: "machine", Title: "This machine:"},
		&cobra.Group{ID: "other", Title: "Other:"},
	)
	for _, g := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{"measure", []*cobra.Command{a.try(), a.initLab(), a.runCommand(), a.planCommand(),
			a.replicateCommand(), a.queueCommand()}},
		{"evidence", offline.Commands(a.Streams, versionString(), archive.OpenIndex,
			a.bootRecord(), a.bootBisect(), a.bootTune())},
		{"publish", []*cobra.Command{site.Command(a.Streams, versionString()), archive.Command(a.Streams, a.at.Getenv)}},
		{"machine", []*cobra.Command{a.doctorCommand(), a.calibrate(), a.compressEstimate(), a.listCommand(),
			a.hostsCommand(),
			a.cleanCommand(), images.CacheCommand(a.Streams, a.at),
			images.Command(a.Streams, a.at), install.Command(a.Streams, a.at), guests.Command(a.Streams, a.at)}},
		{"other", []*cobra.Command{a.schemaCommand(), a.completion(), a.version(), a.docsCommand(), a.manCommand()}},
	} {
		for _, sub := range g.commands {
			sub.GroupID = g.id
			c.AddCommand(sub)
		}
	}
	c.SetHelpCommandGroupID("other")
	c.SetHelpCommand(a.helpCommand())
	return c
}

// helpCommand is bakeoff help, which refuses unknown commands.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Show the help of a command",
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
				return cli.UnknownCommand(c.Root(), []string{strings.Join(args, " ")})
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}
