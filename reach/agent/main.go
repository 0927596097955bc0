// Package agent is the program on the target: one small static binary that
// runs native workloads, wraps any command with counters, reads the
// fingerprint, and is the init process of a guest or a container.
//
// What the program reads and prints is in package wire, the loops that it runs
// in package loop. The controller's ends of some subcommands are here, next to
// the subcommands: Entered, ViaHere, DialThrough, Blocks.
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

// commands returns the subcommands. One that exists on some systems only is
// listed everywhere and says so when it is called.
func commands() []command {
	return []command{
		{"about", "print what this agent can and from what it was built, as JSON", func(c call) int { return c.print(Self(c.loops)) }},
		{"work", "run a native workload and print its result", runWork},
		{"exec", "run a program and print what it spent", runExec},
		{"probe", "print the fingerprint or the counters of this system", runProbe},
		{"enter", "execute a program inside control groups, namespaces and a root (Linux)", func(c call) int { return c.fail(Enter(c.args)) }},
		{"host", "give this machine to one controller, on standard input and output", runHost},
		{"pause", "do nothing, as the first process of an environment", func(c call) int { return Pause(c.args, c.stderr) }},
		{"container-init", "start programs, as the first process of a container (Linux)", func(c call) int { return c.done(ContainerInit(c.args, c.stderr)) }},
		{"via", "ask a container's init process to start a program, with the streams of this process (Linux)", func(c call) int { return c.fail(Via(c.args)) }},
		{"init", "be process 1 of a guest", runInit},
		{"initramfs", "write the initial RAM disk of a guest", runInitramfs},
		{"kvm-probe", "tell whether KVM runs a guest here", runKVMProbe},
		{"setup", "make the network namespace and the root of an environment as standard input describes them (Linux)", runSetup},
		{"teardown", "remove the network namespace and the mounts of an environment (Linux)", runTeardown},
		{"put", "write standard input to a file, whole or not at all", runPut},
		{"get", "print a file", runGet},
		{"dial", "connect standard input and output to an address", runDial},
		{"list", "print the native workloads and their parameters", runList},
		{"serve", "answer one host after the other: on standard input and output, a device, a TCP or vsock port", runServe},
		{"subject", "be what the contract suite of drivers runs inside an environment", runSubject},
	}
}

// Main runs the agent: args are the arguments without the program's name,
// loops what `work` can run. It returns the exit code.
//
// As process 1 with no subcommand it is the init of a guest.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, loops []loop.Loop) int {
	all := commands()
	find := func(name string) int {
		return slices.IndexFunc(all, func(c command) bool { return c.name == name })
	}
	i := -1
	if len(args) > 0 {
		// Other processes of a loop come first: their start is part of what is
		// measured.
		for _, l := range loops {
			if run, ok := l.Children[args[0]]; ok {
				return run(args[1:])
			}
		}
		i = find(args[0])
	}
	// A kernel hands its init whatever it could not use of its own command
	// line, so process 1 is init unless a subcommand was asked for.
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

// fail prints err and returns the exit code of its class.
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

// done is fail, and success where there is no error.
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
// that children are killed and files removed.
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

// classed returns err as it is when it has a class, and as a failure of what
// is measured when it has none: on the target, what goes wrong while a loop
// works is the target's.
func classed(err error) error {
	var e *fault.Error
	if errors.As(err, &e) {
		return err
	}
	return fault.Wrap(fault.Subject, "", err)
}
