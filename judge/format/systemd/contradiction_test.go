package systemd

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// Phases that do not add up to the total get a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "machine.txtar", File: "time.txt", Old: `986ms (kernel)`,
			New:  `1.986s (kernel)`,
			Want: `the total is 83.954 in the file, which contradicts the phases: 84.954`},
	})
}
