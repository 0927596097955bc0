package guests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/wire"
)

// guestVerb is a command for one guest.
func (a *commands) guestVerb(use, short, long, example string,
	do func(ctx context.Context, g *vm.Guest) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cli.Between(1, 1, "GUEST"),
		RunE: a.onGuest(func(ctx context.Context, _ *cobra.Command, g *vm.Guest, _ []string) error { return do(ctx, g) })}
}

// onGuest is a command's work on the guest that its first argument names; do gets the other
// arguments. The context ends when a signal comes.
func (a *commands) onGuest(do func(ctx context.Context, c *cobra.Command, g *vm.Guest, args []string) error) func(
	*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		g, err := a.guest(args[0])
		if err != nil {
			return err
		}
		ctx, stop := a.Interruptible(c.Context())
		defer stop()
		return do(ctx, c, g, args[1:])
	}
}

func (a *commands) vmGet() *cobra.Command {
	return alwaysJSON(a.guestVerb("get GUEST", "Print a guest as JSON",
		"get prints the manifest and the state of a guest.", "  bakeoff vm get web | jq .state",
		func(_ context.Context, g *vm.Guest) error { return a.PrintJSON(g) }))
}

func (a *commands) vmStart() *cobra.Command {
	var autoboot bool
	c := &cobra.Command{
		Use:   "start GUEST [order=cdn[,once=cdn]] [cdrom=FILE,MODEL] [disk=FILE,MODEL]",
		Short: "Start a guest, or all guests with autoboot",
		Long: `start does nothing if the guest runs already. --autoboot starts all stopped guests that have
the property autoboot; an init system calls it when the machine boots. If a guest does not
start, --autoboot reports it and starts the other guests.

The following arguments are for machines of brand kvm. They apply until the machine stops,
or until vm reboot starts it again:

  order=cdn         what the firmware tries to start: disks (c), CD drives (d), NICs (n)
  order=cd,once=d   as above; the order once applies until the guest restarts itself
  cdrom=FILE,MODEL  a further CD drive with this image; MODEL is ide, scsi or virtio
  disk=FILE,MODEL   a further disk`,
		Example: "  sudo bakeoff vm start web\n  sudo bakeoff vm start --autoboot\n" +
			"  sudo bakeoff vm start box order=cd,once=d cdrom=/srv/rescue.iso,ide",
		Args: func(c *cobra.Command, args []string) error {
			if autoboot || len(args) == 0 {
				return oneOrAll(&autoboot, "--autoboot")(c, args)
			}
			_, err := vm.ParseExtra(args[1:])
			if err != nil {
				err = cli.Usage(c, err)
			}
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			var x vm.Extra
			if len(args) > 0 {
				var err error
				if x, err = vm.ParseExtra(args[1:]); err != nil {
					return err
				}
			}
			return a.eachGuest(c, args, func(g *vm.Guest) bool { return g.Autoboot },
				func(ctx context.Context, g *vm.Guest) error {
					runs, why := g.Supervisor != 0, "runs already"
					if !x.IsEmpty() {
						why += "; stop it first to start it with " + strings.Join(args[1:], " ")
					}
					return a.sayDone(g, "started", runs, why, g.StartWith(ctx, x, a.launch))
				})
		},
	}
	c.Flags().BoolVar(&autoboot, "autoboot", false, "start all guests with autoboot")
	return c
}

// oneOrAll accepts one GUEST, or with the flag none.
func oneOrAll(all *bool, flag string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if *all != (len(args) == 0) || len(args) > 1 {
			return cli.Usage(c, errors.New("write one GUEST, or "+flag))
		}
		return nil
	}
}

// eachGuest does something with the guest that args name, or without one with all that want
// says; an error of one does not keep it from the others.
func (a *commands) eachGuest(c *cobra.Command, args []string, want func(*vm.Guest) bool,
	do func(context.Context, *vm.Guest) error) error {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	if len(args) > 0 {
		g, err := a.guest(args[0])
		if err != nil {
			return err
		}
		return do(ctx, g)
	}
	s, err := a.guests()
	if err != nil {
		return err
	}
	all, err := s.List()
	for _, g := range all {
		if !want(g) || ctx.Err() != nil {
			continue
		}
		if derr := do(ctx, g); derr != nil {
			err = errors.Join(err, fault.Op("guest "+g.UUID, derr))
		}
	}
	return err
}

