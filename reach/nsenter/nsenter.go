// Package nsenter executes programs in cgroups, namespaces and roots, and is the
// init process of a container. Every environment starts one or two such
// processes, and the start of a Go program is mostly the initialization of its
// packages. This package therefore imports nothing that initializes after the
// packages of other projects: no fmt, strings, net or golang.org/x/sys. An init
// function of the agent calls Early, which does the work before those packages
// initialize (the Go specification, "Program initialization").
package nsenter

import (
	"io/fs"
	"os"
)

// The exit codes of `bakeoff-agent enter` if it could not execute the program:
// those of shells and env(1).
const (
	Failed        = 125
	NotExecutable = 126
	NotFound      = 127
)

// Mark is the prefix of the line that enter prints if it could not execute the
// program.
const Mark = "bakeoff-agent enter: "

// SignalMark precedes the name of the signal that ended the program, in the
// last line of enter --report.
const SignalMark = "ended by signal: "

// Ready is what enter --await reads from standard input before it goes on, and
// what a container's init process writes when it serves.
const Ready = "ready\n"

// MakeOpen creates a directory with mode 1777. It has a temporary name until it
// has that mode.
func MakeOpen(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return os.Chmod(dir, 0o777|fs.ModeSticky)
	}
	up := parentOf(dir)
	if err := os.MkdirAll(up, 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(up, ".new-")
	if err == nil {
		err = os.Chmod(made, 0o777|fs.ModeSticky)
	}
	if err == nil {
		err = os.Rename(made, dir)
	}
	return err
}

// failure is an error with what failed.
type failure struct {
	what string
	err  error
}

func (f failure) Error() string { return f.what + ": " + f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// wrapFailure returns err, with what failed; nil stays nil.
func wrapFailure(what string, err error) error {
	if err == nil {
		return nil
	}
	return failure{what, err}
}
