// Package conn reaches a machine or an environment: it executes programs,
// transfers files and opens connections. Drivers and workloads access a host
// only through it.
package conn

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
)

// Conn is a connection to one operating system instance.
//
// Its methods may be called concurrently. An error that is not an Exit means
// that the connection itself failed, and has a fault.Kind.
type Conn interface {
	// Exec runs a program and waits for its end. It returns the exit
	// status: a program that ran and failed is not an error. When ctx ends
	// or the connection breaks, the program and everything it started are
	// killed. A missing executable is an error of kind fault.NotFound.
	Exec(ctx context.Context, cmd Cmd) (Exit, error)
	// Push writes the file dst (an absolute path) atomically, replacing an
	// existing one.
	Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error
	// Pull reads the file src (an absolute path). A missing file is an
	// error of kind fault.NotFound.
	Pull(ctx context.Context, src string, dst io.Writer) error
	// Dial opens a connection from inside, as net.Dial would there.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Cmd is a program with its arguments, never a shell string.
type Cmd struct {
	Argv []string // not empty; Argv[0] is looked up in the target's PATH
	Env  []string // NAME=VALUE, added to the target's own
	Dir  string   // "" is the target's default
	// Group is the directory of a cgroup (version 2) to start in, if the
	// connection and the target's kernel support it; "" is the caller's.
	// Starting in a group is cheap. A process that is moved later waits
	// until every CPU has passed through the scheduler. A caller that
	// depends on the group must check it, and move the process if
	// necessary.
	Group string
	// Stdin is read up to io.EOF; nil is empty.
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

// OK reports whether the program succeeded.
func (e Exit) OK() bool { return e.Code == 0 && e.Signal == "" }

// String describes how the program ended.
func (e Exit) String() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}
