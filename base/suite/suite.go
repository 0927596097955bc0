// Package suite lets a contract suite run in two places: under `go test`, and
// inside a program on the machine of somebody who wants to know whether a
// technology keeps its contract there.
package suite

import (
	"context"
	"testing"
)

// T is what a suite says its findings to. It is the part of testing.T that
// contract suites need, and means the same: Fatal, Fatalf, Skip and Skipf end
// the test by runtime.Goexit and must be called from its goroutine.
type T interface {
	Helper()
	Name() string // with those of the tests around it, divided by slashes
	// Context ends before the functions of Cleanup run.
	Context() context.Context
	Log(args ...any)
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Skipf(format string, args ...any)
	Failed() bool
	// Cleanup registers f to run when the test and those in it have ended,
	// the last one first.
	Cleanup(f func())
	// TempDir is a directory that goes with the test.
	TempDir() string
	// Run runs f as a test within this one, and tells whether it went well.
	Run(name string, f func(T)) bool
	// Short tells that what takes long is to be left out.
	Short() bool
}

// Under returns t as a T.
func Under(t *testing.T) T { return under{t} }

type under struct{ *testing.T }

func (u under) Run(name string, f func(T)) bool {
	u.Helper()
	return u.T.Run(name, func(t *testing.T) { f(under{t}) })
}

func (u under) Short() bool { return testing.Short() }
