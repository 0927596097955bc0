package storetest

import (
	"path/filepath"
	"testing"
	"time"

	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// Create makes the run folder of a lab file, whose plan has the seed 1, in a temporary folder.
// The run is open until the test ends.
func Create(t testing.TB, lab string, cat manifest.Catalogue) (*store.Run, *plan.Plan) {
	t.Helper()
	l, err := manifest.Parse("bakeoff.yaml", []byte(lab), cat, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(l, cat, 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	text, err := plan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	run, err := store.Create(filepath.Join(t.TempDir(), "run"), time.Unix(0, 0), []byte(lab), text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	return run, p
}

// AppendTrial writes the raw output of a trial that succeeded, and its line. The trial gets its
// position, its cell and the names of the raw files.
func AppendTrial(t testing.TB, run *store.Run, s plan.Slot, trial store.Trial, raw map[string][]byte) {
	t.Helper()
	files, err := run.WriteRaw(s, raw)
	if err != nil {
		t.Fatal(err)
	}
	trial.Position, trial.Cell, trial.Raw = s.Position, s.Cell, files
	AppendLine(t, run, store.Line{Type: store.LineTrial, At: time.Unix(1, 0), Block: s.Block, Contender: s.Contender,
		Status: store.OK, Trial: &trial})
}

// AppendLine writes a line of the journal.
func AppendLine(t testing.TB, run *store.Run, line store.Line) {
	t.Helper()
	if err := run.Append(line); err != nil {
		t.Fatal(err)
	}
}
