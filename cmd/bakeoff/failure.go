package main

import (
	"cmp"
	"fmt"
	"strings"

	"bakeoff/base/shell"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/session"
	"bakeoff/lab/store"
)

// missingProgram says how contenders get a program that PATH does not have; "" if that was
// not the reason. try has flags for the keys of a lab file.
func missingProgram(reason string, try bool) string {
	if !strings.Contains(reason, "executable file not found in $PATH") {
		return ""
	}
	files, packages := "files", "packages"
	if try {
		files, packages = "--file", "--package"
	}
	return fmt.Sprintf("Use an image that has the program, or place it with %s. In images that bakeoff builds, such as "+
		"debian:bookworm, install it with %s.", files, packages)
}

// maxFailures is the number of failures that failures prints; the page has all.
const maxFailures = 5

// failures prints for each cell that never succeeded how its program ended and the
// last lines that it printed. anyway says how to measure a program in spite of its exit
// code.
func (a *app) failures(s *session.Session, r analysis.Results, anyway string) error {
	if len(r.Missing) == 0 || !s.Started() {
		return nil
	}
	run, err := store.Open(s.Dir)
	if err != nil {
		return err
	}
	defer run.Close()
	all, err := evidence.Failures(run, r)
	if err != nil {
		return err
	}
	for i, f := range all {
		if i == maxFailures {
			fmt.Fprintf(a.Err, "bakeoff: … and %d more failures; see the page\n", len(all)-i)
			break
		}
		where := fmt.Sprintf("cell %s failed in every trial in %s", f.Cell, strings.Join(f.Contenders, ", "))
		if f.Argv == nil {
			fmt.Fprintf(a.Err, "bakeoff: %s: %s\n", where, f.Reason)
			if fix := missingProgram(f.Reason, anyway != ""); fix != "" {
				fmt.Fprintln(a.Err, "  "+fix)
			}
			continue
		}
		ended := fmt.Sprintf("exit code %d", f.Code)
		if f.Signal != "" {
			ended = "signal: " + f.Signal
		}
		if !f.Unexpected && f.Signal == "" {
			ended = f.Reason
		}
		fmt.Fprintf(a.Err, "bakeoff: %s: %s: %s\n", where, shell.Quote(f.Argv...), ended)
		for _, line := range f.Stderr {
			fmt.Fprintln(a.Err, "  | "+line)
		}
		if f.Unexpected {
			inLab := fmt.Sprintf("If exit code %d is not a failure, set the parameter exit of the cell to any or to %d.", f.Code,
				f.Code)
			fmt.Fprintln(a.Err, "  "+cmp.Or(anyway, inLab))
		}
	}
	return nil
}
