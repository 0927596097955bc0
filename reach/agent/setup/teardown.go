package setup

import (
	"flag"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
)

// Teardown names what a Setup created for an environment on a Linux host. Run
// removes it on this machine; `bakeoff-agent teardown` removes it on another,
// in one process, because a program per step would take longer than the steps.
type Teardown struct {
	Netns string // name of the network namespace (ip(8)); "" is none
	Link  string // the interface in it that connects it; "" is none
	Dir   string // unmount everything on or below it; "" is nothing
}

// Argv returns the command for Run with the agent at path on the host. Missing
// objects are not an error.
func (r Teardown) Argv(path string) []string {
	return []string{path, "teardown", "--netns", r.Netns, "--link", r.Link, "--dir", r.Dir}
}

// RunTeardown is the subcommand `teardown`: it removes what its flags name.
func RunTeardown(c command.Call) int {
	var r Teardown
	fl := flag.NewFlagSet("teardown", flag.ContinueOnError)
	fl.SetOutput(c.Stderr)
	fl.StringVar(&r.Netns, "netns", "", "`name` of a network namespace")
	fl.StringVar(&r.Link, "link", "", "`name` of the interface in it that leads out")
	fl.StringVar(&r.Dir, "dir", "", "`directory`, absolute, below which everything is unmounted")
	if err := fl.Parse(c.Args); err != nil {
		return c.Fail(fault.Wrap(fault.Invalid, "teardown", err))
	}
	return c.Done(r.Run())
}
