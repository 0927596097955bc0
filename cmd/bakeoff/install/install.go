// Package install holds the commands of `bakeoff install`, which plan, make and check systems whose
// root is on ZFS.
package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/hosts"
	"bakeoff/prepare/install/installed"
	"bakeoff/prepare/install/lint"
)

// commands is what every command of this package uses.
type commands struct {
	*cli.Streams
	at hosts.Controller
}

// Command returns bakeoff install, and the commands below it.
func Command(s *cli.Streams, at hosts.Controller) *cobra.Command {
	a := &commands{s, at}
	c := &cobra.Command{
		Use:   "install",
		Short: "Plan, make and check systems whose root is on ZFS",
		Long: `install installs and checks systems with their root on ZFS.

To install: init writes a specification, plan prints the steps that install the system on an
empty disk, and apply executes these steps. resume continues after a failure. The target is
this machine, another one over SSH (--host), a guest of bakeoff vm (--host root@vm:GUEST),
or a disk image in a machine that bakeoff starts (--image).

To check: probe prints the facts of a machine, and lint reads them. lint finds what will
prevent the system from booting or from resuming after hibernation, and keys that others
can read. It knows NetBSD, and systems
that ZFSBootMenu, GRUB or a unified kernel image starts.`,
		Example: `  bakeoff install init void-zfs
  bakeoff install plan install.yaml
  bakeoff install apply install.yaml --image out.raw
  bakeoff install probe > facts.json
  bakeoff install lint --facts facts.json
  bakeoff install lint --root /mnt --facts facts.json --json`,
		Args: cli.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		a.installProbe(),
		a.installInit(),
		a.installPlan(),
		a.installApply(),
		a.installResume(),
		a.installStatus(),
		a.installVerify(),
		a.installUndo(),
		a.installEnv(),
		a.installLint(),
	)
	return c
}

func (a *commands) installLint() *cobra.Command {
	var asJSON bool
	var rootDir, factsFile string
	c := &cobra.Command{
		Use:   "lint --facts FILE [--root DIR]",
		Short: "Find what will go wrong on a system whose root is on ZFS",
		Long: `lint reads the facts of an installed system. It prints what will go wrong, why, and the
command that fixes it. It changes nothing, runs no programs and needs no privileges. The
facts may come from another machine.

The facts of probe contain the configuration files that lint reads. With --root, lint reads
these files below a folder instead. If there are no files, lint skips the checks that need
them.

A finding is an error if the system will not boot or resume, loses data or exposes a key. A
finding is a warning if the system works until an ordinary event, such as an update or the
loss of a disk. A finding is info if a setting has no effect. The exit code is 3 if lint
found anything, and 0 otherwise.`,
		Example: `  bakeoff install lint --facts facts.json
  bakeoff install lint --root /mnt --facts facts.json
  ssh server cat facts.json | bakeoff install lint --root copy --facts - --json`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if factsFile == "" {
				return cli.Usage(c, fault.New(fault.Invalid,
					"--facts FILE is missing; bakeoff install probe > FILE writes the facts"))
			}
			s, err := a.readInstalled(factsFile)
			if err != nil {
				return err
			}
			files := installed.Root(s.Files)
			if rootDir != "" {
				root, err := os.OpenRoot(rootDir)
				if err != nil {
					return fileError(err)
				}
				defer root.Close()
				files = root.FS()
				if _, err := root.Stat("etc"); err != nil {
					if _, err := root.Stat("root/etc"); err == nil {
						return fault.New(fault.Invalid, "--root %s is not the root of a system: it has no folder etc; use --root %s",
							rootDir, filepath.Join(rootDir, "root"))
					}
				}
			}
			found := lint.Check(s, files)
			safetext.Scrub(&found, safetext.Line)
			if asJSON {
				if found == nil {
					found = []lint.Finding{}
				}
				err = a.PrintJSON(found)
			} else {
				a.printLint(found)
			}
			if err == nil && len(found) > 0 {
				err = cli.Exit{Code: cli.ExitFound}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false,
		"print a JSON list; each object has the keys finding, where, severity, why and fix")
	c.Flags().StringVar(&factsFile, "facts", "", "`file` with the facts; - is standard input")
	c.Flags().StringVar(&rootDir, "root", "", "`folder` with the files of the system, instead of those in the facts")
	return c
}

// readInstalled reads facts from a file, or from standard input.
func (a *commands) readInstalled(name string) (installed.System, error) {
	var in io.Reader = a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return installed.System{}, fileError(err)
		}
		defer f.Close()
		in = f
	}
	return installed.Read(name, in)
}

// printLint prints findings for eyes.
func (a *commands) printLint(found []lint.Finding) {
	style := a.Style(a.Out)
	if len(found) == 0 {
		fmt.Fprintln(a.Out, "Nothing found.")
		return
	}
	colors := map[lint.Severity]cli.Color{lint.Error: cli.Red, lint.Warning: cli.Yellow}
	for _, f := range found {
		fmt.Fprintf(a.Out, "%s: %s (%s)\n", style.Paint(colors[f.Severity], string(f.Severity)), f.Where, f.Name)
		for _, text := range []string{f.Why, "To fix it: " + f.Fix} {
			a.Fold("", "  "+text)
		}
	}
	errors := 0
	for _, f := range found {
		if f.Severity == lint.Error {
			errors++
		}
	}
	fmt.Fprintf(a.Out, "%s, %s.\n", unit.Count(len(found), "finding"), unit.Count(errors, "error"))
}

// fileError makes an error of a file that does not exist one of kind fault.NotFound.
func fileError(err error) error {
	var at *fs.PathError
	switch {
	case errors.As(err, &at) && errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "%s does not exist", at.Path)
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, "", err)
	}
	return err
}
