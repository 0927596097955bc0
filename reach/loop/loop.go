// Package loop times work: a native workload is a Loop, and a Timed does its
// units of work for a stated time and checks that the time grows with the work.
// It has no connections: the agent runs loops on the target, and what calls the
// agent is elsewhere.
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
	// Run does the work and checks itself: it verifies its answer, and that
	// its time scales with its work. A failed check is an error.
	Run func(ctx context.Context, p param.Values, env Env) (wire.Result, error)
	// Prepare makes what Run needs, once an environment and cell; Reset
	// brings it back to the stated state before each trial. Both are
	// idempotent, untimed, and nil where there is nothing to do.
	Prepare, Reset func(ctx context.Context, p param.Values, env Env) error
	// Children are the other processes of the loop, by the name of the hidden
	// subcommand with which the loop starts them from the same executable.
	// They return their exit code.
	Children map[string]func(args []string) int
}

// Env is what a loop is given.
type Env struct {
	Dir string // a directory that is the loop's alone; "" if none was given
	// Scratch is the environment's own place for what outlives a process and
	// is not measured: that of the hash file; "" if none was given.
	Scratch string
	Log     io.Writer // for people
}
