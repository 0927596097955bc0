package manifest

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
	"bakeoff/judge/analysis"
)

const (
	sweepPattern = `[A-Za-z][A-Za-z0-9_-]{0,39}`
	sweepRule    = "write the name of the setting that changes, like threads"
)

// sweepShape is the shape of a sweep: one name with its values.
func sweepShape() *shape {
	values := &shape{kind: eitherOf, either: []*shape{listOf(one(param.Text)), fieldsOf(
		field{name: "from", doc: "First value.", shape: one(param.Number), required: true},
		field{name: "to", doc: "Bound of the values.", shape: one(param.Number), required: true},
		field{name: "step", doc: "Difference between two values.", shape: one(param.Number), def: "1"},
	)}}
	return mapOf(text(sweepPattern, sweepRule), values).eg("{threads: [1, 2, 4]}")
}

// sweep is a sweep of the lab file that was found right.
type sweep struct {
	at     *yamltree.Node // the name of what changes
	values []*yamltree.Node
	room   *int // bytes that texts with values may still take
}

// maxFilled bounds the texts with values of one file, in bytes: a short file could
// otherwise ask for more than any memory holds.
const maxFilled = 8 << 20

// marker is what a value replaces in a text.
func (s *sweep) marker() string { return "{" + s.at.Text + "}" }

// sweeps replaces every contender that is swept with one contender for each
// value, and returns the new tree. It does not change the nodes of the file. A
// sweep that is wrong stays in the tree, and the check of its shape reports it.
func (r *resolver) sweeps(root *yamltree.Node) *yamltree.Node {
	contenders, cells := r.sub(root, "contenders", yamltree.Sequence), r.sub(root, "cells", yamltree.Sequence)
	if contenders == nil || cells == nil || len(cells.Items) > maxCells {
		return root
	}
	of, scope, ok := r.sweepOfCells(mappings(cells))
	if !ok {
		return root
	}
	var items []*yamltree.Node
	swept := false
	r.room = maxFilled
	for _, n := range contenders.Items {
		if len(items) > maxContenders { // too many already, which is reported
			items = append(items, n)
			continue
		}
		own := r.sweepOf(n)
		switch {
		case own != nil && of != nil:
			r.fail(own.at, "sweep only one of them", "a contender and a cell are both swept")
			items = append(items, n)
		case own != nil:
			items, swept = append(items, r.made(n, own, mappings(cells), true)...), true
		case of != nil && n.Kind == yamltree.Mapping && name.Valid(n.Get("name").String(), name.Max):
			items, swept = append(items, r.made(n, of, scope, false)...), true
		default:
			items = append(items, n)
		}
	}
	if !swept {
		return root
	}
	out := with(root, "contenders", &yamltree.Node{Position: contenders.Position, Kind: yamltree.Sequence, Items: items})
	if of != nil {
		rest := &yamltree.Node{Position: cells.Position, Kind: yamltree.Sequence}
		for _, c := range cells.Items {
			rest.Items = append(rest.Items, without(c, "sweep"))
		}
		out = with(out, "cells", rest)
	}
	r.unfilled(mappings(cells), items)
	return out
}

// sweepOf returns the sweep of a contender or of a cell; nil if it has none, or a
// wrong one.
func (r *resolver) sweepOf(n *yamltree.Node) *sweep {
	if n.Kind != yamltree.Mapping || n.Get("sweep") == nil {
		return nil
	}
	at := n.Get("sweep")
	quiet := checker{Reporter: &yamltree.Reporter{}, bad: map[*yamltree.Node]bool{}}
	if !quiet.check(sweepShape(), at, "sweep") || !name.Valid(n.Get("name").String(), name.Max) {
		return nil // the check of the file reports it
	}
	if len(at.Entries) != 1 {
		r.fail(at, "write one name; for each value of another setting, write a contender", "sweep has %d names",
			len(at.Entries))
		return nil
	}
	e := at.Entries[0]
	s := &sweep{at: e.Key, values: e.Value.Items, room: &r.room}
	if e.Value.Kind == yamltree.Mapping {
		s.values = r.between(e.Value)
	} else if len(s.values) == 0 || len(s.values) > maxContenders {
		r.fail(e.Value, "write at least one value, and at most "+strconv.Itoa(maxContenders), "sweep has %d values",
			len(s.values))
		return nil
	}
	seen := map[string]bool{}
	for _, v := range s.values {
		if seen[v.Text] {
			r.fail(v, "remove one of them", "the value %s is listed twice", yamltree.Show(v.Text))
			return nil
		}
		seen[v.Text] = true
	}
	if len(s.values) == 0 {
		return nil
	}
	return s
}

