package guests

import (
	"math"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
)

func (a *commands) vmSSH() *cobra.Command {
	return &cobra.Command{
		Use:   "ssh [USER@]GUEST [-- ARGUMENT...]",
		Short: "Connect to the SSH server of a guest",
		Long: `ssh connects to the SSH server of a running guest with the program ssh of this machine. It
passes the arguments after -- to ssh: options, and a command. It connects to the published
port 22 of the guest, or else to the address of a NIC in a network of bakeoff vm network.
ssh stores the host key under the UUID of the guest. The exit code is that of ssh.`,
		Example: `  sudo bakeoff vm ssh root@web
  sudo bakeoff vm ssh root@web -- -i key uname -a`,
		Args: cli.Between(1, math.MaxInt, "GUEST"),
		RunE: func(c *cobra.Command, args []string) error {
			user, name, ok := strings.Cut(args[0], "@")
			if !ok {
				user, name = "", args[0]
			}
			if ok && user == "" || strings.HasPrefix(user, "-") {
				return cli.Usage(c, fault.New(fault.Invalid, "%q has no user before the @", args[0]))
			}
			g, err := a.guest(name)
			if err != nil {
				return err
			}
			namespace, at, err := g.SSHServer()
			if err != nil {
				return err
			}
			argv := []string{"ssh", "-o", "HostKeyAlias=" + HostKey(g.UUID), "-p", strconv.Itoa(int(at.Port()))}
			if user != "" {
				argv = append(argv, "-l", user)
			}
			argv = append(append(argv, at.Addr().String()), args[1:]...)
			if namespace != "" {
				argv = append([]string{"nsenter", "--net=" + namespace, "--"}, argv...)
			}
			cmd := exec.CommandContext(c.Context(), argv[0], argv[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Direct(a.Out), a.Direct(a.Err)
			err = cmd.Run()
			if cmd.ProcessState != nil && cmd.ProcessState.Exited() && !cmd.ProcessState.Success() {
				return cli.Exit{Code: cmd.ProcessState.ExitCode()}
			}
			if err != nil && cmd.ProcessState == nil {
				return fault.WithFix(fault.Wrap(fault.Unsupported, "vm ssh", err), "apt-get install openssh-client util-linux")
			}
			return err
		},
	}
}

// HostKey is the name under which ssh stores the host key of a guest.
func HostKey(uuid string) string { return "bakeoff-" + uuid }
