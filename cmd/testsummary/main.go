// Command testsummary reads what `go test -json` prints and says it shortly:
// a line a package, everything that a failed test said, at the end every
// skipped test under its reason, and the counts.
//
//	go test -json ./... | go run ./cmd/testsummary [package...]
//
// The input may be that of several calls of go test. A package that is named as
// an argument and does not end in the input counts as failed.
//
// With -refuse REGEXP a test that skipped for a reason that matches counts as
// failed: where everything is to be installed, a missing package is a failure.
// With -v it prints what the tests say while they run.
// It exits 1 when something failed, and 2 when its input is not what go test
// prints.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
)

func main() {
	refuse := flag.String("refuse", "", "count tests that skipped for a reason that matches this `regexp` as failed")
	verbose := flag.Bool("v", false, "print what the tests say while they run")
	flag.Parse()
	os.Exit(run(os.Stdin, os.Stdout, *refuse, *verbose, flag.Args()...))
}

func run(in io.Reader, out io.Writer, refuse string, verbose bool, packages ...string) int {
	s := newSummary()
	s.verbose = verbose
	if refuse != "" {
		re, err := regexp.Compile(refuse)
		if err != nil {
			fmt.Fprintln(out, "testsummary: -refuse:", err)
			return 2
		}
		s.refuse = re
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.line(line, out)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Fprintln(out, "testsummary:", err)
			return 2
		}
	}
	return s.end(out, packages)
}