// between returns the values of a range, at its place.
func (r *resolver) between(n *yamltree.Node) (out []*yamltree.Node) {
	number := func(key string) float64 {
		v, _ := strconv.ParseFloat(n.Get(key).String(), 64)
		return v
	}
	from, to, step := number("from"), number("to"), 1.0
	if n.Get("step") != nil {
		step = number("step")
	}
	switch {
	case !(step > 0):
		r.fail(n.Get("step"), "write a number above 0", "step is %s", yamltree.Show(n.Get("step").String()))
		return nil
	case !(to >= from):
		r.fail(n.Get("to"), "write the smaller number as from", "the range from %s to %s has no values",
			n.Get("from").String(), n.Get("to").String())
		return nil
	}
	count := math.Floor((to-from)/step+1e-9) + 1
	if !(count <= maxContenders) {
		r.fail(n, "write a larger step", "the range has %.0f values, and the limit is %d", count, maxContenders)
		return nil
	}
	for i := range int(count) {
		// Twelve digits: 0.1 + 2·0.1 is 0.3.
		v, _ := strconv.ParseFloat(strconv.FormatFloat(from+float64(i)*step, 'g', 12, 64), 64)
		text := strconv.FormatFloat(v, 'f', -1, 64)
		out = append(out, &yamltree.Node{Position: n.Position, Kind: yamltree.Scalar, Text: text})
	}
	return out
}

// sweepOfCells returns the sweep that cells have, with the cells. Several cells may
// only have the same one.
func (r *resolver) sweepOfCells(cells []*yamltree.Node) (of *sweep, scope []*yamltree.Node, ok bool) {
	for _, c := range cells {
		s := r.sweepOf(c)
		switch {
		case s == nil && c.Get("sweep") != nil:
			return nil, nil, false
		case s == nil:
			continue
		case of != nil && (of.at.Text != s.at.Text || !slices.EqualFunc(of.values, s.values,
			func(a, b *yamltree.Node) bool { return a.Text == b.Text })):
			r.fail(s.at, "write the same values, or split the lab", "two cells are swept over different values")
			return nil, nil, false
		}
		of, scope = s, append(scope, c)
	}
	return of, scope, true
}

