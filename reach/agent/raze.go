package agent

import (
	"flag"

	"bakeoff/base/fault"
)

// Razing is what an environment on a Linux host stood on, the other end of a
// Ground. Raze takes it away on this machine, and `bakeoff-agent raze` in one
// process on another: a program for each step would take longer than the steps.
type Razing struct {
	Netns string // what ip(8) knows the network namespace by; "" is none
	Link  string // the interface in it that leads out; "" is none
	Dir   string // whatever is mounted on or below it; "" is nothing
}

// Argv returns the command that does it, with the agent at path on the host.
// What is not there is fine.
func (r Razing) Argv(path string) []string {
	return []string{path, "raze", "--netns", r.Netns, "--link", r.Link, "--dir", r.Dir}
}

// runRaze takes away what its flags name.
func runRaze(c call) int {
	var r Razing
	fl := flag.NewFlagSet("raze", flag.ContinueOnError)
	fl.SetOutput(c.stderr)
	fl.StringVar(&r.Netns, "netns", "", "`name` of a network namespace")
	fl.StringVar(&r.Link, "link", "", "`name` of the interface in it that leads out")
	fl.StringVar(&r.Dir, "dir", "", "`directory`, absolute, below which everything is unmounted")
	if err := fl.Parse(c.args); err != nil {
		return c.fail(fault.Wrap(fault.Invalid, "raze", err))
	}
	return c.done(r.Raze())
}
