package offline

import (
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/cli"
)

// A copy of a run folder measured nothing, so its samples are not exported again.
func TestExportLeavesOutCopies(t *testing.T) {
	dir, copied := earlier(t), earlier(t)
	want, _, _ := called(t, "export", dir)
	got, stderr, code := called(t, "export", dir, copied)
	if code != cli.ExitDone || got != want || !strings.Contains(stderr, copied+" is a copy of the run in "+dir) {
		t.Errorf("exit code %d, %d bytes, want %d: %s", code, len(got), len(want), stderr)
	}
}
