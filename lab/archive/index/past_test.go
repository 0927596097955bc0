package index

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/judge/history"
	"bakeoff/lab/archive/bundle"
)

// Copies of a run do not count for the number of runs that Past reads.
func TestPastCountsRunsAndNotCopies(t *testing.T) {
	x, err := Open(t.Context(), filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for n, day := range []int{1, 2, 3, 3, 3} {
		e := Entry{Bundle: fmt.Sprintf("sha256:%064x", n), Past: &history.Run{Lab: "lab"}, Record: bundle.Record{
			Run: fmt.Sprint("run-", n), Lab: "lab", JournalSHA256: fmt.Sprintf("%064x", day),
			Began: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)}}
		if err := x.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for lab, want := range map[string]int{"": 4, "lab": 4, "other": 0} {
		runs, lacking, err := x.Past(t.Context(), Filter{Lab: lab, Most: 2})
		if err != nil || len(runs) != want || len(lacking) > 0 {
			t.Errorf("lab %q: %d runs, %d without values, %v", lab, len(runs), len(lacking), err)
		}
	}
}
