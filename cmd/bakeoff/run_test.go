package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
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
		{"each block is void", analysis.Results{Ended: analysis.EndedBlocks, Void: 34, Missing: missing}, exitFailed},
		{"one block counts", analysis.Results{Ended: analysis.EndedBlocks, Void: 33, Blocks: 1, Missing: missing}, exitMissing},
		{"somebody stopped it", analysis.Results{Ended: analysis.EndedInterrupted, Void: 1, Missing: missing}, exitMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &session{app: &app{stdout: io.Discard, stderr: io.Discard, env: func(string) string { return "" }}, runFlags: runFlags{json: true}}
			err := s.conclude(c.r)
			if got := exitCode(err); got != c.want {
				t.Errorf("exit code %d, want %d: %v", got, c.want, err)
			}
		})
	}
}

// A write that failed is said once, whether the command noticed it or not.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full := errors.New("no space left on device")
	o := &output{w: failing{full}}
	if _, err := io.WriteString(o, "a table"); !errors.Is(err, full) {
		t.Fatalf("Write: %v", err)
	}
	unnoticed := o.joined(nil)
	if exitCode(unnoticed) != exitFailed || !strings.Contains(unnoticed.Error(), "standard output") {
		t.Errorf("a failure that nobody noticed: %v", unnoticed)
	}
	noticed := fault.Wrap(fault.Lab, "export", full)
	if got := o.joined(noticed); got != noticed {
		t.Errorf("a failure that was noticed: %v", got)
	}
	if err := (&output{w: io.Discard}).joined(nil); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// What was left over after the last look is not said to come after a decision.
func TestUnusedBlocksAreToldByWhatLeftThem(t *testing.T) {
	r := analysis.Results{Unused: 8, Looks: []int{8, 18}, Comparisons: []analysis.Comparison{
		{Primary: true, Verdict: analysis.Equivalent}, {Primary: true, Verdict: analysis.Inconclusive}}}
	if got := unusedText(r); got != "unused: 8 blocks after the last look, which is after 18: --looks names others" {
		t.Error(got)
	}
	r.Comparisons = r.Comparisons[:1]
	if got := unusedText(r); got != "unused: 8 blocks after the look that decided" {
		t.Error(got)
	}
}
