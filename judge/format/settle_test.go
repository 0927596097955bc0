package format

import (
	"strings"
	"testing"

	"bakeoff/base/sample"
)

// fakeFormat is a format without a Settler.
type fakeFormat struct{ Format }

// Results with equal labels have the facts in their names by which those of one file and one place differ, if other
// files have the same values, so that their order has no effect. The others are numbered, with a warning.
func TestNamesByFacts(t *testing.T) {
	// A record is written as place and facts: "m1 version=1 cpu=x".
	file := func(records ...string) *File {
		f := &File{}
		for i, text := range records {
			words := strings.Fields(text)
			r := Record{Line: i + 1, Facts: map[string]string{}, Series: []Series{{Metric: sample.Metric{Name: "m"}}},
				Labels: []Label{{Name: "a", Value: "x"}, {Name: "place", Value: words[0], Place: true}}}
			for _, w := range words[1:] {
				name, v, _ := strings.Cut(w, "=")
				if name == "bs" {
					name = OptionFact + name
				}
				r.Facts[name] = v
			}
			f.Records = append(f.Records, r)
		}
		NewProblems("f").Distinguish(f, "a")
		return f
	}
	for name, c := range map[string]struct {
		files []*File
		want  string
	}{
		"another order": {[]*File{file("m v=1", "m v=2"), file("m v=2", "m v=1")}, "x v=1, x v=2; x v=2, x v=1"},
		"one of them":   {[]*File{file("m v=1", "m v=2"), file("m v=2")}, "x v=1, x v=2; x v=2"},
		"linked":        {[]*File{file("m v=1"), file("m v=2"), file("m v=1", "m v=2")}, "x v=1; x v=2; x v=1, x v=2"},
		"one file":      {[]*File{file("m v=1", "m v=2", "m v=1")}, "x v=1, x v=2, x v=1 #2"},
		"two places":    {[]*File{file("m v=1", "m v=2", "n v=1")}, "x v=1, x v=2, x v=1"},
		"what is compared": {[]*File{file("m v=1 cpu=a", "m v=1 cpu=b"), file("m v=2 cpu=b", "m v=2 cpu=a")},
			"x cpu=a, x cpu=b; x cpu=b, x cpu=a"},
		"nothing in common": {[]*File{file("m v=1", "m v=2"), file("m v=3", "m v=4")}, "x, x #2; x, x #2"},
		"no fact":           {[]*File{file("m v=1", "m v=1"), file("m v=2")}, "x, x #2; x"},
		"one unknown":       {[]*File{file("m v=1", "m v=2"), file("m")}, "x, x #2; x"},
		"options":           {[]*File{file("m bs=1", "m bs=2"), file("m bs=3", "m bs=4")}, "x bs=1, x bs=2; x bs=3, x bs=4"},
		"default option":    {[]*File{file("m bs=1", "m bs=2"), file("m")}, "x bs=1, x bs=2; x"},
		"no conflict":       {[]*File{file("m v=1"), file("m v=2")}, "x; x"},
	} {
		Settle(fakeFormat{}, c.files)
		var got []string
		for _, f := range c.files {
			var names []string
			for _, r := range f.Records {
				names = append(names, r.Labels[0].Value)
			}
			text := strings.Join(names, ", ")
			got = append(got, text)
			if f.SameLabels() != nil || (len(f.Warnings) > 0) != strings.Contains(text, "#") {
				t.Errorf("%s: %q, warnings %q", name, text, f.Warnings)
			}
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
	repeats := file("m v=1", "m v=2")
	repeats.Records[1].Repeats, repeats.Records[1].Labels = true, repeats.Records[0].Labels
	if Settle(fakeFormat{}, []*File{repeats, file("m v=1", "m v=2")}); repeats.Records[0].Labels[0].Value != "x" {
		t.Errorf("a repetition: %+v", repeats.Records)
	}
}
