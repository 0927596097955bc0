package analysis

import (
	"reflect"
	"testing"

	"bakeoff/base/sample"
)

// A fact that is meant to differ for one contender is a confounder of the others.
func TestMeantForOneContender(t *testing.T) {
	d := &Data{
		Facts: map[string]map[string]string{"base": {"version": "1", "kernel": "6"}, "own": {"version": "2", "kernel": "6"},
			"other": {"version": "2", "kernel": "6"}},
		MeantFor: map[string][]string{"own": {"version"}},
	}
	if got := d.confounders("own", "base", sample.Metric{}); len(got) != 0 {
		t.Errorf("own: %v", got)
	}
	want := []Confounder{{"version", "1", "2"}}
	if got := d.confounders("other", "base", sample.Metric{}); !reflect.DeepEqual(got, want) {
		t.Errorf("other: %v", got)
	}
}
