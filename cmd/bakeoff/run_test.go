package main

import (
	"io"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/lab/hosts"
	"bakeoff/lab/session"
	"bakeoff/lab/trial"
)

// A laboratory in which every block was void has measured nothing: that is its
// own failure, and not a contender that is missing.
func TestNothingWasMeasured(t *testing.T) {
	missing := []analysis.Missing{{Contender: "crun", Cell: "sha", Reason: "no space left on device"}}
	for _, c := range []struct {
		name string
		r    analysis.Results
		want int
	}{
		{"each block is void", analysis.Results{Ended: analysis.EndedBlocks, Void: 34, Missing: missing}, cli.ExitFailed},
		{"one block counts", analysis.Results{Ended: analysis.EndedBlocks, Void: 33, Blocks: 1, Missing: missing},
			cli.ExitMissing},
		{"somebody stopped it", analysis.Results{Ended: analysis.EndedInterrupted, Void: 1, Missing: missing},
			cli.ExitMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newApp(io.Discard, "")
			err := a.conclude(&session.Session{}, runFlags{json: true}, trial.Outcome{Results: c.r}, 0)
			if got := cli.ExitCode(err); got != c.want {
				t.Errorf("exit code %d, want %d: %v", got, c.want, err)
			}
		})
	}
}

// A program that an image lacks gets advice.
func TestMissingProgram(t *testing.T) {
	const reason = `run: command: argv: cannot be started: bakeoff-agent: exec: "seq": executable file not found in $PATH`
	for _, c := range []struct {
		reason string
		try    bool
		want   string
	}{
		{reason, true, "place it with --file. In images that bakeoff builds, such as debian:bookworm, install it with " +
			"--package."},
		{reason, false, "place it with files. In images that bakeoff builds, such as debian:bookworm, install it with " +
			"packages."},
		{"run: command: argv: permission denied", true, ""},
	} {
		got := missingProgram(c.reason, c.try)
		if !strings.HasSuffix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q: %q, want %q", c.reason, got, c.want)
		}
	}
}

// newApp is a program whose state is in a folder of the test.
func newApp(out io.Writer, state string) *app {
	getenv := func(name string) string {
		switch name {
		case "BAKEOFF_STATE":
			return state
		case "BAKEOFF_LOCK":
			return state + ".lock"
		}
		return ""
	}
	return &app{Streams: cli.NewStreams(strings.NewReader(""), out, io.Discard, getenv),
		at: hosts.Controller{Getenv: getenv}}
}
