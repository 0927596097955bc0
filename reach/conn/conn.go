// Package conn reaches a machine or an environment: it executes programs,
// moves files and opens connections. Everything that a driver or a workload
// does to a host goes through it.
package conn

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
)

// Conn is a way into one operating system instance.
//
// Its methods may be called concurrently. An error that is not an Exit means
// that the way itself failed, and has a fault.Kind.
type Conn interface {
	// Exec runs a program to its end. It returns the way it ended: a
	// program that ran and failed is not an error. When ctx ends, or the
	// way breaks, the program and all that it started are killed. An
	// executable that does not exist is an error of kind fault.NotFound.
	Exec(ctx context.Context, cmd Cmd) (Exit, error)
	// Push writes the file dst (absolute), whole or not at all, replacing
	// what was there.
	Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error
	// Pull reads the file src (absolute). A file that does not exist is an
	// error of kind fault.NotFound.
	Pull(ctx context.Context, src string, dst io.Writer) error
	// Dial opens a connection from inside, as net.Dial would there.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Cmd is a program with its arguments, never a shell string.
type Cmd struct {
	Argv []string // at least one; Argv[0] is looked up in the target's PATH
	Env  []string // NAME=VALUE, added to the target's own
	Dir  string   // "" is the target's default
	// Group is the directory of a control group of version 2 to start in,
	// where the way and the target's kernel can do that; "" is the caller's.
	// It costs nothing there, while a process that is moved to another group
	// later waits until every CPU has passed through the scheduler. What
	// depends on it looks, and moves.
	Group string
	// Stdin ends with io.EOF; nil is empty.
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil discards
}

// Command returns a Cmd for argv.
func Command(argv ...string) Cmd { return Cmd{Argv: argv} }

// Exit is how a program ended.
type Exit struct {
	Code   int    `json:"code"`             // 128+signal where a signal ended it
	Signal string `json:"signal,omitempty"` // "killed", "segmentation fault"
}

// OK reports whether the program ended well.
func (e Exit) OK() bool { return e.Code == 0 && e.Signal == "" }

// String says how the program ended.
func (e Exit) String() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}
