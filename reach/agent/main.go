// Package agent is the program on the target: one small static binary that
// runs native workloads, wraps any command with counters, reads the
// fingerprint, and is the init process of a guest or a container.
//
// What the program reads and prints is in package wire, the loops that it runs
// in package loop. The controller's ends of some subcommands are here, next to
// the subcommands: Entered, ViaHere, DialThrough, DialBy, Blocks.
package agent

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"bakeoff/reach/agent/bootlog"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/agent/container"
	"bakeoff/reach/agent/guestinit"
	"bakeoff/reach/agent/kvm"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/agent/setup"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// subcommand is what the agent's first argument names.
type subcommand struct {
	name    string
	summary string
	run     func(c command.Call) int
}

// commands returns the subcommands. Those that do not exist on this system are
// listed, too, and return an error.
func commands() []subcommand {
	return []subcommand{
		{"about", "print the agent's features and build, as JSON",
			func(c command.Call) int { return c.Print(Self(c.Loops)) }},
		{"work", "run a native workload and print its result", runWork},
		{"exec", "run a program and print its resource usage", runExec},
		{"terminal", "run a program in a terminal of its own", runTerminal},
		{"start", "start a program that continues to run after the command, and write its result to a file", runStart},
		{"probe", "print the fingerprint or the counters of this system, or what a program is", runProbe},
		{"enter", "execute a program in cgroups, namespaces and a root (Linux)",
			func(c command.Call) int { return c.Fail(container.Enter(c.Args)) }},
		{"tap", "make tap devices and execute a program that inherits them (Linux)", runTap},
		{"host", "serve this machine to one controller, on standard input and output", runHost},
		{"pause", "sleep as the first process of an environment",
			func(c command.Call) int { return container.Pause(c.Args, c.Stderr) }},
		{"container-init", "start programs as the first process of a container (Linux)",
			func(c command.Call) int { return c.Done(container.Init(c.Args, c.Stderr)) }},
		{"via", "ask a container's init process to start a program, with the streams of this process (Linux)",
			func(c command.Call) int { return c.Fail(container.Via(c.Args)) }},
		{"init", "run as process 1 of a guest", guestinit.Run},
		{"initramfs", "write the initial RAM disk of a guest", guestinit.RunInitramfs},
		{"boot-log", "print what this system recorded about its boot, as JSON", bootlog.Run},
		{"kvm-probe", "check whether KVM runs a guest on this machine", kvm.Run},
		{"setup", "create the network namespace and the root of an environment, described on standard input (Linux)",
			setup.Run},
		{"teardown", "remove the network namespace and the mounts of an environment (Linux)", setup.RunTeardown},
		{"put", "write standard input to a file, atomically", runPut},
		{"get", "print a file", runGet},
		{"dial", "connect standard input and output to an address", runDial},
		{"boot-events", "print the kernel's log and the processes that it recorded since it booted (Linux)",
			bootlog.RunEvents},
		{"list", "print the native workloads and their parameters", runList},
		{"serve", "serve one host after another on standard input and output, a device, or a TCP or vsock port, or dial " +
			"one",
			func(c command.Call) int { return serve.Run(c, guestinit.Functions()) }},
		{"subject", "run a helper of the drivers' test suite in an environment", runSubject},
	}
}

// Main runs the agent: args are the arguments without the program's name, loops
// the loops of `work`. It returns the exit code. As process 1 without a
// subcommand it is the init of a guest.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, loops []loop.Loop) int {
	all := commands()
	find := func(name string) int {
		return slices.IndexFunc(all, func(c subcommand) bool { return c.name == name })
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
			return all[i].run(command.Call{Stdin: stdin, Stdout: stdout, Stderr: stderr, Loops: loops})
		}
	}
	if i < 0 {
		fmt.Fprintln(stderr, "usage: bakeoff-agent COMMAND …")
		for _, c := range all {
			fmt.Fprintf(stderr, "  %-14s %s\n", c.name, c.summary)
		}
		return wire.ExitInvalid
	}
	return all[i].run(command.Call{Args: args[1:], Stdin: stdin, Stdout: stdout, Stderr: stderr, Loops: loops})
}

func runList(c command.Call) int {
	f, asJSON := c.Flags("list")
	if err := f.Parse(c.Args); err != nil {
		return wire.ExitInvalid
	}
	if *asJSON {
		type entry struct {
			Name   string `json:"name"`
			Params any    `json:"params"`
		}
		entries := []entry{}
		for _, l := range c.Loops {
			entries = append(entries, entry{l.Name, l.Params})
		}
		return c.Print(entries)
	}
	for _, l := range c.Loops {
		var names []string
		for _, p := range l.Params {
			names = append(names, p.Name+"="+p.Default)
		}
		fmt.Fprintf(c.Stdout, "%-10s %s\n", l.Name, strings.Join(names, " "))
	}
	return wire.ExitOK
}
