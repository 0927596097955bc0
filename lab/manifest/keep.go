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
// notes that in Only; without names it leaves all. A name that is not a cell
// gives an error of kind fault.Invalid.
func (l *Lab) Keep(names []string) error {
	if len(names) == 0 {
		return nil
	}
	all := lists.Map(l.Cells, func(c Cell) string { return c.Name })
	for _, n := range names {
		if !slices.Contains(all, n) {
			return fault.WithFix(fault.New(fault.Invalid, "%s has no cell %s", l.Path, yamltree.Show(n)), "use "+
				yamltree.OneOf(all))
		}
	}
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
	l.Only = nil
	for _, c := range l.Cells {
		l.Only = append(l.Only, c.Name)
	}
	return nil
}
