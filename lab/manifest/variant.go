package manifest

import (
	"maps"
	"path"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
)

// CellOf returns the cell as a contender runs it: with the contender's own
// parameters for it.
func (c Contender) CellOf(cell Cell) Cell {
	if own := c.Params[cell.Name]; len(own) > 0 {
		params := param.Values{}
		maps.Copy(params, cell.Params)
		maps.Copy(params, own)
		cell.Params = params
	}
	return cell
}

// variants reads what makes contenders with the same environment differ: their
// own parameters of cells. Then it reports the parameters that nobody gave.
func (r *resolver) variants(l *Lab, root *yamltree.Node) {
	contenders := mappings(r.sub(root, "contenders", yamltree.Sequence))
	for i, n := range contenders {
		if t := r.sub(n, "params", yamltree.Mapping); t != nil {
			for _, e := range t.Entries {
				r.ownParams(l, &l.Contenders[i], e)
			}
		}
	}
	for i, n := range mappings(r.sub(root, "cells", yamltree.Sequence)) {
		r.required(l, l.Cells[i], n, contenders)
	}
}

// ownParams reads a contender's parameters for one cell.
func (r *resolver) ownParams(l *Lab, c *Contender, e yamltree.Entry) {
	cell, ok := lists.Find(l.Cells, func(cell Cell) bool { return cell.Name == e.Key.Text })
	if !ok {
		if !r.bad[e.Key] {
			r.noCell(l, e.Key)
		}
		return
	}
	w, ok := r.cat.workload(cell.Workload)
	if !ok || e.Value.Kind != yamltree.Mapping {
		return // reported
	}
	for _, p := range e.Value.Entries {
		i := slices.IndexFunc(w.Params, func(s param.Spec) bool { return s.Name == p.Key.Text })
		if i < 0 {
			known := lists.Map(w.Params, func(s param.Spec) string { return s.Name })
			r.fail(p.Key, yamltree.Meant(p.Key.Text, known), "workload %s has no parameter %s", w.Name,
				yamltree.Show(p.Key.Text))
			continue
		}
		s := w.Params[i]
		if r.bad[p.Value] || !r.check(specFields([]param.Spec{s})[0].shape, p.Value, s.Name+" of workload "+w.Name) {
			continue
		}
		r.absolute(w, s.Name, p.Value)
		if v, ok := r.value(s, p.Value); ok {
			if c.Params == nil {
				c.Params = map[string]param.Values{}
			}
			if c.Params[cell.Name] == nil {
				c.Params[cell.Name] = param.Values{}
			}
			c.Params[cell.Name][s.Name] = v
		}
	}
}

// maxPackages bounds the packages of one contender.
const maxPackages = 200

// packages reads the names of packages, and reports a name that is listed twice.
func (r *resolver) packages(n *yamltree.Node) (out []string) {
	if n == nil || n.Kind != yamltree.Sequence {
		return nil
	}
	if len(n.Items) > maxPackages && !r.bad[n] {
		r.fail(n, "list fewer", "there are more than %d packages", maxPackages)
	}
	for _, item := range n.Items {
		if r.bad[item] {
			continue
		}
		if slices.Contains(out, item.Text) {
			r.fail(item, "remove one of them", "the package %s is listed twice", yamltree.Show(item.Text))
		}
		out = append(out, item.Text)
	}
	slices.Sort(out)
	return out
}

// noCell reports a key that should be the name of a cell.
func (r *resolver) noCell(l *Lab, key *yamltree.Node) {
	all := lists.Map(l.Cells, func(c Cell) string { return c.Name })
	r.fail(key, yamltree.Meant(key.Text, all), "there is no cell %s", yamltree.Show(key.Text))
}

// absolute reports the path of a volume that is not absolute.
func (r *resolver) absolute(w WorkloadEntry, name string, at *yamltree.Node) {
	if w.Volume != "" && name == w.Volume && at != nil && !path.IsAbs(at.String()) {
		r.fail(at, "write an absolute path like /data", "%s is %s, and the path of a volume is absolute", w.Volume,
			yamltree.Show(at.String()))
	}
}

// required reports parameters of a cell without a default that neither the cell
// nor each contender gives.
func (r *resolver) required(l *Lab, cell Cell, at *yamltree.Node, contenders []*yamltree.Node) {
	w, _ := r.cat.workload(cell.Workload)
	params := at.Get("params")
	if params != nil && params.Kind != yamltree.Mapping {
		return // reported
	}
	for _, f := range specFields(w.Params) {
		if !f.required && !f.byImage || params.Get(f.name) != nil {
			continue
		}
		lack := indexes(contenders, func(n *yamltree.Node) bool { return n.Get("params").Get(cell.Name).Get(f.name) == nil })
		if f.byImage {
			lack = slices.DeleteFunc(lack, func(i int) bool {
				return r.cat.Starts == nil ||
					r.cat.Starts(l.Contenders[i].Image)
			})
		}
		if len(lack) == 0 {
			continue
		}
		switch {
		case len(lack) == len(contenders) && params == nil:
			r.Add(at.Position, "add params: {"+f.name+": …}", "a cell with workload %s needs the parameter %s", w.Name, f.name)
		case len(lack) == len(contenders):
			r.Add(params.Position, "add "+f.hint(), "params has no %s", f.name)
		}
		if len(lack) == len(contenders) {
			continue
		}
		for _, i := range lack {
			r.Add(contenders[i].Position, "add params: {"+cell.Name+": {"+f.name+": …}} to it, or "+f.name+" to the cell",
				"neither contender %s nor cell %[3]s sets %[2]s", yamltree.Show(l.Contenders[i].Name), f.name,
				yamltree.Show(cell.Name))
		}
	}
}
