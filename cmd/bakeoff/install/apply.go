package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/prepare/install/engine"
	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/rescue"
)

// maxPlanFile bounds a plan that apply reads, in bytes.
const maxPlanFile = 4 << 20

func (a *commands) installApply() *cobra.Command {
	var t targetFlags
	var confirm, dir, planFile string
	c := &cobra.Command{
		Use:   "apply [SPEC]",
		Short: "Install a system: execute a plan",
		Long: `apply makes a plan from a specification, as the command plan does, or reads a plan that plan
--json printed (--plan). It executes exactly the steps of this plan, and destroys what the
plan names. First, apply asks for the serial number of the disk. --confirm HASH, with the
hash of the plan, replaces this question.

apply reads secrets on this machine, and gives them to commands on standard input only. The
folder of the installation (--dir) contains the plan, a journal and the end of each command's
output. The folder must not be on the target, because resume needs it after a power cut.

When a step fails, apply unmounts file systems, closes swap and exports the pool that
earlier steps opened, in reverse order. Fix the cause, then run resume. resume also
continues after apply was killed.`,
		Example: `  bakeoff install apply install.yaml
  bakeoff install apply install.yaml --image out.raw
  bakeoff install apply install.yaml --host root@vm:box
  bakeoff install plan install.yaml --json > plan.json
  bakeoff install apply --plan plan.json --confirm HASH --host root@rescue`,
		Args: cli.Between(0, 1, "a specification"),
		RunE: func(c *cobra.Command, args []string) error {
			if (len(args) == 1) == (planFile != "") {
				return cli.Usage(c, fault.New(fault.Invalid, "write either a specification or --plan FILE"))
			}
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			var p *plan.Plan
			var err error
			if planFile != "" {
				p, err = a.readPlan(planFile)
			} else {
				p, err = a.makePlan(ctx, args[0], t)
			}
			if err != nil {
				return err
			}
			if dir == "" {
				dir = filepath.Join(a.installDir(), p.Hash[:12])
			}
			if err := a.confirmPlan(p, confirm); err != nil {
				return err
			}
			r, err := engine.Create(dir, p)
			if err != nil {
				return err
			}
			return a.runInstall(ctx, r, t)
		},
	}
	c.Flags().StringVar(&confirm, "confirm", "", "`hash` of the plan: execute this plan without asking")
	c.Flags().StringVar(&dir, "dir", "", "`folder` of the installation; the default is in bakeoff's state folder")
	c.Flags().StringVar(&planFile, "plan", "", "`file` with a plan that plan --json printed")
	t.add(c)
	t.addImage(a, c, rescue.Make)
	return c
}

func (a *commands) readPlan(name string) (*plan.Plan, error) {
	src, err := bounded.ReadFile(name, maxPlanFile)
	if err != nil {
		return nil, fileError(err)
	}
	return plan.Read(name, src)
}

// installDir is the folder of all installations.
func (a *commands) installDir() string {
	state, _ := a.at.Dirs()
	return filepath.Join(state, "install")
}

// confirmPlan shows what a plan destroys, and asks whether it may.
func (a *commands) confirmPlan(p *plan.Plan, hash string) error {
	var serials []string
	for _, d := range p.Drives() {
		fmt.Fprintf(a.Err, "%s on %s, serial number %s\n", p.Recipe, safetext.Line(d.ByID), safetext.Line(d.Serial))
		serials = append(serials, d.Serial)
	}
	fmt.Fprintf(a.Err, "%d steps\nplan %s\n", len(p.Steps), p.Hash)
	for _, n := range slices.Concat(p.Notes, p.Advice) {
		fmt.Fprintf(a.Err, "note: %s\n", safetext.Line(n))
	}
	seen := map[string]bool{}
	for _, s := range p.Steps {
		if s.Destroys != "" && !seen[s.Destroys] {
			fmt.Fprintf(a.Err, "destroys: %s\n", safetext.Line(s.Destroys))
			seen[s.Destroys] = true
		}
	}
	if hash != "" {
		if hash != p.Hash {
			return fault.WithFix(fault.New(fault.Invalid, "--confirm must be the hash of this plan: %s", p.Hash),
				"read the plan again: the specification or the target has changed")
		}
		return nil
	}
	if !a.asksPerson() {
		return fault.WithFix(fault.New(fault.Invalid, "bakeoff cannot ask for confirmation: standard input is not "+
			"a terminal"),
			"read the plan, then use --confirm "+p.Hash)
	}
	ask := "Type the serial number of the disk to continue: "
	if len(serials) > 1 {
		ask = "Type the serial numbers of both disks, with a space between them, to continue: "
	}
	fmt.Fprint(a.Err, ask)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != strings.Join(serials, " ") {
		return fault.New(fault.Invalid, "the answer is not the serial number of the disk; bakeoff changed nothing")
	}
	return nil
}

