package pytest

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A test from whose times some were removed, or whose statistics contradict the times, gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "modules.txtar", File: "modules.json", Old: `"rounds": 3,`, New: `"rounds": 30,`,
			Want: "is 30 in the file, which contradicts the number of its times: 3"},
	})
}
