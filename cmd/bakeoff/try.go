package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/analysis"
	"bakeoff/lab/compose"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	"bakeoff/publish/export"
	"bakeoff/publish/report"
)

// tryFlags are the flags of try.
type tryFlags struct {
	runFlags
	compose.Request
	printLab bool
	export   string
	direct   bool
}

// tryBudget is the budget of a command line that names none.
const tryBudget = 2 * time.Minute

func (a *app) try() *cobra.Command {
	var f tryFlags
	c := &cobra.Command{
		Use:   "try [ENV…] [flags] -- COMMAND [ARG…]",
		Short: "Compare a command in environments, or commands with each other",
		Long: `try compares environments that run the same command, or several commands in the same
environments, and says which of them differ. ENV is DRIVER or DRIVER:IMAGE, as in host or
crun:debian:bookworm; without an ENV, commands run on the host. The first environment with
the first command is the baseline. try compares every other combination of environment and
command with the baseline.

try works like bakeoff run, with a lab file that try writes itself. It draws a random
schedule, creates new environments for every block, and writes a run folder with a page. It
stops as soon as every comparison is decided. --print-lab prints the lab file.

try executes a command after -- exactly as written. It splits the text of -c into words as a
shell does, and executes the words without a shell. The start of a shell is therefore not
measured. try 'COMMAND 1' 'COMMAND 2' and try ./PROGRAM1 ./PROGRAM2 are the same as -c for
each. try refuses a text that needs a shell (|, >, *, $HOME). With --shell sh, a shell
runs the text, and the start of the shell is part of the time on all sides. try does not
time the commands of --setup, --prepare and --cleanup; sh runs them if they need a shell.

-L and -P sweep a parameter: try measures the command separately for each value, and
replaces {NAME} in the command by the value. try shows the results in the order of the
values.

If every environment is the host, commands run in the current folder. Otherwise all commands
run in a private folder of their environment, and files of the current folder do not exist
there. --file places a file or folder in every environment: --file ./server makes the
program available as /opt/server.`,
		Example: `  bakeoff try host crun:debian:bookworm -- gzip --version
  bakeoff try -c 'gzip -k -f -9 big' -c 'xz -k -f -1 big'
  bakeoff try -c 'sort -S {size} big' -L size=1M,16M,256M
  bakeoff try -c 'xz -k -f -T {threads} big' -P threads=1..4 --cpus 4
  bakeoff try --in host --in bwrap:debian:bookworm -c 'seq 100000' -c 'seq 200000'
  bakeoff try -c 'make -j2' --prepare 'make clean' --budget 10m
  bakeoff try -c 'openssl speed -seconds 1 sha256' --metric 'regexp:sha256 .* ([0-9.]+)k$:higher'
  bakeoff try host crun:debian:bookworm --file ./server -- /opt/server --once
  bakeoff try host chroot:debian:bookworm --print-lab -- true > bakeoff.yaml`,
		Args: func(*cobra.Command, []string) error { return nil }, // compose names what is wrong
		RunE: func(c *cobra.Command, args []string) error { return a.doTry(c, f, args) },
	}
	a.tryFlagSet(c, &f)
	c.SetFlagErrorFunc(a.tryFlagError)
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		if a.behindDash() {
			return nil, cobra.ShellCompDirectiveDefault // a program or a file
		}
		return compose.Envs(session.Catalogue()), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// behindDash tells, while a shell completes a word, whether it is behind --. The
// arguments that cobra passes on do not tell.
func (a *app) behindDash() bool {
	return len(a.line) > 0 && slices.Contains(a.line[:len(a.line)-1], "--")
}

// tryFlagSet declares the flags of try. Those that hyperfine has, too, have the same
// names.
func (a *app) tryFlagSet(c *cobra.Command, f *tryFlags) {
	fl := c.Flags()
	fl.StringArrayVarP(&f.Commands, "command", "c", nil, "measure this `command`; may be repeated")
	fl.StringVar(&f.Name, "name", "",
		"`name` of the run, for its folder, its page and the index (default: the command)")
	fl.StringArrayVarP(&f.Names, "command-name", "n", nil,
		"`name` of a command in the results; may be repeated, once for each command")
	fl.StringArrayVar(&f.In, "in", nil, "measure in the environment `ENV`, like the argument ENV; may be repeated")
	fl.StringVarP(&f.Shell, "shell", "S", compose.NoShell, "`shell` that runs the commands of -c, such as sh or bash")
	fl.BoolVarP(&f.direct, "no-shell", "N", false, "the same as --shell none, which is the default")
	fl.StringArrayVarP(&f.Lists, "parameter-list", "L", nil,
		"measure with each of the values in `NAME=VALUE,…`; may be repeated")
	fl.StringArrayVarP(&f.Ranges, "parameter-scan", "P", nil,
		"measure with each number in `NAME=FROM..TO[,step=STEP]`; may be repeated")
	fl.StringArrayVarP(&f.Setup, "setup", "s", nil, "run `command` once in each environment, before its first trial")
	fl.StringArrayVarP(&f.Prepare, "prepare", "p", nil, "run `command` before each trial")
	fl.StringArrayVar(&f.Cleanup, "cleanup", nil, "run `command` after each trial")
	fl.StringArrayVar(&f.Files, "file", nil,
		"place this file or folder `PATH[:TO]` in every environment, at /opt/NAME or "+
			"at TO; may be repeated")
	fl.BoolVarP(&f.IgnoreFailure, "ignore-failure", "i", false, "accept every exit code of the commands")
	fl.StringArrayVar(&f.Metrics, "metric", nil, "`metric` that decides instead of wall (elapsed time): cpu, memory, "+
		"or a number in the output, as FIND:higher or FIND:lower; FIND is last-line, regexp:RE or json:PATH; may be repeated")
	f.Margin = analysis.DefaultMargin
	fl.Var((*cli.Share)(&f.Margin), "margin", "largest difference, as a `share`, that counts as equivalent")
	fl.DurationVar(&f.Budget, "budget", tryBudget,
		"`time` limit; bakeoff starts no block (round of trials) that would exceed it")
	fl.StringVar(&f.CPUs, "cpus", "", "`number` of CPUs of each environment (default 1)")
	fl.StringVar(&f.Memory, "memory", "", "memory of each environment, a `size` such as 2GiB (default 512MiB)")
	fl.StringArrayVar(&f.Packages, "package", nil, "Debian packages `NAME,…` that environments contain in addition to "+
		"the base system; on the host, install these packages first; may be repeated")
	fl.StringVar(&f.out, "out", "runs", "`folder` in which to create the run folder")
	fl.Uint64Var(&f.seed, "seed", 0, "`number` from which try derives the random schedule; with 0, bakeoff chooses "+
		"and records a number")
	fl.BoolVar(&f.printLab, "print-lab", false, "print the lab file and start nothing")
	fl.BoolVar(&f.json, "json", false, "print the results as one JSON object, and progress on standard error")
	names := lists.Map(export.Formats(), func(f export.Format) string { return f.Name })
	fl.StringVar(&f.export, "export", "", "print the results in this `format`, and progress on standard error: "+
		strings.Join(names, ", "))
	offline.SortFlag(c, &f.sort)
	offline.FailOnFlag(c, &f.failOn)
	cli.CompleteFlag(c, "export", func([]string) []string { return names })
	cli.CompleteFlag(c, "in", func([]string) []string { return compose.Envs(session.Catalogue()) })
}

// unlike are flags of hyperfine that try does not have, and what to do instead.
var unlike = []struct {
	names []string
	fix   string
}{
	{[]string{"warmup", "w"},
		"bakeoff creates new environments for every block; --prepare brings a trial into a known state"},
	{[]string{"runs", "r", "min-runs", "m", "max-runs", "M"},
		"bakeoff stops when everything is decided; --budget limits the time"},
	{[]string{"export-json", "export-csv", "export-markdown", "export-asciidoc", "export-orgmode"},
		"use --export FORMAT > FILE"},
	{[]string{"show-output", "output"}, "bakeoff keeps the output of every trial in the run folder"},
	{[]string{"reference"}, "the first command is the baseline"},
	{[]string{"conclude", "C"}, "use --cleanup, which runs after each trial"},
	{[]string{"parameter-step-size", "D"}, "use -P NAME=FROM..TO,step=STEP"},
}

// tryFlagError answers a flag of hyperfine that try does not have, and a flag of a
// command that is not behind --.
func (a *app) tryFlagError(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		for _, u := range unlike {
			if slices.Contains(u.names, unknown.GetSpecifiedName()) {
				return fault.WithFix(fault.Wrap(fault.Invalid, c.Name(), err), u.fix)
			}
		}
		given := func(w string) bool { return w == "--" || w == "-c" || w == "--command" }
		if !slices.ContainsFunc(a.line, given) {
			return fault.WithFix(fault.Wrap(fault.Invalid, c.Name(), err), "write -- before the command; see bakeoff try --help")
		}
	}
	return cli.FlagError(c, err)
}