// runInstall executes the steps of an installation that are not done.
func (a *commands) runInstall(ctx context.Context, r *engine.Record, t targetFlags) error {
	defer r.Close()
	e, release, err := a.engineOf(ctx, r, t)
	if err != nil {
		return err
	}
	defer release()
	fmt.Fprintf(a.Err, "the journal is in %s\n", safetext.Line(r.Dir))
	if err := e.Run(ctx); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "installed; %s compares the system with its plan\n",
		safetext.Line("bakeoff install verify "+shell.Quote(r.Dir)+t.words()))
	for _, line := range r.Plan.After {
		fmt.Fprintln(a.Out, safetext.Line(line))
	}
	return nil
}

// engineOf returns the engine of an installation.
func (a *commands) engineOf(ctx context.Context, r *engine.Record, t targetFlags) (*engine.Engine, func(), error) {
	if err := t.image.haveDisks(r.Plan); err != nil {
		return nil, nil, err
	}
	to, release, err := a.connect(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	secrets := &engine.Secrets{}
	if a.asksPerson() {
		secrets.Prompt = a.promptSecret
	}
	say := func(line string) { // before the first step too, and after all that can refuse the target
		t.image.keep()
		fmt.Fprintln(a.Err, safetext.Line(line))
	}
	return &engine.Engine{Record: r, Conn: to, Secrets: secrets, Say: say}, release, nil
}

// promptSecret asks for a secret, twice, without showing it.
func (a *commands) promptSecret(name string) ([]byte, error) {
	f, ok := a.In.(*os.File)
	if !ok {
		return nil, fault.New(fault.Invalid, "bakeoff cannot ask for a secret: standard input is not a terminal")
	}
	var all [2][]byte
	for i, text := range []string{"Secret %s (%s): ", "Secret %s again (%s): "} {
		fmt.Fprintf(a.Err, text, safetext.Line(name), safetext.Line(engine.SecretForm(name)))
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(a.Err)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, "read the secret", err)
		}
		all[i] = b
	}
	if string(all[0]) != string(all[1]) {
		return nil, fault.New(fault.Invalid, "the two answers differ")
	}
	return all[0], nil
}

// recordDir is the folder that a command names, or the only one there is.
func (a *commands) recordDir(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	all, _ := filepath.Glob(filepath.Join(a.installDir(), "*", "plan.json"))
	if len(all) != 1 {
		return "", fault.WithFix(fault.New(fault.Invalid, "%s holds %d installations", a.installDir(), len(all)),
			"name the folder of one installation")
	}
	return filepath.Dir(all[0]), nil
}

// onRecord is a command that opens the folder of an installation.
func (a *commands) onRecord(use, short, long, example string,
	do func(ctx context.Context, r *engine.Record, t targetFlags) error) *cobra.Command {
	var t targetFlags
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cli.Between(0, 1, "a folder"),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.recordDir(args)
			if err != nil {
				return err
			}
			r, err := engine.Open(dir)
			if err != nil {
				return err
			}
			defer r.Close()
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			return do(ctx, r, t)
		}}
	t.add(c)
	t.addImage(a, c, rescue.Change)
	return c
}

func (a *commands) installResume() *cobra.Command {
	return a.onRecord("resume [DIR]", "Continue an installation that failed or was killed",
		`resume continues the installation in a folder that apply printed. It checks each step again:
it skips a step that is already done, runs a step that is not done, and stops if the check
finds anything else. It continues only on the disk of the plan, with the partition table and
the pool that the installation made.`,
		`  bakeoff install resume /var/lib/bakeoff/install/0123456789ab
  bakeoff install resume --image out.raw`, a.runInstall)
}

