// Package agent is the program on the target: one small static binary that
// runs native workloads, wraps any command with counters, reads the
// fingerprint, and is the init process of a guest or a container.
//
// What the program reads and prints is in package wire, the loops that it runs
// in package loop. The controller's ends of some subcommands are here, next to
// the subcommands: Entered, ViaHere, DialThrough, DialBy, Blocks.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// command is a subcommand of the agent.
type command struct {
	name    string
	summary string
	run     func(c call) int
}

// call is one invocation of a subcommand.
type call struct {
	args           []string // after the subcommand's name
	stdin          io.Reader
	stdout, stderr io.Writer
	loops          []loop.Loop
}

// commands returns the subcommands. Those that do not exist on this system are
// listed, too, and return an error.
func commands() []command {
	return []command{
		{"about", "print the agent's features and build, as JSON", func(c call) int { return c.print(Self(c.loops)) }},
		{"work", "run a native workload and print its result", runWork},
		{"exec", "run a program and print its resource usage", runExec},
		{"probe", "print the fingerprint or the counters of this system, or what a program is", runProbe},
		{"enter", "execute a program in cgroups, namespaces and a root (Linux)",
			func(c call) int { return c.fail(Enter(c.args)) }},
		{"host", "serve this machine to one controller, on standard input and output", runHost},
		{"pause", "sleep as the first process of an environment", func(c call) int { return Pause(c.args, c.stderr) }},
		{"container-init", "start programs as the first process of a container (Linux)",
			func(c call) int { return c.done(ContainerInit(c.args, c.stderr)) }},
		{"via", "ask a container's init process to start a program, with the streams of this process (Linux)",
			func(c call) int { return c.fail(Via(c.args)) }},
		{"init", "run as process 1 of a guest", runInit},
		{"initramfs", "write the initial RAM disk of a guest", runInitramfs},
		{"boot-log", "print what this system recorded about its boot, as JSON", runBootLog},
		{"kvm-probe", "check whether KVM runs a guest on this machine", runKVMProbe},
		{"setup", "create the network namespace and the root of an environment, described on standard input (Linux)",
			runSetup},
		{"teardown", "remove the network namespace and the mounts of an environment (Linux)", runTeardown},
		{"put", "write standard input to a file, atomically", runPut},
		{"get", "print a file", runGet},
		{"dial", "connect standard input and output to an address", runDial},
		{"boot-events", "print the kernel's log and the processes that it recorded since it booted (Linux)", runBootEvents},
		{"list", "print the native workloads and their parameters", runList},
		{"serve", "serve one host after another on standard input and output, a device, or a TCP or vsock port, or dial " +
			"one",
			runServe},
		{"subject", "run a helper of the drivers' test suite in an environment", runSubject},
	}
}

// Main runs the agent: args are the arguments without the program's name, loops
// the loops of `work`. It returns the exit code. As process 1 without a
// subcommand it is the init of a guest.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, loops []loop.Loop) int {
	all := commands()
	find := func(name string) int {
		return slices.IndexFunc(all, func(c command) bool { return c.name == name })
	}
	i := -1
	if len(args) > 0 {
		// Child processes of a loop come first, because their start is
		// measured.
		for _, l := range loops {
			if run, ok := l.Children[args[0]]; ok {
				return run(args[1:])
			}
		}
		i = find(args[0])
	}
	// A kernel passes unknown parts of its command line to init, so process
	// 1 is init unless a subcommand is given.
	if i < 0 && os.Getpid() == 1 {
		if i = find("init"); i >= 0 {
			return all[i].run(call{nil, stdin, stdout, stderr, loops})
		}
	}
	if i < 0 {
		fmt.Fprintln(stderr, "usage: bakeoff-agent COMMAND …")
		for _, c := range all {
			fmt.Fprintf(stderr, "  %-14s %s\n", c.name, c.summary)
		}
		return wire.ExitInvalid
	}
	return all[i].run(call{args[1:], stdin, stdout, stderr, loops})
}

// fail prints err and returns the exit code of its kind.
func (c call) fail(err error) int {
	fmt.Fprintln(c.stderr, "bakeoff-agent: "+err.Error())
	switch fault.Of(err) {
	case fault.Subject:
		return wire.ExitSubject
	case fault.Invalid:
		return wire.ExitInvalid
	case fault.Unsupported:
		return wire.ExitUnsupported
	case fault.NotFound:
		return wire.ExitNotFound
	}
	return wire.ExitLab
}

// done is fail if err is not nil, otherwise success.
func (c call) done(err error) int {
	if err == nil {
		return wire.ExitOK
	}
	return c.fail(err)
}

// print writes v as one line of JSON.
func (c call) print(v any) int {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = c.stdout.Write(append(b, '\n'))
	}
	if err != nil {
		return c.fail(fmt.Errorf("print the result: %w", err))
	}
	return wire.ExitOK
}

// flags returns an empty set of flags for a subcommand with its --json.
func (c call) flags(name string) (*flag.FlagSet, *bool) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(c.stderr)
	return f, f.Bool("json", false, "print JSON")
}

// interruptible returns a context that ends on SIGINT, SIGTERM and SIGHUP, so
// that children are killed and temporary files removed.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

func runList(c call) int {
	f, asJSON := c.flags("list")
	if err := f.Parse(c.args); err != nil {
		return wire.ExitInvalid
	}
	if *asJSON {
		type entry struct {
			Name   string `json:"name"`
			Params any    `json:"params"`
		}
		entries := []entry{}
		for _, l := range c.loops {
			entries = append(entries, entry{l.Name, l.Params})
		}
		return c.print(entries)
	}
	for _, l := range c.loops {
		var names []string
		for _, p := range l.Params {
			names = append(names, p.Name+"="+p.Default)
		}
		fmt.Fprintf(c.stdout, "%-10s %s\n", l.Name, strings.Join(names, " "))
	}
	return wire.ExitOK
}

// usageError is an error of the command line.
func usageError(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...)
}

// classed returns err, as a fault.Subject if it has no kind: a failure during a
// loop on the target is the target's.
func classed(err error) error {
	var e *fault.Error
	if errors.As(err, &e) {
		return err
	}
	return fault.Wrap(fault.Subject, "", err)
}
