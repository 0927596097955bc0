package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/trial"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/proof"
)

// proveFlags are the flags of doctor --prove.
type proveFlags struct {
	driver  string
	options []string
	image   string
}

// asked tells whether a proof was asked for, and refuses its flags without it.
func (f proveFlags) asked() (bool, error) {
	if f.driver == "" && (len(f.options) > 0 || f.image != "") {
		return false, fault.New(fault.Invalid, "doctor: --option and --image go with --prove DRIVER")
	}
	return f.driver != "", nil
}

// driverNamed is the driver called name.
func driverNamed(name string) (driver.Driver, error) {
	all := driverall.Drivers()
	i := slices.IndexFunc(all, func(d driver.Driver) bool { return d.Doc().Name == name })
	if i < 0 {
		return nil, noDriver(all, name)
	}
	return all[i], nil
}

// optionsOf reads NAME=VALUE against what a driver describes.
func optionsOf(doc driver.Doc, given []string) (param.Values, error) {
	out := param.Defaults(doc.Options)
	for _, g := range given {
		name, text, _ := strings.Cut(g, "=")
		i := slices.IndexFunc(doc.Options, func(s param.Spec) bool { return s.Name == name })
		if i < 0 {
			return nil, fault.WithFix(fault.New(fault.Invalid, "driver %s has no option %q", doc.Name, name), "bakeoff list drivers "+doc.Name+" describes them")
		}
		value, err := doc.Options[i].Canonical(text)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, "option "+name, err)
		}
		out[name] = value
	}
	return out, nil
}

// prove runs the contract suite of a driver here, and stores what came of it.
func (a *app) prove(ctx context.Context, f proveFlags, asJSON bool) error {
	d, err := driverNamed(f.driver)
	if err != nil {
		return err
	}
	options, err := optionsOf(d.Doc(), f.options)
	if err != nil {
		return err
	}
	if c := checkDriver(ctx, d, a.localHost(), runtime.GOOS, trial.Installer{}); !c.OK && !slices.Contains(d.Doc().Hosts, runtime.GOOS) {
		return fault.New(fault.Unsupported, "driver %s cannot be used here, so nothing of it can be proven: it %s", f.driver, c.Reason)
	}
	agent, err := agentPath(a.env)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fault.Wrap(fault.Lab, "prove", err)
	}
	o := drivertest.Options{Victim: func() *exec.Cmd { return exec.Command(self, os.Args[1:]...) }}
	if d.Doc().Kernel {
		o.Memory, o.Timeout = 256*unit.MiB, 2*time.Minute
	}
	if drivertest.Victim() {
		// This is the controller that is to be killed: it makes one
		// environment, as it is told.
		o.Host, o.Options, o.Agent = a.localHost(), options, agent
		suite.Run(ctx, f.driver, func(t suite.T) { drivertest.On(t, d, o) }, nil)
		return nil
	}
	p, err := a.proveHere(ctx, d, f.image, proof.Config{Driver: d, Host: a.localHost(), Options: options, Agent: agent, Version: versionString(), Suite: o,
		Now: time.Now, Ended: func(t suite.Outcome) {
			if !asJSON {
				a.printOutcome(t)
			}
		}})
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(p)
	} else {
		a.printProof(p)
	}
	if err == nil && !p.Passed {
		err = fault.New(fault.Lab, "doctor: driver %s is not proven here: %s", p.Driver, p.Why)
	}
	return err
}

// proveHere has the machine to itself while the suite runs, and its image
// where it is named.
func (a *app) proveHere(ctx context.Context, d driver.Driver, image string, c proof.Config) (p proof.Proof, err error) {
	state, cache := env.Dirs(a.env, os.Getuid())
	c.StateDir = state
	manager, err := env.Open(ctx, env.Config{StateDir: state, CacheDir: cache, Host: c.Host, Agent: c.Agent, Run: "doctor --prove",
		Progress: func(text string) { fmt.Fprintln(a.stderr, text) }}, driverall.Drivers())
	if err != nil {
		return p, err
	}
	defer func() {
		down, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errors.Join(err, manager.Close(down))
	}()
	switch info, serr := os.Stat(image); {
	case image == "":
	case serr == nil && info.IsDir():
		if c.Image.Root, err = filepath.Abs(image); err != nil {
			return p, fault.Wrap(fault.Invalid, "image", err)
		}
		c.Image.Ref = image
	default:
		if c.Image, err = manager.Image(ctx, d.Doc(), image, nil, c.Options); err != nil {
			return p, err
		}
	}
	return proof.Run(ctx, c)
}

func (a *app) printOutcome(t suite.Outcome) {
	tint := map[suite.Status]colour{suite.Passed: green, suite.Failed: red, suite.Skipped: yellow}[t.Status]
	s := a.style(a.stdout)
	fmt.Fprintf(a.stdout, "%s %6.1f s  %s\n", s.paint(tint, fmt.Sprintf("%-7s", t.Status)), t.Seconds, t.Name)
	if t.Status != suite.Passed {
		for _, line := range t.Said {
			fmt.Fprintln(a.stdout, "                    "+strings.ReplaceAll(safetext.Text(line), "\n", "\n                    "))
		}
	}
}

func (a *app) printProof(p proof.Proof) {
	state, _ := env.Dirs(a.env, os.Getuid())
	n := p.Counts()
	word := "NOT proven"
	if p.Passed {
		word = "proven"
	}
	fmt.Fprintf(a.stdout, "\n%s is %s on %s/%s %s: %d tests passed, %d failed, %d were left out; %d commands\n", p.Driver, word,
		p.Machine.System, p.Machine.Arch, p.Machine.Release, n[suite.Passed], n[suite.Failed], n[suite.Skipped], p.Commands)
	at := proof.Path(state, p.Driver)
	fmt.Fprintf(a.stdout, "  %s\n  %s\n", at, filepath.Join(filepath.Dir(at), p.Transcript))
	if d, err := driverNamed(p.Driver); err == nil && d.Doc().Status == driver.Unproven {
		fmt.Fprintln(a.stdout, "The project has no such machine: please send it both files. They hold the commands\nwith what they printed; look through them first.")
	}
}

// proofs are the proofs that hold on this machine, by driver.
func (a *app) proofs(ctx context.Context) map[string]proof.Proof {
	out := map[string]proof.Proof{}
	state, _ := env.Dirs(a.env, os.Getuid())
	m, err := proof.MachineOf(ctx, a.localHost())
	if err != nil {
		return out
	}
	for _, d := range driverall.Drivers() {
		if p, err := proof.Load(state, d.Doc().Name); err == nil && p.Holds(m) {
			out[p.Driver] = p
		}
	}
	return out
}

// standing says for drivers that the project calls unproven what was proven
// here, for the reports.
func standing(proofs map[string]proof.Proof) map[string]string {
	out := map[string]string{}
	for name, p := range proofs {
		out[name] = "proven on this machine, " + p.At.Format("2006-01-02")
	}
	return out
}
