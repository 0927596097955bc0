package manifest

import (
	"slices"

	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
)

// profiles checks every profile and applies the chosen one.
func (r *resolver) profiles(l *Lab, root *yamltree.Node, base sources) {
	n := r.sub(root, "profiles", yamltree.Mapping)
	l.Profiles = []string{}
	if n != nil {
		for _, e := range n.Entries {
			l.Profiles = append(l.Profiles, e.Key.Text)
			if e.Value.Kind != yamltree.Mapping {
				continue
			}
			chosen := e.Key.Text == l.Profile
			d := r.design(l, append(sources{r.sub(e.Value, "design", yamltree.Mapping)}, base...))
			if chosen {
				l.Design = d
			}
			every := indexes(l.Cells, func(Cell) bool { return true })
			r.profileParams(l, every, r.sub(e.Value, "params", yamltree.Mapping), chosen)
			r.profileCells(l, r.sub(e.Value, "cells", yamltree.Mapping), chosen)
			r.profileVolumes(l, r.sub(e.Value, "volumes", yamltree.Mapping), chosen)
		}
	}
	slices.Sort(l.Profiles)
	for _, cell := range mappings(r.sub(root, "cells", yamltree.Sequence)) {
		list := r.sub(cell, "profiles", yamltree.Sequence)
		if list == nil || r.bad[list] {
			continue
		}
		if len(list.Items) == 0 {
			r.fail(list, "name a profile, or remove the cell", "profiles is empty, so no run has the cell")
		}
		for _, item := range list.Items {
			if !r.bad[item] && !slices.Contains(l.Profiles, item.Text) {
				r.fail(item, yamltree.Meant(item.Text, l.Profiles), "there is no profile %s", yamltree.Show(item.Text))
			}
		}
	}
	if l.Profile != "" && !slices.Contains(l.Profiles, l.Profile) {
		at := yamltree.Position{Line: 1, Column: 1}
		if n != nil {
			at = n.Position
		}
		fix := yamltree.Meant(l.Profile, l.Profiles)
		if len(l.Profiles) == 0 {
			fix = "the lab file has no profiles: remove --profile"
		}
		r.Add(at, fix, "there is no profile %s", yamltree.Show(l.Profile))
	}
}

// indexes are those of the items that f is true of.
func indexes[T any](items []T, f func(T) bool) []int {
	var out []int
	for i, item := range items {
		if f(item) {
			out = append(out, i)
		}
	}
	return out
}

// profileCells sets parameters in the cells that are named.
func (r *resolver) profileCells(l *Lab, n *yamltree.Node, apply bool) {
	if n == nil {
		return
	}
	for _, e := range n.Entries {
		of := indexes(l.Cells, func(c Cell) bool { return c.Name == e.Key.Text })
		if len(of) == 0 {
			r.noCell(l, e.Key)
		} else if e.Value.Kind == yamltree.Mapping {
			r.profileParams(l, of, e.Value, apply)
		}
	}
}

// profileVolumes sets the sizes of volumes.
func (r *resolver) profileVolumes(l *Lab, n *yamltree.Node, apply bool) {
	if n == nil {
		return
	}
	for _, e := range n.Entries {
		used := false
		size, _ := unit.ParseBytes(e.Value.String()) // 0 was found wrong already
		var known []string
		for i, c := range l.Contenders {
			// Contenders may share what defaults says.
			volumes := slices.Clone(c.Volumes)
			for j := range volumes {
				known = append(known, volumes[j].Path)
				if volumes[j].Path == e.Key.Text && volumes[j].Size > 0 {
					used = true
					volumes[j].Size = size
				}
			}
			if apply && size > 0 {
				l.Contenders[i].Volumes = volumes
			}
		}
		if !used {
			slices.Sort(known)
			r.fail(e.Key, yamltree.Meant(e.Key.Text, slices.Compact(known)), "no contender has a volume %s with a size",
				yamltree.Show(e.Key.Text))
		}
	}
}

// profileParams sets parameters in those of the cells whose workload has them.
func (r *resolver) profileParams(l *Lab, of []int, n *yamltree.Node, apply bool) {
	if n == nil {
		return
	}
	for _, e := range n.Entries {
		var known []string
		used := false
		for _, i := range of {
			cell := l.Cells[i]
			w, ok := r.cat.workload(cell.Workload)
			if !ok {
				used = true // which parameters it has is not known
			}
			for _, s := range w.Params {
				known = append(known, s.Name)
				if s.Name != e.Key.Text {
					continue
				}
				used = true
				f := specFields([]param.Spec{s})[0]
				if r.bad[e.Value] || !r.check(f.shape, e.Value, s.Name+" of workload "+w.Name) {
					continue
				}
				if v, ok := r.value(s, e.Value); ok && apply {
					l.Cells[i].Params[s.Name] = v
				}
			}
		}
		if !used {
			slices.Sort(known)
			r.fail(e.Key, yamltree.Meant(e.Key.Text, slices.Compact(known)), "no cell's workload has a parameter %s",
				yamltree.Show(e.Key.Text))
		}
	}
}
