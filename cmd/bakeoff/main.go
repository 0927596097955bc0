// Command bakeoff compares isolation technologies and systems, and shows its
// evidence.
//
// Each command has a file of its own, here or in the package reading, which
// holds those that need nothing but a run folder. What they do is in packages
// that others can import; flags, texts and exit codes are here and in cli.
package main

import (
	"context"
	"io"
	"os"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/fleet"
)

// version is set by the linker (-X main.version=…) in releases.
var version = "devel"

func main() {
	os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Main executes one command line and returns its exit code. It touches
// nothing of the process but its arguments, except for signals in run,
// calibrate and serve.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	a := &app{Streams: cli.NewStreams(stdin, stdout, stderr, env), at: fleet.Controller{Getenv: env}}
	root := a.root()
	root.SetArgs(args)
	return a.Finish(root.ExecuteContext(ctx))
}
