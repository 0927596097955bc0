package guests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
	"bakeoff/reach/conn/local"
)

// guestVariables are those that decide where the guests are.
var guestVariables = []string{"BAKEOFF_STATE", "BAKEOFF_CACHE", "BAKEOFF_AGENT"}

// guestEnv are the variables of a process that starts elsewhere: their paths are absolute.
func (a *commands) guestEnv() (out []string, err error) {
	for _, name := range guestVariables {
		v := a.Env(name)
		if v == "" {
			continue
		}
		if v, err = filepath.Abs(v); err != nil {
			return nil, err
		}
		out = append(out, name+"="+v)
	}
	return out, nil
}

// service is systemd on this machine.
func (a *commands) service() (*vm.Service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := a.guestEnv()
	return &vm.Service{Program: self, Env: env, Host: local.Conn{}}, err
}

// holder is what will hold a guest that is created now: a unit of systemd where it is PID 1,
// else a supervisor of its own.
type holder interface {
	// begin starts the guest, and returns when it runs.
	begin(uuid string) error
	// abandon is called when the guest is not needed any more, or runs.
	abandon()
}

func (a *commands) prepareHolder(ctx context.Context, uuid string) (holder, error) {
	s, err := a.service()
	if err != nil {
		return nil, err
	}
	holds, err := s.Holds(ctx)
	if err != nil {
		return nil, err
	}
	if holds {
		return &managed{ctx, a, s}, nil
	}
	return a.prepareSupervisor(uuid)
}

// launch starts the holder of a guest, and waits until the guest runs.
func (a *commands) launch(uuid string) error {
	h, err := a.prepareHolder(context.Background(), uuid)
	if err != nil {
		return err
	}
	defer h.abandon()
	return h.begin(uuid)
}

// managed is a guest that a unit of systemd holds.
type managed struct {
	ctx context.Context
	*commands
	*vm.Service
}

func (u *managed) begin(uuid string) error {
	err := u.Service.Start(u.ctx, uuid)
	if err == nil {
		return nil
	}
	g, gerr := u.guest(uuid)
	if gerr != nil {
		return err
	}
	return cmp.Or(g.WhyFailed(), err)
}

func (u *managed) abandon() {}

func (a *commands) vmService() *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Let systemd start guests when this machine boots, and stop them when it shuts down",
		Long: `install installs two systemd units. bakeoff-guests.service starts the guests with autoboot
when the machine boots, and shuts all guests down when the machine stops. bakeoff-vm@ is a
template: where systemd is PID 1, each guest runs in a unit of this template. If the
template is not installed, bakeoff writes it for the current boot.

install and remove only show what they would do, unless you add --yes.`,
		Example: "  bakeoff vm service install\n  sudo bakeoff vm service install --yes\n" +
			"  systemctl status 'bakeoff-vm@*'\n  sudo bakeoff vm service remove --yes",
	}
	c.AddCommand(guestExit(a.serviceChange("install", "Install the units and enable bakeoff-guests.service",
		(*vm.Service).PlanInstall, (*vm.Service).Install)),
		guestExit(a.serviceChange("remove", "Remove the units; running guests continue to run",
			(*vm.Service).PlanRemove, (*vm.Service).Remove)))
	cli.Group(c, "command", "install or remove")
	return c
}

func (a *commands) serviceChange(name, short string, plan func(*vm.Service) ([]vm.Change, error),
	do func(*vm.Service, context.Context) error) *cobra.Command {
	var yes, asJSON bool
	c := &cobra.Command{Use: name, Short: short, Args: cli.Between(0, 0, ""),
		Long:    short + ". Without --yes the command only shows what it would do.",
		Example: "  sudo bakeoff vm service " + name + " --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.service()
			if err != nil {
				return err
			}
			changes, err := plan(s)
			if err != nil {
				return err
			}
			for _, change := range changes {
				if change.Text == "" {
					fmt.Fprintf(a.Err, "remove %s\n", change.Path)
				} else {
					fmt.Fprintf(a.Err, "write %s:\n%s\n", change.Path, change.Text)
				}
			}
			print := func(done bool) error {
				if !asJSON {
					return nil
				}
				return a.PrintJSON(map[string]any{"schema": vmServiceSchema, "changes": append([]vm.Change{}, changes...),
					"done": done})
			}
			switch {
			case !yes && len(changes) > 0:
				fmt.Fprintln(a.Err, "nothing was changed; add --yes to make these changes")
				return print(false)
			case !yes || len(changes) == 0 && name == "remove":
				fmt.Fprintln(a.Err, "no change")
				return print(false)
			case !s.Booted():
				return fault.WithFix(fault.New(fault.Unsupported, "systemd is not PID 1 of this machine"),
					"let its init system run `bakeoff vm start --autoboot` and `bakeoff vm stop --all`")
			case os.Getuid() != 0:
				return fault.WithFix(errors.New("only root can change systemd units"), "run bakeoff as root")
			}
			if err := do(s, c.Context()); err != nil {
				return err
			}
			return print(true)
		}}
	c.Flags().BoolVar(&yes, "yes", false, "make the change; without --yes, only show it")
	c.Flags().BoolVar(&asJSON, "json", false,
		"print the files to write and to remove, and whether this was done, as one JSON object")
	return c
}