func (a *commands) installUndo() *cobra.Command {
	return a.onRecord("undo [DIR]", "Unmount, close and export what an installation opened",
		`undo unmounts the file systems of an installation, closes its swap and exports its pool. It
destroys nothing. Run resume to continue afterwards.`,
		`  bakeoff install undo /var/lib/bakeoff/install/0123456789ab`,
		func(ctx context.Context, r *engine.Record, t targetFlags) error {
			e, release, err := a.engineOf(ctx, r, t)
			if err != nil {
				return err
			}
			defer release()
			if err := e.Release(ctx); err != nil {
				return err
			}
			fmt.Fprintln(a.Out, "released")
			return nil
		})
}

func (a *commands) installVerify() *cobra.Command {
	var asJSON bool
	c := a.onRecord("verify [DIR]", "Compare an installed system with its plan",
		`verify runs the checks of a plan on the installed system, and names each difference. It
imports the pool and mounts everything read-only, and releases both at the end. Run it from
another system, such as the rescue system. verify also shows how many steps have no check.
The exit code is 3 if something differs.`,
		`  bakeoff install verify /var/lib/bakeoff/install/0123456789ab --json`,
		func(ctx context.Context, r *engine.Record, t targetFlags) error {
			if !r.Ended {
				return fault.WithFix(fault.New(fault.Invalid, "the installation has not ended"),
					"run bakeoff install resume "+shell.Quote(r.Dir))
			}
			e, release, err := a.engineOf(ctx, r, t)
			if err != nil {
				return err
			}
			defer release()
			drifts, unchecked, err := e.Verify(ctx)
			if err != nil {
				return err
			}
			safetext.Scrub(&drifts, safetext.Line)
			if asJSON {
				if drifts == nil {
					drifts = []engine.Drift{}
				}
				err = a.PrintJSON(struct {
					Drifts    []engine.Drift `json:"drifts"`
					Unchecked []string       `json:"unchecked"`
				}{drifts, unchecked})
			} else {
				for _, d := range drifts {
					fmt.Fprintf(a.Out, "%s: %s\n", d.Step, d.Says)
				}
				fmt.Fprintf(a.Out, "%d differences; %d steps have no check\n", len(drifts), len(unchecked))
			}
			if err == nil && len(drifts) > 0 {
				err = cli.Exit{Code: cli.ExitFound}
			}
			return err
		})
	c.Flags().BoolVar(&asJSON, "json", false,
		"print one object: drifts (the differences) and unchecked (the steps that have no check)")
	return c
}

func (a *commands) installStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [DIR]",
		Short: "Show the progress of an installation",
		Long: `status reads the plan and the journal of an installation. It shows how many steps are done,
the next step, the last error, and the identities of disk, partition table and pool. It
changes nothing, connects to no machine, and works while apply runs.`,
		Example: `  bakeoff install status /var/lib/bakeoff/install/0123456789ab`,
		Args:    cli.Between(0, 1, "a folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := a.recordDir(args)
			if err != nil {
				return err
			}
			r, err := engine.Look(dir)
			if err != nil {
				return err
			}
			s := r.Status()
			safetext.Scrub(&s, safetext.Line)
			if asJSON {
				return a.PrintJSON(s)
			}
			return a.printStatus(s)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return c
}

func (a *commands) printStatus(s engine.Status) error {
	_, err := fmt.Fprintf(
		a.Out,
		"%s on %s, serial number %s\nplan %s\n%d of %d steps done\n",
		s.Recipe,
		s.Disk,
		s.Serial,
		s.Plan,
		s.Done,
		s.Steps,
	)
	for _, l := range [][2]string{{"next", s.Next}, {"partition table", s.GPT}, {"pool", s.PoolGUID},
		{"last error", s.Failed}} {
		if l[1] != "" {
			_, werr := fmt.Fprintf(a.Out, "%s: %s\n", l[0], l[1])
			err = errors.Join(err, werr)
		}
	}
	return err
}
