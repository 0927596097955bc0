// Command bakeoff compares isolation technologies and systems, and shows its
// evidence.
//
// Each command has a file here or in a package below: offline if it needs nothing but a run folder
// or a table, archive, guests, images, install and site. They hold flags, texts and exit codes; the
// packages of the other wings do the work.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	_ "bakeoff/base/firstgc" // the program starts in two thirds of the CPU time
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/guests"
	"bakeoff/lab/hosts"
)

// version is set by the linker (-X main.version=…) in releases.
var version = "devel"

func main() {
	if leaveFIFO() {
		fmt.Fprintln(os.Stderr, "bakeoff: uses SCHED_RR with the same priority instead of SCHED_FIFO, "+
			"because a Go program can hang under SCHED_FIFO (use chrt -r)")
	}
	os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Main executes one command line and returns its exit code. It touches
// nothing of the process but its arguments, except for signals in run,
// calibrate and serve.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	a := &app{Streams: cli.NewStreams(stdin, stdout, stderr, env), at: hosts.Controller{Getenv: env},
		line: append([]string{"bakeoff"}, args...)}
	root := a.rootCommand()
	root.SetArgs(guests.SignalArgs(args))
	return a.Finish(root.ExecuteContext(ctx))
}