// sayDone says what a command has done with a guest, or why there was nothing to do.
func (a *commands) sayDone(g *vm.Guest, done string, nothing bool, why string, err error) error {
	switch {
	case err != nil:
	case nothing:
		fmt.Fprintf(a.Err, "no change: VM %s %s\n", g.UUID, why)
	default:
		fmt.Fprintf(a.Err, "Successfully %s VM %s\n", done, g.UUID)
	}
	return err
}

// grace is the value of a flag with a time. A number is in seconds, as for vmadm.
type grace time.Duration

// Set implements pflag.Value.
func (g *grace) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.Atoi(text); nerr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 || d > maxGrace {
		return fmt.Errorf("the time must be between 0 and %v, such as 90s or 90", maxGrace)
	}
	*g = grace(d)
	return nil
}

// String implements pflag.Value.
func (g *grace) String() string {
	if *g == 0 {
		return "0"
	}
	return time.Duration(*g).String()
}

// Type implements pflag.Value; it is that of the flag in help and completions.
func (g *grace) Type() string { return "time" }

// maxGrace is the longest time that a guest gets to shut down.
const maxGrace = 24 * time.Hour

// addStopFlags adds the flags that say how a guest is ended.
func addStopFlags(c *cobra.Command, how *vm.Stop) *cobra.Command {
	c.Flags().BoolVarP(&how.Force, "force", "F", false, "kill the guest at once")
	c.Flags().VarP((*grace)(&how.Grace), "timeout", "t",
		"kill the guest after this time, such as 90s or 90; 0 means 180s for machines, "+
			"10s for the brand docker, and 60s for other containers")
	return c
}

func (a *commands) vmStop() *cobra.Command {
	var how vm.Stop
	c := &cobra.Command{
		Use:   "stop GUEST",
		Short: "Shut a guest down, or all guests",
		Long: `stop presses the power button of a machine, or sends SIGTERM to the program of a container.
It also clears the property autoboot, so the guest does not start when this machine boots.
--all stops all guests and keeps autoboot; an init system calls it when the machine stops.`,
		Example: "  sudo bakeoff vm stop web\n  sudo bakeoff vm stop -t 5s web\n  sudo bakeoff vm stop --all",
		Args:    oneOrAll(&how.KeepAutoboot, "--all"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.eachGuest(c, args, func(g *vm.Guest) bool { return g.Supervisor != 0 },
				func(ctx context.Context, g *vm.Guest) error {
					rests := g.Supervisor == 0 && g.State != vm.Failed && (how.KeepAutoboot || !g.Autoboot)
					return a.sayDone(g, "stopped", rests, "does not run", g.Stop(ctx, how))
				})
		},
	}
	c.Flags().BoolVar(&how.KeepAutoboot, "all", false, "shut all guests down, and leave autoboot as it is")
	return addStopFlags(c, &how)
}

func (a *commands) vmReboot() *cobra.Command {
	var how vm.Stop
	return addStopFlags(a.guestVerb("reboot GUEST", "Shut a guest down and start it again", "reboot shuts a "+
		"running guest down and starts it again.",
		"  sudo bakeoff vm reboot web", func(ctx context.Context, g *vm.Guest) error {
			return a.sayDone(g, "rebooted", false, "", g.Reboot(ctx, how))
		}), &how)
}

func (a *commands) vmDelete() *cobra.Command {
	return a.guestVerb("delete GUEST", "End a guest and remove it with its disks", "delete ends a guest and "+
		"removes it with its disks. It does not ask for confirmation.",
		"  sudo bakeoff vm delete web", func(ctx context.Context, g *vm.Guest) error {
			return a.sayDone(g, "deleted", false, "", g.Delete(ctx))
		})
}

