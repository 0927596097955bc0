package install

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/prepare/install/installed"
	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/probe"
	"bakeoff/prepare/install/rescue"
	"bakeoff/prepare/install/spec"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/ssh"
)

// installSilence is how long a machine may give no answer while it installs: a
// rescue system under emulation, beside other work, was once silent for two minutes.
const installSilence = 10 * time.Minute

// targetFlags say which machine gets the system.
type targetFlags struct {
	host  string
	port  int
	facts string
	image imageFlags
}

func (t *targetFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&t.host, "host", "", "machine to reach over SSH, `user@host`, or user@vm:GUEST for a guest "+
		"of bakeoff vm; the default is this machine")
	c.Flags().IntVar(&t.port, "port", 0, "SSH `port` of the machine in --host; the default is that of the "+
		"SSH configuration")
}

// words are the flags on a command line.
func (t *targetFlags) words() (out string) {
	if t.host != "" {
		out += " --host " + shell.Quote(t.host)
	}
	if t.port != 0 {
		out += fmt.Sprint(" --port ", t.port)
	}
	for _, name := range t.image.files {
		out += " --image " + shell.Quote(name)
	}
	return out
}

// connect reaches the machine. The caller calls release when it is done.
func (a *commands) connect(ctx context.Context, t targetFlags) (to conn.Conn, release func(), err error) {
	switch {
	case t.image.machine != nil && len(t.image.files) > 0:
		to, err = t.image.machine.connect(ctx)
		return to, func() {}, err // the end of the command ends the machine
	case t.host == "":
		return local.Conn{}, func() {}, nil
	}
	if user, name, ok := guestHost(t.host); ok {
		return a.connectGuest(ctx, t, user, name)
	}
	c, err := a.at.Open(ctx, ssh.Options{Name: t.host, Target: t.host, Port: t.port, Silence: installSilence,
		Progress: func(line string) { fmt.Fprintln(a.Err, safetext.Line(line)) }})
	if err != nil {
		return nil, nil, err
	}
	return c, func() { _ = c.Close() }, nil
}

func (a *commands) installProbe() *cobra.Command {
	var t targetFlags
	c := &cobra.Command{
		Use:   "probe",
		Short: "Print the facts of a machine that lint and plan read",
		Long: `probe prints the facts of a machine as JSON, in the form that lint and plan read with
--facts: memory, firmware, disks and what uses each disk, pools, boot entries, kernels,
initial RAM disks, packages, services and configuration files. The facts never contain the
content of a key. probe changes nothing. Unknown facts are null. Run probe as root: other
users cannot read all facts.`,
		Example: `  bakeoff install probe > facts.json
  bakeoff install probe --host root@rescue > facts.json
  bakeoff install probe --image out.raw > facts.json`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			s, err := a.probe(ctx, t)
			if err != nil {
				return err
			}
			safetext.Scrub(&s, safetext.Text)
			text, err := probe.JSON(s)
			if err == nil {
				_, err = a.Out.Write(text)
			}
			return err
		},
	}
	t.add(c)
	t.addImage(a, c, rescue.Look)
	return c
}

// probe reads the facts of a machine, or of a file.
func (a *commands) probe(ctx context.Context, t targetFlags) (installed.System, error) {
	if t.facts != "" {
		return a.readInstalled(t.facts)
	}
	to, release, err := a.connect(ctx, t)
	if err != nil {
		return installed.System{}, err
	}
	defer release()
	return probe.Read(ctx, to)
}

func (a *commands) installInit() *cobra.Command {
	var out, answers string
	c := &cobra.Command{
		Use:   "init RECIPE",
		Short: "Ask how to install a system, and write install.yaml",
		Long: `init asks for disk, name, time zone, keymap, secrets, hibernation, boot loader, desktop and
users, and writes a specification that plan reads. An empty answer chooses the default in
brackets. For each secret, init asks where to find it (prompt, file:PATH or command:ARGV),
never for the secret itself.

init can read the answers from a file (--answers) or from standard input, one per line. It
does not overwrite files. bakeoff schema install prints a JSON Schema for editors.`,
		Example: `  bakeoff install init void-zfs
  bakeoff install init debian-zfs --answers answers.txt --out debian.yaml`,
		Args:      cli.Between(1, 1, "a recipe"),
		ValidArgs: spec.Recipes,
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(spec.Recipes, args[0]) {
				return cli.Usage(c, fault.WithFix(fault.New(fault.Invalid, "unknown recipe %s", safetext.Line(args[0])),
					"use one of void-zfs, debian-zfs and netbsd-zfs"))
			}
			if _, err := os.Lstat(out); err == nil {
				return cli.RefuseExisting(out)
			}
			var in io.Reader = a.In
			interactive := answers == "" && a.asksPerson()
			if answers != "" {
				f, err := os.Open(answers)
				if err != nil {
					return fileError(err)
				}
				defer f.Close()
				in = f
			}
			text, err := spec.Ask(args[0], in, a.Err, interactive)
			if err != nil {
				return err
			}
			if _, err := spec.Parse(out, text); err != nil {
				return err
			}
			if err := cli.WriteNew(out, text); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s written; %s shows what it would do\n", safetext.Line(out),
				safetext.Line("bakeoff install plan "+shell.Quote(out)))
			return nil
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "install.yaml", "`file` to write")
	c.Flags().StringVar(&answers, "answers", "", "`file` with one answer per line")
	return c
}

func (a *commands) installPlan() *cobra.Command {
	var asJSON bool
	var t targetFlags
	c := &cobra.Command{
		Use:   "plan SPEC",
		Short: "Print the steps that install a system",
		Long: `plan reads a specification (install.yaml), probes the target, and prints the steps of the
installation in order: the command of each step, what the command destroys, how bakeoff
checks its result, and the command that undoes the step. plan changes nothing. It refuses a
target on which the installation would fail, or would destroy what the specification does
not name.

The same specification and facts give the same plan, with the same identities, such as GUIDs
of partitions. The hash that plan prints covers the whole plan.`,
		Example: `  bakeoff install plan install.yaml
  bakeoff install plan install.yaml --host root@rescue
  bakeoff install plan install.yaml --image out.raw
  bakeoff install plan install.yaml --facts target.json --json`,
		Args: cli.Between(1, 1, "a specification"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			p, err := a.makePlan(ctx, args[0], t)
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.PrintJSON(p)
			}
			_, err = io.WriteString(a.Out, safetext.Text(p.String()))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as one object")
	c.Flags().
		StringVar(&t.facts, "facts", "", "`file` with the facts of the target, instead of probing; - is standard input")
	t.add(c)
	t.addImage(a, c, rescue.Look)
	return c
}

// makePlan makes the plan of a specification for a target.
func (a *commands) makePlan(ctx context.Context, file string, t targetFlags) (*plan.Plan, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.WithFix(fileError(err), "bakeoff install init writes a specification")
	}
	s, err := spec.Parse(file, src)
	if err != nil {
		return nil, err
	}
	if err := t.image.imageDisks(s); err != nil {
		return nil, err
	}
	facts, err := a.probe(ctx, t)
	if err != nil {
		return nil, err
	}
	t.image.offer(s)
	return plan.New(s, plan.TargetOf(facts))
}

// asksPerson reports whether answers come from a terminal.
func (a *commands) asksPerson() bool {
	w, ok := a.In.(io.Writer)
	return ok && a.Terminal(w)
}
