// Package loop times work: a native workload is a Loop, and a Timed does its
// units of work for a given time and checks that the time grows with the work.
// The agent runs loops on the target.
package loop

import (
	"context"
	"io"

	"bakeoff/base/param"
	"bakeoff/reach/wire"
)

// Loop is a native workload: the part that runs on the target.
type Loop struct {
	Name   string
	Params []param.Spec
	// Check returns why no trial can have these parameters, of kind fault.Invalid; nil if every
	// value that Params permits is usable. It looks at nothing else: a plan asks, and the agent.
	Check func(p param.Values) error
	// Run does the work and verifies its result, and that its time scales
	// with its work. A failed check is an error.
	Run func(ctx context.Context, p param.Values, env Env) (wire.Result, error)
	// Prepare creates what Run needs, once per environment and cell; Reset
	// restores the documented state before each trial. Both are idempotent,
	// untimed, and nil if there is nothing to do.
	Prepare, Reset func(ctx context.Context, p param.Values, env Env) error
	// Children are the loop's child processes, by the hidden subcommand
	// with which the loop starts them from the same executable. They return
	// their exit code.
	Children map[string]func(args []string) int
}

// Env is the environment of a loop.
type Env struct {
	Dir string // a private directory of the loop; "" if none was given
	// Scratch is the environment's directory for unmeasured data that
	// outlive a process: that of the hash file; "" if none was given.
	Scratch string
	Log     io.Writer // for people
}
