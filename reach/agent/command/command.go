// Package command is what the subcommands of the agent share.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// Call is one invocation of a subcommand.
type Call struct {
	Args           []string // after the subcommand's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Loops          []loop.Loop
}

// Fail prints err and returns the exit code of its kind.
func (c Call) Fail(err error) int {
	fmt.Fprintln(c.Stderr, "bakeoff-agent: "+err.Error())
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

// Done is Fail if err is not nil, otherwise success.
func (c Call) Done(err error) int {
	if err == nil {
		return wire.ExitOK
	}
	return c.Fail(err)
}

// Print writes v as one line of JSON.
func (c Call) Print(v any) int {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = c.Stdout.Write(append(b, '\n'))
	}
	if err != nil {
		return c.Fail(fmt.Errorf("print the result: %w", err))
	}
	return wire.ExitOK
}

// Flags returns an empty set of flags for a subcommand with its --json.
func (c Call) Flags(name string) (*flag.FlagSet, *bool) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(c.Stderr)
	return f, f.Bool("json", false, "print JSON")
}

// Interruptible returns a context that ends on SIGINT, SIGTERM and SIGHUP, so
// that children are killed and temporary files removed.
func Interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// UsageError is an error of the command line.
func UsageError(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...)
}

// Classed returns err, as a fault.Subject if it has no kind: a failure during a
// loop on the target is the target's.
func Classed(err error) error {
	var e *fault.Error
	if errors.As(err, &e) {
		return err
	}
	return fault.Wrap(fault.Subject, "", err)
}

// LinuxOnly is the error of what other systems do not have: what, and "on Linux only".
func LinuxOnly(what string) error { return fault.New(fault.Unsupported, "%s on Linux only", what) }

// Root is the folder to which the paths of an environment lead: on Windows, that of the system's
// drive.
func Root() string {
	if runtime.GOOS == "windows" {
		return os.Getenv("SystemDrive") + `\`
	}
	return "/"
}
