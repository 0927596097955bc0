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