func (a *commands) vmConsole() *cobra.Command {
	return a.guestVerb("console GUEST", "Connect the terminal to the console of a guest",
		`console connects the terminal to the serial line of a machine, or to the program of a
container. If the container has the property tty, console connects to the terminal of the
program; otherwise it connects to the standard streams of the program. console first prints
the last lines that the guest printed before. ^] leaves the console; the guest continues to
run.`,
		"  sudo bakeoff vm console web",
		func(ctx context.Context, g *vm.Guest) error {
			_, err := a.attach(ctx, g, g.Printed(scrollback))
			return err
		})
}

// leave is the key that leaves a console: ^].
const leave = 0x1d

// scrollback bounds what a console shows of the time before, in bytes.
const scrollback = 4 << 10

// attach connects the streams of this command to the console of a guest, after a text. ended tells
// that the console ended, and not that the user or a signal left it.
func (a *commands) attach(ctx context.Context, g *vm.Guest, before string) (ended bool, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", g.Path(qemu.SocketConsole))
	if err != nil {
		return false, fault.WithFix(fault.Op("console", err), "run `bakeoff vm start "+g.UUID+
			"`, or see `bakeoff vm logs`")
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := io.WriteString(a.Out, before); err != nil {
		return false, err
	}
	if f, ok := terminalOf(a.In); ok {
		old, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return false, fault.Op("console", err)
		}
		defer term.Restore(int(f.Fd()), old)
		if g.TTY {
			stop, err := followSize(f, func(s wire.Size) error { return g.Resize(ctx, s) })
			if err != nil {
				fmt.Fprintln(a.Err, "console:", err)
			}
			defer stop()
		}
	}
	go func() {
		buf := make([]byte, 1024)
		for {
			n, err := a.In.Read(buf)
			if i := slices.Index(buf[:n], leave); i >= 0 {
				_, _ = c.Write(buf[:i])
				c.Close()
				return
			}
			if _, werr := c.Write(buf[:n]); werr != nil || err != nil {
				return // the end of the input does not end the console
			}
		}
	}()
	if _, err = io.Copy(a.Out, c); errors.Is(err, net.ErrClosed) {
		return false, nil
	}
	return true, err
}

// infoKinds are the kinds of information about a machine of QEMU, and the commands of its monitor. The
// others are bakeoff's own.
var infoKinds = map[string]string{"status": "query-status", "block": "query-block", "blockstats": "query-blockstats",
	"chardev": "query-chardev", "cpus": "query-cpus-fast", "kvm": "query-kvm", "version": "query-version",
	"uuid": "query-uuid", "pci": "query-pci", "spice": "query-spice", "vnc": "query-vnc", "consoles": "",
	"filesystems": ""}

// infoKindsOf are the kinds that a machine has. Firecracker has none.
func infoKindsOf(g *vm.Guest) []string {
	switch g.Driver {
	case manifest.DriverBhyve:
		return []string{"filesystems", "vnc"}
	case manifest.Firecracker:
		return nil
	}
	return slices.Sorted(maps.Keys(infoKinds))
}

