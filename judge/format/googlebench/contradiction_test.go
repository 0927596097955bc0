package googlebench

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A mean or median that contradicts the repetitions gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "rep.txtar", File: "rep.json", Old: `"real_time": 1.0760882275008044e+00`,
			New:  `"real_time": 2.0760882275008044e+00`,
			Want: `real_time of the mean of "Sort/64" is 2.07609 in the file, which contradicts its repetitions: 1.07609`},
		{Archive: "rep.txtar", File: "rep.json", Old: `"real_time": 1.2132015200040769e+00`,
			New:  `"real_time": 5.2132015200040769e+00`,
			Want: `real_time of the mean of`},
	})
}
