package bonnie

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A table that contradicts the line of CSV after it gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "table.txtar", File: "both.txt", Old: "191k", New: "291k",
			Want: "char-write of the table is 297984 in the file, which contradicts the line of CSV: 195584"},
	})
}