func (a *app) doTry(c *cobra.Command, f tryFlags, args []string) error {
	if err := f.check(c); err != nil {
		return err
	}
	f.Line, f.Envs = slices.DeleteFunc(slices.Clone(a.line), func(w string) bool { return w == "--print-lab" }), args
	if at := c.ArgsLenAtDash(); at >= 0 {
		f.Envs, f.Argv = args[:at], args[at:]
	}
	if f.direct {
		f.Shell = compose.NoShell
	}
	if dir, err := os.Getwd(); err == nil {
		f.Dir = dir
		f.Exists = func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	}
	file, err := compose.Try(f.Request, session.Catalogue())
	if err != nil {
		return cli.Usage(c, err)
	}
	lab, err := file.Load(session.Catalogue())
	if err != nil {
		return usages(c, err)
	}
	if f.printLab {
		_, err := a.Out.Write(file.Text)
		return err
	}
	return a.tryLab(c, f, file, lab)
}

// check refuses values of flags that no lab file would show.
func (f tryFlags) check(c *cobra.Command) error {
	if err := offline.FailOn(f.failOn).Check(); err != nil {
		return err
	}
	if err := offline.CheckSort(c, f.sort); err != nil {
		return err
	}
	formats := lists.Map(export.Formats(), func(f export.Format) string { return f.Name })
	switch {
	case f.Budget <= 0:
		return cli.Usage(c, fmt.Errorf("--budget must be positive (got %v)", f.Budget))
	case f.Margin <= 0:
		return cli.Usage(c, fmt.Errorf("--margin must be above 0, such as 2%% (got %v)", f.Margin))
	case f.direct && c.Flags().Changed("shell"):
		return cli.Usage(c, errors.New("--shell and --no-shell exclude each other; use only one of the two"))
	case f.export != "" && f.json:
		return cli.Usage(c, errors.New("--export and --json exclude each other; use --export json, or only --json"))
	case f.export != "" && !slices.Contains(formats, f.export):
		return cli.Usage(c, fmt.Errorf("--export must be %s (got %q)", yamltree.OneOf(formats), f.export))
	}
	return nil
}

