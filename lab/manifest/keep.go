package manifest

import (
	"maps"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
)

// Keep leaves only the cells that are named, in the order of the lab file, and
// notes that in Only; without names it leaves those of the profile. A name that is not a cell
// gives an error of kind fault.Invalid. A profile without cells gives one, too.
func (l *Lab) Keep(names []string) error {
	if len(names) == 0 {
		return l.keepProfile()
	}
	all := lists.Map(l.Cells, func(c Cell) string { return c.Name })
	for _, n := range names {
		if !slices.Contains(all, n) {
			return fault.WithFix(fault.New(fault.Invalid, "%s has no cell %s", l.Path, yamltree.Show(n)), "use "+
				yamltree.OneOf(all))
		}
	}
	l.keep(names)
	l.Only = lists.Map(l.Cells, func(c Cell) string { return c.Name })
	return nil
}

// keepProfile leaves the cells that are part of a run with the profile.
func (l *Lab) keepProfile() error {
	cells := lists.Filter(l.Cells, func(c Cell) bool {
		return c.Profiles == nil || slices.Contains(c.Profiles, l.Profile)
	})
	if len(cells) == len(l.Cells) {
		return nil
	}
	if len(cells) == 0 {
		return fault.WithFix(fault.New(fault.Invalid, "in the lab file %s, no cell belongs to this profile", l.Path),
			"use --profile, or --only with a cell, or remove profiles from a cell")
	}
	l.keep(lists.Map(cells, func(c Cell) string { return c.Name }))
	return nil
}

// keep removes all other cells, and what contenders have for them.
func (l *Lab) keep(names []string) {
	l.Cells = slices.DeleteFunc(slices.Clone(l.Cells), func(c Cell) bool { return !slices.Contains(names, c.Name) })
	l.Contenders = slices.Clone(l.Contenders)
	for i, c := range l.Contenders {
		if c.Params == nil {
			continue
		}
		own := maps.Clone(c.Params)
		maps.DeleteFunc(own, func(cell string, _ param.Values) bool { return !slices.Contains(names, cell) })
		l.Contenders[i].Params = own
	}
}
