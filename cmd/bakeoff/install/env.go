package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/prepare/install/bootenv"
)

func (a *commands) installEnv() *cobra.Command {
	c := &cobra.Command{
		Use:   "env",
		Short: "List, snapshot and clone boot environments, and go back to one",
		Long: `env manages the boot environments of a running machine. A boot environment is a
dataset with a whole system. Take a snapshot before an update. If the update goes wrong,
rollback makes a new environment from the snapshot; the machine starts this environment
next. env destroys nothing.`,
		Example: `  bakeoff install env snapshot before-update
  bakeoff install env rollback before-update`,
		Args: cli.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.envList())
	for _, s := range []struct {
		use, short, long, example, done string
		args                            int
		do                              func(ctx context.Context, e *bootenv.Environments, args []string) (string, error)
	}{
		{"snapshot TAG [ENVIRONMENT]", "Take a snapshot of a boot environment",
			`snapshot takes a snapshot of the running environment, or of another one. The snapshot does
not contain datasets outside of the environment, such as /home.`,
			"  bakeoff install env snapshot before-update", "taken", 2,
			func(ctx context.Context, e *bootenv.Environments, args []string) (string, error) {
				return e.Snapshot(ctx, strings.Join(args[1:], ""), args[0])
			}},
		{"clone SNAPSHOT NAME", "Make a boot environment from a snapshot",
			`clone makes an environment from a snapshot (TAG of the running environment, or
ENVIRONMENT@TAG). It copies the kernel command line of the original environment. ZFSBootMenu
lists the new environment at once. systemd-boot lists it after activate has built an image
for it.`,
			"  bakeoff install env clone before-update try", "made", -2,
			func(ctx context.Context, e *bootenv.Environments, args []string) (string, error) {
				return e.Clone(ctx, args[0], args[1])
			}},
		{"activate NAME", "Choose the boot environment that starts next",
			`activate sets the property bootfs of the pool, so ZFSBootMenu starts this environment by
default. If systemd-boot starts unified kernel images, activate makes the images of this
environment the default. If the environment has no image, activate first builds one.
activate refuses a machine that another boot loader starts.`, "  bakeoff install env activate try", "starts next", -1,
			func(ctx context.Context, e *bootenv.Environments, args []string) (string, error) {
				return e.Activate(ctx, args[0])
			}},
		{"rollback SNAPSHOT", "Go back to a snapshot at the next start",
			`rollback makes the environment ENVIRONMENT-TAG from a snapshot, and activates the new
environment. SNAPSHOT is a TAG of the running environment, or ENVIRONMENT@TAG. The old
environment keeps what changed since the snapshot. If rollback is interrupted, run it again.`,
			"  bakeoff install env rollback before-update", "starts next", -1,
			func(ctx context.Context, e *bootenv.Environments, args []string) (string, error) {
				return e.Rollback(ctx, args[0])
			}},
	} {
		var t targetFlags
		least, most := 1, s.args
		if s.args < 0 {
			least, most = -s.args, -s.args
		}
		sub := &cobra.Command{Use: s.use, Short: s.short, Long: s.long, Example: s.example,
			Args: cli.Between(least, most, strings.ToLower(s.use[strings.IndexByte(s.use, ' ')+1:])),
			RunE: func(c *cobra.Command, args []string) error {
				e, release, err := a.environments(c.Context(), t)
				if err != nil {
					return err
				}
				defer release()
				name, err := s.do(c.Context(), e, args)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.Out, safetext.Line(name), s.done)
				return nil
			}}
		t.add(sub)
		c.AddCommand(sub)
	}
	return c
}

func (a *commands) environments(ctx context.Context, t targetFlags) (*bootenv.Environments, func(), error) {
	to, release, err := a.connect(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	e, err := bootenv.Read(ctx, to)
	if err != nil {
		release()
	}
	return e, release, err
}

func (a *commands) envList() *cobra.Command {
	var asJSON bool
	var t targetFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List boot environments and their snapshots",
		Long: `list shows the boot environments of a machine: which one runs, and which one starts next. It
also shows the origin and the snapshots of each environment.`,
		Example: `  bakeoff install env list --host root@server`,
		Args:    cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			e, release, err := a.environments(c.Context(), t)
			if err != nil {
				return err
			}
			defer release()
			safetext.Scrub(e, safetext.Line)
			if asJSON {
				return a.PrintJSON(e)
			}
			for _, n := range e.All {
				var marks []string
				if n.Running {
					marks = append(marks, "runs")
				}
				if n.Default {
					marks = append(marks, "starts next")
				}
				if n.Origin != "" {
					marks = append(marks, "from "+n.Origin)
				}
				fmt.Fprintf(a.Out, "%s: %s\n", n.Name, strings.Join(marks, ", "))
				for _, s := range n.Snapshots {
					fmt.Fprintf(a.Out, "  %s@%s\n", n.Name, s)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one object")
	t.add(c)
	return c
}
