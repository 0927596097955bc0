package format

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/lists"
)

// Settler is a Format whose files must be known together to tell what they mean.
type Settler interface {
	// Settle changes the files of a comparison, which Read returned.
	Settle(files []*File)
}

// Settle settles the files of a comparison, which f read: as f itself does, if it is a
// Settler, and then the names of results that Distinguish numbered.
func Settle(f Format, files []*File) {
	if x, ok := f.(Settler); ok {
		x.Settle(files)
	}
	nameByFacts(files)
}

// OptionFact begins the name of a fact that is an option of the program. Options say which
// work was done. Other facts say with what it was done, such as a version.
const OptionFact = "option "

// namesake is a result with the labels of others.
type namesake struct {
	*Record
	file *File
	// unit is the file and the place of the work. Only results of one unit need different names.
	unit string
}

// namesakes are the results of all files that say that they did the same work.
type namesakes struct {
	list    []namesake
	label   string // that Distinguish numbered; "" for none
	repeats bool   // some repeat others
}

// nameByFacts names results with equal labels by the facts by which they differ. The numbers
// of Distinguish depend on the order of a file, so that one number may mean another work in
// another file.
func nameByFacts(files []*File) {
	groups := map[string]*namesakes{}
	for i, f := range files {
		for k := range f.Records {
			rec := &f.Records[k]
			work, unit, label := "", fmt.Sprint(i), ""
			for _, l := range rec.Labels {
				was := l
				if l.Plain != nil {
					was, label = *l.Plain, l.Name
				}
				text := fmt.Sprintf(" %q=%q", was.Name, was.Value)
				if l.Place {
					unit += text
				} else {
					work += text
				}
			}
			g := groups[work]
			if g == nil {
				g = &namesakes{}
				groups[work] = g
			}
			g.list = append(g.list, namesake{rec, f, unit})
			g.repeats = g.repeats || rec.Repeats
			if label != "" {
				g.label = label
			}
		}
	}
	for _, work := range slices.Sorted(maps.Keys(groups)) {
		if g := groups[work]; g.label != "" && !g.repeats {
			g.name(g.distinguishingFacts())
		}
	}
}

// fact returns a fact. An option that is missing has its default, if the file has options; it
// is "" then.
func (n namesake) fact(name string) (v string, known bool) {
	v, known = n.Facts[name]
	if !known && strings.HasPrefix(name, OptionFact) {
		for other := range n.Facts {
			known = known || strings.HasPrefix(other, OptionFact)
		}
	}
	return v, known
}

// factsText are those of some facts that a result has.
func (n namesake) factsText(facts []string) (out string) {
	for _, name := range facts {
		if v, has := n.Facts[name]; has {
			out += fmt.Sprintf(" %s=%s", strings.TrimPrefix(name, OptionFact), v)
		}
	}
	return out
}

// distinguishingFacts are the facts by which the results of a unit differ, and of which the
// units have the same values: those of which they have different values are what a comparison
// is about. If these facts do not tell the work of a unit apart, all options do.
func (g *namesakes) distinguishingFacts() (out []string) {
	differ := map[string]bool{}
	first := map[string]namesake{} // by unit
	for _, n := range g.list {
		was, seen := first[n.unit]
		if !seen {
			first[n.unit] = n
			continue
		}
		for _, facts := range []map[string]string{was.Facts, n.Facts} {
			for name := range facts {
				a, knownA := was.fact(name)
				b, knownB := n.fact(name)
				differ[name] = differ[name] || a != b || knownA != knownB
			}
		}
	}
	var options []string
	for _, name := range slices.Sorted(maps.Keys(differ)) {
		switch {
		case !differ[name]:
		case g.shareValues(name):
			out = append(out, name)
		case strings.HasPrefix(name, OptionFact):
			options = append(options, name)
		}
	}
	if all := append(slices.Clone(out), options...); g.distinct(all) > g.distinct(out) {
		slices.Sort(all)
		return all
	}
	return out
}

// shareValues reports whether values of a fact connect all units: each unit has a value of
// another one, directly or by way of further ones.
func (g *namesakes) shareValues(fact string) bool {
	values := map[string]map[string]bool{} // by unit
	for _, n := range g.list {
		its := lists.Inner(values, n.unit)
		if v, known := n.fact(fact); known {
			its[v] = true
		}
	}
	reached := values[g.list[0].unit]
	delete(values, g.list[0].unit)
	for more := true; more; {
		more = false
		for unit, its := range values {
			for v := range its {
				if reached[v] {
					maps.Copy(reached, its)
					delete(values, unit)
					more = true
					break
				}
			}
		}
	}
	return len(values) == 0
}

// distinct counts the names that results of one unit get from facts.
func (g *namesakes) distinct(facts []string) int {
	return len(lists.Set(g.list, func(n namesake) string { return n.unit + "\n" + n.factsText(facts) }))
}

// name adds facts to the label of the results, and numbers those that are still equal.
func (g *namesakes) name(facts []string) {
	if len(facts) == 0 {
		return
	}
	places := map[*File]map[string]bool{} // before the results were numbered
	for _, n := range g.list {
		at := slices.IndexFunc(n.Labels, func(l Label) bool { return l.Name == g.label })
		if at < 0 {
			continue
		}
		n.Labels = slices.Clone(n.Labels)
		if plain := n.Labels[at].Plain; plain != nil {
			n.Labels[at] = *plain
		}
		lists.Inner(places, n.file)[recordPlace(*n.Record)] = true
		extendLabel(&n.Labels[at], n.factsText(facts))
	}
	for f, its := range places {
		numbered := false
		f.numberEqual(g.label, func(*Record, string, Label) { numbered = true })
		for place := range its {
			if text, ok := f.numbered[place]; ok && !numbered {
				f.Warnings = slices.DeleteFunc(f.Warnings, func(w string) bool { return w == text })
			}
		}
	}
}