// made returns the contenders that a sweep makes of one: each gets its value where
// it belongs. keys tells that the value may be that of a key of the contender.
func (r *resolver) made(n *yamltree.Node, s *sweep, cells []*yamltree.Node, keys bool) (out []*yamltree.Node) {
	own := n.Get("name").String()
	used := false
	for _, v := range s.values {
		called := own + "-" + slug(s.at.Text) + "-" + slug(v.Text)
		if !name.Valid(called, name.Max) {
			r.fail(v, "shorten the name of the contender, or the value", "the contender for %s has the name %s, and a name "+
				"has at most %d characters", yamltree.Show(v.Text), yamltree.Show(called), name.Max)
			return []*yamltree.Node{without(n, "sweep")}
		}
		c := with(without(n, "sweep"), "name", &yamltree.Node{Position: v.Position, Kind: yamltree.Scalar, Text: called})
		here := false
		if keys && r.isKey(n, s.at.Text) {
			if n.Get(s.at.Text) != nil {
				r.fail(s.at, "remove one of them", "%s has a value and a sweep", s.at.Text)
			}
			c, here = with(c, s.at.Text, v), true
		}
		if keys {
			for _, key := range []string{"env", "packages", "tuning", "params", "files", "volumes"} {
				if filled, ok := s.fill(c.Get(key), v); ok {
					c, here = with(c, key, filled), true
				}
			}
		}
		for _, cell := range cells {
			params, ok := r.filled(c.Get("params").Get(cell.Get("name").String()), cell, s, v)
			if ok {
				all := c.Get("params")
				if all == nil || all.Kind != yamltree.Mapping {
					all = &yamltree.Node{Position: s.at.Position, Kind: yamltree.Mapping}
				}
				c, here = with(c, "params", with(all, cell.Get("name").String(), params)), true
			}
		}
		used = used || here
		if r.swept == nil {
			r.swept = map[*yamltree.Node]*analysis.Sweep{}
		}
		r.swept[c] = &analysis.Sweep{Of: own, Name: s.at.Text, Value: v.Text}
		out = append(out, c)
	}
	switch {
	case r.room < 0:
		r.fail(s.at, "write it in fewer places", "the texts that contain %s have more than %d MiB with all values",
			s.marker(), maxFilled>>20)
	case !used:
		r.unused(s, cells, keys)
	}
	return out
}

// unused reports a sweep that changes nothing.
func (r *resolver) unused(s *sweep, cells []*yamltree.Node, keys bool) {
	known := []string{}
	for _, cell := range cells {
		w, _ := r.cat.workload(cell.Get("workload").String())
		for _, p := range w.Params {
			if p.Kind != param.List && !slices.Contains(known, p.Name) {
				known = append(known, p.Name)
			}
		}
	}
	if keys {
		known = append(known, sweptKeys...)
	}
	fix := yamltree.Meant(s.at.Text, known)
	if !strings.HasPrefix(fix, "did you mean") {
		fix = "write " + s.marker() + " where the value belongs, as in argv: [gzip, \"-" + s.marker() + "\", big]"
	}
	r.fail(s.at, fix, "no workload of the cells has a parameter %s, and no value contains %s", s.at.Text, s.marker())
}

// sweptKeys are the keys of a contender that can be swept, beside the options of
// its driver.
var sweptKeys = []string{"cpus", "quota", "memory", "image"}

// isKey reports whether key is one of a contender's that can be swept.
func (r *resolver) isKey(n *yamltree.Node, key string) bool {
	if slices.Contains(sweptKeys, key) {
		return true
	}
	i := slices.IndexFunc(r.cat.Drivers, func(d DriverEntry) bool { return d.Name == n.Get("driver").String() })
	return i >= 0 && slices.ContainsFunc(r.cat.Drivers[i].Options, func(o param.Spec) bool {
		return o.Name == key && o.Kind != param.List
	})
}

// filled returns own, a contender's parameters of a cell, with what a value
// changes in them, and whether it changes anything: the parameters of the cell
// with the marker, and the parameter of that name.
func (r *resolver) filled(own, cell *yamltree.Node, s *sweep, v *yamltree.Node) (*yamltree.Node, bool) {
	changed := false
	if own == nil || own.Kind != yamltree.Mapping {
		own = &yamltree.Node{Position: s.at.Position, Kind: yamltree.Mapping}
	} else if filled, ok := s.fill(own, v); ok {
		own, changed = filled, true
	}
	if params := r.sub(cell, "params", yamltree.Mapping); params != nil {
		for _, e := range params.Entries {
			if filled, ok := s.fill(e.Value, v); ok && own.Get(e.Key.Text) == nil {
				own, changed = with(own, e.Key.Text, filled), true
			}
		}
	}
	w, _ := r.cat.workload(cell.Get("workload").String())
	if slices.ContainsFunc(w.Params, func(p param.Spec) bool { return p.Name == s.at.Text && p.Kind != param.List }) {
		if own.Get(s.at.Text) != nil {
			r.fail(s.at, "remove one of them", "%s has a value and a sweep", s.at.Text)
		}
		own, changed = with(own, s.at.Text, v), true
	}
	return own, changed
}

