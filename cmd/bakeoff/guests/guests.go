// Package guests holds the commands of `bakeoff vm`: guests that outlive the command that started
// them.
package guests

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/hosts"
	"bakeoff/provision/vm"
)

// The schemas of what the commands of guests print with --json.
const (
	vmListSchema    = "bakeoff/vm-list/v1"
	vmGuestSchema   = "bakeoff/vm-guest/v1"
	vmExecSchema    = "bakeoff/vm-exec/v1"
	vmScreenSchema  = "bakeoff/vm-screenshot/v1"
	vmServiceSchema = "bakeoff/vm-service/v1"
)

// vmadmNames are the other names that vmadm has for its verbs.
var vmadmNames = map[string]string{"start": "boot", "stop": "halt", "delete": "destroy", "get": "json"}

// commands is what every command of this package uses.
type commands struct {
	*cli.Streams
	at hosts.Controller
}

// Command returns bakeoff vm, and the commands below it.
func Command(s *cli.Streams, at hosts.Controller) *cobra.Command {
	a := &commands{s, at}
	c := &cobra.Command{
		Use:   "vm",
		Short: "Run guests: machines and containers that outlive the command",
		Long: `vm runs guests: virtual machines of QEMU, Firecracker or bhyve, and containers of crun,
runc, systemd-nspawn or LXC. On FreeBSD, containers are jails. A guest can start from a service that
"bakeoff image build" builds, from an image of a registry, a disk, a kernel or an installer.
bakeoff keeps the guest in the state folder until "bakeoff vm delete". The commands and columns
are those of vmadm, the tool of SmartOS.

GUEST is the UUID of a guest, the beginning of its UUID, or its alias.

vm prints data to standard output, and messages to standard error. The exit code is 0 after
success (also if there was nothing to do), 1 after an error, and 2 for wrong usage.

With --json, a command prints its data as JSON, and a command that changes a guest prints
the guest. logs and events then print an object for each line. console, send and ssh refuse
--json, because their output is a stream.

boot, halt, destroy and json are other names of start, stop, delete and get, as in vmadm. In
the global zone of SmartOS, bakeoff vm calls vmadm for each command that vmadm has.`,
		Example: `  sudo bakeoff vm run services/web -p 8080:80
  sudo bakeoff vm run alpine:3.20 --brand docker --name box -- sleep 1000
  sudo bakeoff vm list -o uuid,alias,state
  sudo bakeoff vm stop web
  sudo bakeoff vm delete web`,
	}
	var names []string
	for _, sub := range []*cobra.Command{a.vmRun(), a.vmCreate(), a.vmValidate(),
		a.vmUpdate(), a.vmApply(), a.vmList(), a.vmLookup(), a.vmGet(), a.vmStart(), a.vmStop(),
		a.vmReboot(), a.vmDelete(), a.vmConsole(), a.vmLogs(), a.vmExec(), a.vmSSH(), a.vmInfo(), a.vmKill(),
		a.vmCreateSnapshot(), a.vmRollbackSnapshot(), a.vmDeleteSnapshot(), a.vmNetwork(), a.vmSend(),
		a.vmReceive(), a.vmEvents(), a.vmScreenshot(), a.vmSysrq(), a.vmReprovision(), a.vmService()} {
		if also := vmadmNames[sub.Name()]; also != "" {
			sub.Aliases = []string{also}
		}
		c.AddCommand(guestExit(noJSON(a.orJSON(a.orVmadm(sub)))))
		names = append(names, sub.Name())
	}
	c.AddCommand(a.vmSupervise())
	cli.Group(c, "command", cli.OrList(names))
	return c
}

// changesGuest are the commands that change a guest and print no data of their own.
var changesGuest = []string{"start", "stop", "reboot", "delete", "kill", "reprovision", "create-snapshot",
	"rollback-snapshot", "delete-snapshot"}

// orJSON gives a command that changes a guest the flag --json, which prints the guest as it is then.
func (a *commands) orJSON(c *cobra.Command) *cobra.Command {
	if !slices.Contains(changesGuest, c.Name()) {
		return c
	}
	run, asJSON := c.RunE, false
	usage := "print the guest as one JSON object"
	switch c.Name() {
	case "start":
		usage += "; with --autoboot, print a list of guests"
	case "stop":
		usage += "; with --all, print a list of guests"
	}
	c.Flags().BoolVar(&asJSON, "json", false, usage)
	c.RunE = func(c *cobra.Command, args []string) error {
		if !asJSON {
			return run(c, args)
		}
		name, find := "", a.guestAsJSON
		if inGlobalZone(c.Context()) {
			find = (&vmadm{a, c, args}).asJSON
		}
		var before any
		var err error
		if len(args) > 0 {
			if name, before, err = find(args[0]); err != nil {
				return err
			}
		}
		if err := run(c, args); err != nil {
			return err
		}
		if name == "" {
			all, err := a.filteredGuests(nil, "uuid")
			if err != nil {
				return err
			}
			return a.PrintJSON(map[string]any{"schema": vmListSchema, "guests": append([]*vm.Guest{}, all...)})
		}
		_, after, err := find(name)
		if fault.Is(err, fault.NotFound) { // it was deleted, or removed itself
			after, err = before, nil
		}
		if err != nil {
			return err
		}
		return a.PrintJSON(map[string]any{"schema": vmGuestSchema, "guest": after})
	}
	return c
}

// guestAsJSON finds a guest, and returns its UUID and what is known of it.
func (a *commands) guestAsJSON(name string) (uuid string, g any, err error) {
	found, err := a.guest(name)
	if err != nil {
		return "", nil, err
	}
	return found.UUID, found, nil
}

// streams are the commands whose output is a stream, and what prints JSON in place of them.
var streams = map[string]string{"console": "use `bakeoff vm logs --json`", "ssh": "use `bakeoff vm exec --json`",
	"send": "use `bakeoff vm receive --json` at the other end"}

// noJSON lets a command whose output is a stream refuse the flag --json that the others have.
func noJSON(c *cobra.Command) *cobra.Command {
	instead := streams[c.Name()]
	if instead == "" {
		return c
	}
	asJSON := false
	c.Flags().BoolVar(&asJSON, "json", false, "")
	c.Flags().Lookup("json").Hidden = true
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if asJSON {
			return cli.Usage(c, errors.New("--json: the output of "+c.Name()+" is a stream; "+instead))
		}
		return nil
	}
	return c
}

// guestExit gives c the exit codes of vmadm: 2 for wrong usage, and 1 for every other error.
func guestExit(c *cobra.Command) *cobra.Command {
	run := c.RunE
	if run == nil { // a group
		return c
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		usage := err != nil && strings.HasSuffix(err.Error(), "see "+c.CommandPath()+" --help")
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) && !usage {
			return cli.Exit{Code: cli.ExitFailed, Text: err.Error()}
		}
		return err
	}
	return c
}
