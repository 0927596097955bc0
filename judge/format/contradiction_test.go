package format

import (
	"strings"
	"testing"

	"bakeoff/base/sample"
)

func TestStatsThatContradictTheirValues(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	values := []float64{3, 1, 2, 10}
	for _, c := range []struct {
		name  string
		stats Stats
		want  string // "" for no warning
	}{
		{"none", Stats{}, ""},
		{"equal", Stats{Mean: number(4), Median: number(2.5), Min: number(1), Max: number(10)}, ""},
		{"rounded", Stats{Mean: number(4.004), Median: number(2.495)}, ""},
		{"mean", Stats{Mean: number(4.1)}, `f:3: "x": the mean is 4.1 in the file, but its values give 4. `},
		{"median and max", Stats{Median: number(2), Max: number(11)},
			`f:3: "x": the median is 2 in the file, but its values give 2.5, ` +
				`the max is 11 in the file, but its values give 10. `},
		{"min", Stats{Min: number(-1)}, `f:3: "x": the min is -1 in the file, but its values give 1. `},
	} {
		var f File
		NewProblems("f").CompareStats(&f, 3, `"x"`, c.stats, values)
		if got := strings.Join(f.Warnings, "\n"); (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: warned %q, want %q", c.name, got, c.want)
		}
	}
	if values[0] != 3 {
		t.Error("the values were sorted")
	}
	var f File
	NewProblems("f").CompareStats(&f, 1, "x", Stats{Mean: number(1)}, nil)
	if len(f.Warnings) > 0 {
		t.Errorf("no values: %q", f.Warnings)
	}
}

// Statistics without values can contradict each other, too.
func TestStatsThatContradictEachOther(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name  string
		stats Stats
		want  string // "" for no warning
	}{
		{"all", Stats{Mean: number(4), Median: number(3.5), Stddev: number(1), Min: number(1), Max: number(10)}, ""},
		{"rounded", Stats{Mean: number(10.04), Max: number(10)}, ""},
		{"without a spread", Stats{Mean: number(4), Median: number(4.01), Stddev: number(0)}, ""},
		{"mean", Stats{Mean: number(11), Max: number(10)}, "f:3: m: the mean is 11, and the maximum is 10."},
		{"median", Stats{Median: number(1), Min: number(2)}, "f:3: m: the median is 1, and the minimum is 2."},
		{"spread", Stats{Mean: number(9), Median: number(4), Stddev: number(1)},
			"f:3: m: the mean is 9 and the median 4, which lie further apart than the standard deviation 1."},
	} {
		f := File{Records: []Record{{Line: 3, Series: []Series{{Metric: sample.Metric{Name: "m"}, Stats: &c.stats}}}}}
		out, err := NewProblems("f").Finish(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(out.Warnings, "\n"); (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: warned %q, want %q", c.name, got, c.want)
		}
	}
}