// fill returns n with the value in the place of every marker, and whether
// there was one.
func (s *sweep) fill(n, v *yamltree.Node) (*yamltree.Node, bool) {
	if n == nil {
		return nil, false
	}
	out, changed := *n, false
	switch n.Kind {
	case yamltree.Scalar:
		if changed = strings.Contains(n.Text, s.marker()); changed {
			*s.room -= len(n.Text) + strings.Count(n.Text, s.marker())*len(v.Text)
			if *s.room < 0 {
				return n, false // reported
			}
			out.Text = strings.ReplaceAll(n.Text, s.marker(), v.Text)
			out.Quoted = n.Quoted && n.Text != s.marker()
		}
	case yamltree.Sequence:
		out.Items = slices.Clone(n.Items)
		for i, item := range n.Items {
			if filled, ok := s.fill(item, v); ok {
				out.Items[i], changed = filled, true
			}
		}
	case yamltree.Mapping:
		out.Entries = slices.Clone(n.Entries)
		for i, e := range n.Entries {
			if filled, ok := s.fill(e.Value, v); ok {
				out.Entries[i].Value, changed = filled, true
			}
		}
	}
	if !changed {
		return n, false
	}
	return &out, true
}

// unfilled reports parameters of cells with a marker that a contender would
// run as it is.
func (r *resolver) unfilled(cells, contenders []*yamltree.Node) {
	names := map[string]bool{}
	for _, s := range r.swept {
		names[s.Name] = true
	}
	for _, cell := range cells {
		params := r.sub(cell, "params", yamltree.Mapping)
		if params == nil {
			continue
		}
		for _, e := range params.Entries {
			for _, swept := range slices.Sorted(maps.Keys(names)) {
				marker := "{" + swept + "}"
				if !contains(e.Value, marker) {
					continue
				}
				for _, c := range contenders {
					if c.Kind != yamltree.Mapping || c.Get("params").Get(cell.Get("name").String()).Get(e.Key.Text) != nil {
						continue
					}
					r.fail(e.Value, "add sweep: {"+swept+": …} to the contender, or write "+e.Key.Text+" into its params",
						"%s contains %s, and contender %s does not sweep it", e.Key.Text, marker,
						yamltree.Show(c.Get("name").String()))
				}
			}
		}
	}
}

// contains reports whether a text in n, or n itself, contains text.
func contains(n *yamltree.Node, text string) bool {
	if n.Kind == yamltree.Scalar {
		return strings.Contains(n.Text, text)
	}
	return slices.ContainsFunc(n.Items, func(item *yamltree.Node) bool { return contains(item, text) }) ||
		slices.ContainsFunc(n.Entries, func(e yamltree.Entry) bool { return contains(e.Value, text) })
}

// slug is a text as a part of a name.
func slug(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		}
		return '-'
	}, strings.ToLower(text))
}

// with returns a mapping with another value of a key.
func with(n *yamltree.Node, key string, value *yamltree.Node) *yamltree.Node {
	out := *n
	out.Entries = slices.Clone(n.Entries)
	i := slices.IndexFunc(out.Entries, func(e yamltree.Entry) bool { return e.Key.Text == key })
	if i < 0 {
		at := &yamltree.Node{Position: value.Position, Kind: yamltree.Scalar, Text: key}
		out.Entries = append(out.Entries, yamltree.Entry{Key: at, Value: value})
		return &out
	}
	out.Entries[i].Value = value
	return &out
}

// without returns a mapping without a key.
func without(n *yamltree.Node, key string) *yamltree.Node {
	if n.Get(key) == nil {
		return n
	}
	out := *n
	out.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e yamltree.Entry) bool { return e.Key.Text == key })
	return &out
}

// first returns the name of the first contender of a sweep, "" if name is none.
func (l *Lab) first(of string) string {
	c, _ := lists.Find(l.Contenders, func(c Contender) bool { return c.Sweep != nil && c.Sweep.Of == of })
	return c.Name
}
