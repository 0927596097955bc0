package agent

import (
	"flag"

	"bakeoff/base/fault"
)

// Teardown names what a Setup made for an environment on a Linux host. Run
// removes it on this machine, and `bakeoff-agent teardown` in one process on
// another: a program for each step would take longer than the steps.
type Teardown struct {
	Netns string // what ip(8) knows the network namespace by; "" is none
	Link  string // the interface in it that leads out; "" is none
	Dir   string // whatever is mounted on or below it; "" is nothing
}

// Argv returns the command that does it, with the agent at path on the host.
// What is not there is fine.
func (r Teardown) Argv(path string) []string {
	return []string{path, "teardown", "--netns", r.Netns, "--link", r.Link, "--dir", r.Dir}
}

// runTeardown removes what its flags name.
func runTeardown(c call) int {
	var r Teardown
	fl := flag.NewFlagSet("teardown", flag.ContinueOnError)
	fl.SetOutput(c.stderr)
	fl.StringVar(&r.Netns, "netns", "", "`name` of a network namespace")
	fl.StringVar(&r.Link, "link", "", "`name` of the interface in it that leads out")
	fl.StringVar(&r.Dir, "dir", "", "`directory`, absolute, below which everything is unmounted")
	if err := fl.Parse(c.args); err != nil {
		return c.fail(fault.Wrap(fault.Invalid, "teardown", err))
	}
	return c.done(r.Run())
}
