package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/suite"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/diagnosis"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/proof"
)

// proveFlags are the flags of doctor --prove.
type proveFlags struct {
	driver  string
	options []string
	image   string
}

// askedToProve reports whether a proof was asked for, and refuses its flags without it.
func (f proveFlags) askedToProve() (bool, error) {
	if f.driver == "" && (len(f.options) > 0 || f.image != "") {
		return false, fault.New(fault.Invalid, "--option and --image need --prove DRIVER")
	}
	return f.driver != "", nil
}

// driverNamed is the driver called name.
func driverNamed(name string) (driver.Driver, error) {
	all := driverall.Drivers()
	i := slices.IndexFunc(all, func(d driver.Driver) bool { return d.Doc().Name == name })
	if i < 0 {
		names := lists.Map(all, func(d driver.Driver) string { return d.Doc().Name })
		return nil, unknown("driver", name, names)
	}
	return all[i], nil
}

// optionsOf reads NAME=VALUE options by a driver's description.
func optionsOf(doc driver.Doc, given []string) (param.Values, error) {
	out := param.Defaults(doc.Options)
	for _, g := range given {
		name, text, _ := strings.Cut(g, "=")
		i := slices.IndexFunc(doc.Options, func(s param.Spec) bool { return s.Name == name })
		if i < 0 {
			return nil, fault.WithFix(fault.New(fault.Invalid, "driver %s has no option %q", doc.Name, name),
				"run bakeoff list drivers "+doc.Name+" for its options")
		}
		value, err := doc.Options[i].Canonical(text)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, "option "+name, err)
		}
		out[name] = value
	}
	return out, nil
}

// proveDriver runs the contract suite of a driver on this machine and stores the result.
func (a *app) proveDriver(ctx context.Context, f proveFlags, asJSON bool) error {
	d, err := driverNamed(f.driver)
	if err != nil {
		return err
	}
	options, err := optionsOf(d.Doc(), f.options)
	if err != nil {
		return err
	}
	if s := options["guest-system"]; s == "windows" {
		return fault.WithFix(fault.New(fault.Unsupported, "--option guest-system=windows: the tests of a driver "+
			"run POSIX programs such as sh in its environments"), "run a lab file with this guest, as docs/guides/windows.md "+
			"describes")
	}
	self, err := os.Executable()
	if err != nil {
		return fault.Wrap(fault.Lab, "prove", err)
	}
	p, victim, err := diagnosis.Prove(ctx, a.at, diagnosis.ProveOptions{
		Driver: d, Options: options, Image: f.image, Version: versionString(), Self: append([]string{self}, os.Args[1:]...),
		Progress: func(text string) { fmt.Fprintln(a.Err, text) },
		Ended: func(t suite.Outcome) {
			if !asJSON {
				a.printOutcome(t)
			}
		},
	})
	if err != nil || victim {
		return err
	}
	if asJSON {
		err = a.PrintJSON(p)
	} else {
		a.printProof(p)
	}
	if err == nil && !p.Passed {
		err = fault.New(fault.Lab, "driver %s is not proven on this machine: %s", p.Driver, p.Why)
	}
	return err
}

func (a *app) printOutcome(t suite.Outcome) {
	tint := map[suite.Status]cli.Color{suite.Passed: cli.Green, suite.Failed: cli.Red, suite.Skipped: cli.Yellow}[t.Status]
	s := a.Style(a.Out)
	fmt.Fprintf(a.Out, "%s %6.1f s  %s\n", s.Paint(tint, fmt.Sprintf("%-7s", t.Status)), t.Seconds, t.Name)
	if t.Status != suite.Passed {
		for _, line := range t.Said {
			fmt.Fprintln(a.Out, "                    "+strings.ReplaceAll(safetext.Text(line), "\n", "\n                    "))
		}
	}
}

func (a *app) printProof(p proof.Proof) {
	state, _ := a.at.Dirs()
	n := p.Counts()
	word := "NOT proven"
	if p.Passed {
		word = "proven"
	}
	fmt.Fprintf(a.Out, "\n%s is %s on %s/%s %s: %d tests passed, %d failed, %d skipped; %d commands\n", p.Driver, word,
		p.Machine.System, p.Machine.Arch, p.Machine.Release, n[suite.Passed], n[suite.Failed], n[suite.Skipped], p.Commands)
	at := proof.Path(state, p.Driver)
	fmt.Fprintf(a.Out, "  %s\n  %s\n", at, filepath.Join(filepath.Dir(at), p.Transcript))
	if d, err := driverNamed(p.Driver); err == nil && d.Doc().Status == driver.Unproven {
		fmt.Fprintln(a.Out, "The project has no such machine: please send both files to the project. They contain\n"+
			"the commands and their output; read them before you send them.")
	}
}