// usages is cli.Usage for each of the errors that were joined.
func usages(c *cobra.Command, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return cli.Usage(c, err)
	}
	return errors.Join(lists.Map(joined.Unwrap(), func(e error) error { return fault.Op(c.Name(), e) })...)
}

// tryLab runs the lab file of a command line.
func (a *app) tryLab(c *cobra.Command, f tryFlags, file compose.File, lab *manifest.Lab) error {
	for _, note := range file.Notes {
		fmt.Fprintln(a.Err, "bakeoff: note: "+safetext.Line(note))
	}
	if f.seed == 0 {
		f.seed = session.DrawSeed()
	}
	if _, err := a.recordSources(c.Context(), lab); err != nil {
		return err
	}
	lab.FailOn = f.failOn
	s, err := session.New(lab, f.seed, versionString(), f.out)
	if err != nil {
		return err
	}
	s.Words = file.Explain
	swept := slices.ContainsFunc(lab.Contenders, func(c manifest.Contender) bool { return c.Sweep != nil })
	if swept && !c.Flags().Changed("sort") {
		f.sort = string(report.ByLab) // of the values of a sweep
	}
	f.quiet = f.export != ""
	f.answer = func(r analysis.Results, page string) error {
		if f.export != "" {
			return export.Write(a.Out, f.export, []export.Run{{Results: r}})
		}
		return offline.PrintAnswer(a.Streams, report.Brief, r, page, f.sort)
	}
	f.budget = f.Budget
	f.anyway = "If this exit code is not a failure, add --ignore-failure."
	if len(file.Notes) > 0 { // a file that is not there is the likely cause, and not to be ignored
		f.anyway = "The cause may be that " + safetext.Line(strings.Join(file.Notes, "; ")) + "."
	}
	return file.Explain(a.carryOut(c, s, f.runFlags))
}
