// Package suite lets a contract suite run in two places: under `go test`, and
// inside a program, on the machine of a user who wants to know whether a
// technology keeps its contract there.
package suite

import (
	"context"
	"flag"
)

// T is the part of testing.T that contract suites need, with the same meaning:
// Fatal, Fatalf, Skip and Skipf end the test by runtime.Goexit and must be
// called from its goroutine.
type T interface {
	Reporter
	// Run runs f as a test within this one, and reports whether it passed.
	Run(name string, f func(T)) bool
	// Short reports whether to leave out tests that take long.
	Short() bool
}

// Reporter is what testing.T and testing.B have in common.
type Reporter interface {
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
	// TempDir returns a directory that is removed at the end of the test.
	TempDir() string
}

// GoTest is satisfied by *testing.T. Naming its methods instead of the type
// keeps package testing out of the program, which runs these suites too.
type GoTest[U any] interface {
	Reporter
	Run(name string, f func(U)) bool
}

// Under returns a *testing.T as a T.
func Under[U GoTest[U]](t U) T { return under[U]{t, t} }

type under[U GoTest[U]] struct {
	Reporter
	test U
}

func (u under[U]) Run(name string, f func(T)) bool {
	u.Helper()
	return u.test.Run(name, func(t U) { f(Under(t)) })
}

func (under[U]) Short() bool { return Short() }

// Short reports what testing.Short does: whether `go test` was given -short.
func Short() bool {
	f := flag.Lookup("test.short")
	return f != nil && f.Value.String() == "true"
}
