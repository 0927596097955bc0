package countboot

import (
	"slices"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot/advice"
	"bakeoff/measure/boot/linux"
)

// withEvidence returns knobs with what a boot with SpanWords says about them, and one more
// for each advice whose kernel argument none of them sets. If the console cannot be read,
// it returns knobs unchanged.
func withEvidence(knobs []Knob, b Boot) []Knob {
	r, err := linux.New().Read("console", b.Console)
	if err != nil {
		return knobs
	}
	return advised(knobs, advice.Find(r))
}

// advised is withEvidence for this advice.
func advised(knobs []Knob, all []bootmodel.Advice) []Knob {
	out := slices.Clone(knobs)
	for _, a := range all {
		if a.Argument == "" {
			continue
		}
		i := slices.IndexFunc(out, func(k Knob) bool { return slices.Contains(k.Append, a.Argument) })
		if i < 0 {
			i = len(out)
			out = append(out, Knob{Name: a.Name, Why: a.Knob, Append: []string{a.Argument}})
		}
		out[i].Evidence = a.Text
	}
	return out
}
