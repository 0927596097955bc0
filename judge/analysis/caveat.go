package analysis

import (
	"slices"
	"strings"
)

// caveats gives comparisons the caveats of their trials: once if both sides have
// the same, otherwise with the name of the side.
func (d *Data) caveats(comparisons []Comparison) {
	type side struct{ contender, cell string }
	all := map[side][]string{}
	for i := range d.Observations {
		o := &d.Observations[i]
		if at := (side{o.Contender, o.Cell}); o.Caveat != "" && !slices.Contains(all[at], o.Caveat) {
			all[at] = append(all[at], o.Caveat)
		}
	}
	if len(all) == 0 {
		return
	}
	text := func(at side) string {
		slices.Sort(all[at])
		return strings.Join(all[at], "; ")
	}
	for i := range comparisons {
		c := &comparisons[i]
		us, them := text(side{c.Contender, c.Cell}), text(side{c.Baseline, c.Cell})
		switch {
		case us == them:
			c.Caveat = us
		case us == "":
			c.Caveat = c.Baseline + ": " + them
		case them == "":
			c.Caveat = c.Contender + ": " + us
		default:
			c.Caveat = c.Contender + ": " + us + "; " + c.Baseline + ": " + them
		}
	}
}
