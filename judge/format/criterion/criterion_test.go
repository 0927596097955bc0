package criterion

import (
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// target/criterion/*/change/estimates.json has ratios and not times. It lacks the deviations that those of times have.
func TestRelativeChanges(t *testing.T) {
	const point = `{"confidence_interval":{"confidence_level":0.95,"lower_bound":%,"upper_bound":%},` +
		`"point_estimate":%,"standard_error":0.004}`
	change := strings.ReplaceAll(`{"mean":`+point+`,"median":`+point+`}`, "%", "-0.031")
	formattest.Mistakes(t, New(), []formattest.Mistake{{Name: "change", Text: change,
		Want: `x:1: the estimates of "benchmark" are changes relative to an earlier run (folder change) and no times`}})
}