func (a *commands) vmInfo() *cobra.Command {
	c := &cobra.Command{
		Use:   "info GUEST [KIND...]",
		Short: "Print what the hypervisor says about a machine, as JSON",
		Long: `info prints what the hypervisor says about a running machine. KIND is one of block,
blockstats, chardev, cpus, kvm, pci, spice, status, uuid, version, vnc (the answers of
QEMU), consoles (the sockets of the property consoles) and filesystems (the folders of the
host that the guest can mount, and the commands that mount them). Without KIND, or with all,
info prints all kinds. A machine of bhyve has only the kinds filesystems and vnc, and a
machine of Firecracker has none.`,
		Example: "  sudo bakeoff vm info web status\n  sudo bakeoff vm info web consoles filesystems",
		Args:    cli.Between(1, 2+len(infoKinds), "GUEST"),
		RunE: a.onGuest(func(ctx context.Context, c *cobra.Command, g *vm.Guest, kinds []string) (err error) {
			for _, k := range kinds {
				if _, ok := infoKinds[k]; !ok && k != "all" {
					return cli.Usage(c, fmt.Errorf("unknown kind %q", k))
				}
			}
			if !g.Brand.Machine() || g.State != vm.Running && g.State != vm.Stopping {
				return fault.New(fault.Unsupported, "info needs a running virtual machine; the guest %s has the brand "+
					"%s and the state %s", g.UUID, g.Brand,
					g.State)
			}
			has := infoKindsOf(g)
			if len(has) == 0 {
				return fault.WithFix(fault.New(fault.Unsupported, "driver %s provides no information about running "+
					"machines", g.Driver),
					"use `bakeoff vm get`")
			}
			if len(kinds) == 0 || slices.Contains(kinds, "all") {
				kinds = has
			}
			out := map[string]any{}
			for _, k := range kinds {
				if !slices.Contains(has, k) {
					return fault.WithFix(fault.New(fault.Unsupported, "driver %s provides no information about %s", g.Driver, k),
						"use "+yamltree.OneOf(has))
				}
				if out[k], err = infoOf(ctx, g, k); err != nil {
					return err
				}
			}
			return a.PrintJSON(out)
		}),
	}
	return alwaysJSON(c)
}

// alwaysJSON gives a command that prints JSON in any case the flag --json that the others have.
func alwaysJSON(c *cobra.Command) *cobra.Command {
	c.Flags().Bool("json", false, "print one JSON object, as without this flag")
	return c
}

// infoOf is the information of a kind about a machine that runs.
func infoOf(ctx context.Context, g *vm.Guest, kind string) (v any, err error) {
	switch kind {
	case "consoles":
		return g.ConsoleSockets(), nil
	case "filesystems":
		all, err := g.Mounts()
		return append([]vm.Mount{}, all...), err
	}
	if g.Driver == manifest.DriverBhyve { // vnc, in the words of QEMU
		at, err := netip.ParseAddrPort(g.VNC)
		if err != nil {
			return map[string]bool{"enabled": false}, nil
		}
		return map[string]any{"enabled": true, "host": at.Addr().String(), "service": strconv.Itoa(int(at.Port()))}, nil
	}
	err = g.Monitor(ctx, infoKinds[kind], nil, &v)
	var refused *qemu.MonitorError
	if kind == "spice" && errors.As(err, &refused) && refused.Class == "CommandNotFound" {
		return map[string]bool{"enabled": false}, nil // this QEMU was built without it
	}
	return v, err
}

// signals are the names that kill takes.
var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	"KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM,
	"CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP}

// SignalArgs writes -SIGNAL of vm kill, such as -HUP or -9, as -s SIGNAL: flags have one letter.
func SignalArgs(args []string) []string {
	if len(args) < 3 || args[0] != "vm" || args[1] != "kill" {
		return args
	}
	out := slices.Clone(args[:2])
	for _, arg := range args[2:] {
		name, ok := strings.CutPrefix(arg, "-")
		_, known := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
		if _, err := strconv.Atoi(name); ok && (known || err == nil) {
			out = append(out, "-s", name)
			continue
		}
		out = append(out, arg)
	}
	return out
}

func (a *commands) vmKill() *cobra.Command {
	name := "TERM"
	c := a.guestVerb("kill GUEST", "Send a signal to the program of a container, or end a machine",
		"kill sends a signal to the program of a container. For a machine, the signal must be TERM, which presses\nthe "+
			"power button of the machine, or KILL. -SIGNAL is short for -s SIGNAL.",
		"  sudo bakeoff vm kill -s HUP web\n  sudo bakeoff vm kill -9 web",
		func(ctx context.Context, g *vm.Guest) error {
			n, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
			if v, err := strconv.Atoi(name); err == nil && v > 0 && v < 65 {
				n, ok = syscall.Signal(v), true
			}
			if !ok {
				return fault.New(fault.Invalid, "-s must be the name or the number of a signal (got %q)", name)
			}
			return g.Kill(ctx, int(n))
		})
	c.Flags().StringVarP(&name, "signal", "s", name, "name or number of the signal")
	return c
}
