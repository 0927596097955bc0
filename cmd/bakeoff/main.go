// Command bakeoff compares isolation technologies and systems, and shows its
// evidence.
//
// Each command has a file of its own; app.go has what they share, exit.go
// the one place where errors become exit codes.
package main

import (
	"io"
	"os"
)

// version is set by the linker (-X main.version=…) in releases.
var version = "devel"

func main() {
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Main executes one command line and returns its exit code. It touches
// nothing of the process but what it is given, signals in run and serve
// excepted.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	out := &output{w: stdout}
	a := &app{stdin: stdin, stdout: out, stderr: &output{w: stderr}, env: env}
	root := a.root()
	root.SetArgs(args)
	return a.finish(out.joined(root.Execute()))
}
