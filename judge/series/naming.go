package series

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/judge/format"
)

// ownNames gives each label of a record a name of its own: a parameter may have the name of a
// label of the format, or that of ByFile. The second one is called "name #2". An option that
// names labels means the first one of which there are several values, if there is one.
func ownNames(sources []Source, opt Option) ([]Source, Option) {
	sources = plainLabels(sources, opt.By)
	values := map[string]map[string]bool{} // of labels and their parts, by name
	note := func(name, value string) { lists.Inner(values, name)[value] = true }
	var rename func(labels []format.Label, seen map[string]bool) []format.Label
	rename = func(labels []format.Label, seen map[string]bool) []format.Label {
		labels = slices.Clone(labels)
		for i := range labels {
			l := &labels[i]
			for name, n := l.Name, 2; seen[l.Name]; n++ {
				l.Name = numbered(name, n)
			}
			seen[l.Name] = true
			note(l.Name, l.Value)
		}
		for i := range labels {
			labels[i].Parts = rename(labels[i].Parts, seen)
		}
		return labels
	}
	sources = slices.Clone(sources)
	for i := range sources {
		note(ByFile, sources[i].Name)
		sources[i].Records = slices.Clone(sources[i].Records)
		for k := range sources[i].Records {
			rec := &sources[i].Records[k]
			rec.Labels = rename(rec.Labels, map[string]bool{ByFile: true})
		}
	}
	first := func(name string) string {
		found := name
		for n := 2; len(values[found]) < 2 && values[numbered(name, n)] != nil; n++ {
			found = numbered(name, n)
		}
		if len(values[found]) < 2 {
			return name
		}
		return found
	}
	opt.By, opt.Group = first(opt.By), first(opt.Group)
	return sources, opt
}

// plainLabels returns the sources with labels as they were before equal ones were numbered, if
// no two results of a contender then have equal labels: --contender names what tells them apart.
func plainLabels(sources []Source, by string) []Source {
	if by == "" || by == ByFile {
		return sources
	}
	out, seen, found := slices.Clone(sources), map[string]bool{}, false
	for i, s := range sources {
		out[i].Records = slices.Clone(s.Records)
		for k := range s.Records {
			rec := &out[i].Records[k]
			rec.Labels = slices.Clone(rec.Labels)
			who, _ := contender(*rec, s, by)
			place := fmt.Sprintf("%d %q", i, who.Value)
			for j, l := range rec.Labels {
				if l.Plain == nil {
					place += fmt.Sprintf(" %q=%q", l.Name, l.Value)
					continue
				}
				if l.Name == by || slices.ContainsFunc(l.Parts, func(p format.Label) bool { return p.Name == by }) {
					return sources // the number is a part of the contender's name
				}
				rec.Labels[j], found = *l.Plain, true
				place += fmt.Sprintf(" %q=%q", l.Name, l.Plain.Value)
			}
			for _, x := range rec.Series {
				at := fmt.Sprintf("%s %q %q", place, x.Metric.Name, x.Metric.Unit)
				if seen[at] && !rec.Repeats {
					return sources
				}
				seen[at] = true
			}
		}
		out[i].Warnings = slices.DeleteFunc(slices.Clone(s.Warnings), func(w string) bool {
			return strings.HasSuffix(w, format.Numbered)
		})
	}
	if !found {
		return sources
	}
	return out
}

// WithoutContender counts the records that lack the label by which contenders differ, so that they are left out.
func WithoutContender(sources []Source, by string) (n int) {
	if by == "" || by == ByFile {
		return 0
	}
	sources, opt := ownNames(sources, Option{By: by})
	for _, s := range sources {
		for _, rec := range s.Records {
			if _, ok := contender(rec, s, opt.By); !ok {
				n++
			}
		}
	}
	return n
}

func numbered(name string, n int) string { return fmt.Sprintf("%s #%d", name, n) }

// naming decides which labels are in the names of cells, and how their values are
// written.
type naming struct {
	by, group string
	shown     map[string]bool            // by name
	clash     map[string]map[string]bool // name → short texts that stand for several values
}

// clashes returns the short texts of each label that stand for several values.
func clashes(sources []Source) map[string]map[string]bool {
	values := map[string]map[string]string{} // name → short text → value
	out := map[string]map[string]bool{}
	var note func(labels []format.Label)
	note = func(labels []format.Label) {
		for _, l := range labels {
			note(l.Parts)
			short, of := cmp.Or(l.Short, l.Value), lists.Inner(values, l.Name)
			if was, ok := of[short]; ok && was != l.Value {
				lists.Inner(out, l.Name)[short] = true
			}
			of[short] = l.Value
		}
	}
	for _, s := range sources {
		for _, rec := range s.Records {
			note(rec.Labels)
		}
	}
	return out
}

// labelValue writes the value of a label. An empty one is "", in quotes; two quotes are quoted, too.
func (n *naming) labelValue(l format.Label) string {
	if l.Value == "" || l.Value == `""` {
		return strconv.Quote(l.Value)
	}
	if l.Short != "" && !n.clash[l.Name][l.Short] {
		return l.Short
	}
	return l.Value
}

// nameLabels are those that may be in the name of the cell of a record: all but that by
// which contenders differ. Where that is a part of a label, the other parts are in its
// place. Where the group is a part of it, this part remains.
func (n *naming) nameLabels(rec format.Record, s Source) (out []format.Label) {
	for _, l := range rec.Labels {
		of := func(name string) func(format.Label) bool {
			return func(part format.Label) bool { return part.Name == name }
		}
		switch {
		case l.Name == n.by:
			if i := slices.IndexFunc(l.Parts, of(n.group)); i >= 0 {
				out = append(out, l.Parts[i])
			}
		case slices.ContainsFunc(l.Parts, of(n.by)):
			out = append(out, slices.DeleteFunc(slices.Clone(l.Parts), of(n.by))...)
		default:
			out = append(out, l)
		}
	}
	if n.by != ByFile {
		file, _ := labelOf(rec, s, ByFile)
		out = append(out, file)
	}
	return out
}

// showLabels finds the labels that are in names: all but settings with the same value
// everywhere, and places with one value for each contender. It notes such places as
// facts.
func (t *table) showLabels(n *naming, entries []entry) {
	all := map[string]map[string]bool{}            // name → values
	own := map[string]map[string]map[string]bool{} // name → contender → values
	work := map[string]bool{}                      // names of labels that say what was done, at least once
	repeats := repeatedRuns(entries)
	for _, e := range entries {
		for _, l := range e.labels {
			values, its := lists.Inner(all, l.Name), lists.Inner(lists.Inner(own, l.Name), e.who)
			values[l.Value], its[l.Value] = true, true
			work[l.Name] = work[l.Name] || !l.Place
			n.shown[l.Name] = n.shown[l.Name] || len(its) > 1 && !repeats[l.Name] || !l.Setting || l.Name == t.group
		}
	}
	for name, values := range all {
		n.shown[name] = n.shown[name] || work[name] && len(values) > 1
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if n.shown[name] || len(all[name]) < 2 || name == ByFile {
			continue
		}
		for who, values := range own[name] {
			for v := range values {
				t.noteFacts(who, map[string]string{name: v})
			}
		}
		for i := range entries { // so that a warning names what is pooled
			if l, ok := entries[i].Label(name); ok && repeats[name] {
				facts := map[string]string{name: l.Value}
				maps.Copy(facts, entries[i].Facts)
				entries[i].Facts = facts
			}
		}
	}
}

// repeatedRuns are the labels that name runs, if no file has several runs, and no two contenders have runs of one
// name: the runs of a contender are then repetitions.
func repeatedRuns(entries []entry) map[string]bool {
	out, runs := map[string]bool{}, map[string]map[string]string{} // of labels: file or run → run or contender
	for _, e := range entries {
		for _, l := range e.labels {
			if !l.Run {
				continue
			}
			of := lists.Inner(runs, l.Name)
			if len(of) == 0 {
				out[l.Name] = true
			}
			for _, x := range [][2]string{{fmt.Sprint("file ", e.source), l.Value}, {"run " + l.Value, e.who}} {
				was, seen := of[x[0]]
				out[l.Name] = out[l.Name] && (!seen || was == x[1])
				of[x[0]] = x[1]
			}
		}
	}
	return out
}

// joinLabels joins the labels of a record other than that of the contender, each as text says.
func (n *naming) joinLabels(e *entry, text func(format.Label) string) string {
	var parts []string
	for _, l := range e.labels {
		if !l.Absent() && n.shown[l.Name] {
			parts = append(parts, text(l))
		}
	}
	return strings.Join(parts, "/")
}

// nameCells names the cell of each entry by its labels: "Sum/size=64". Records with different labels never share a
// cell: where their names would be equal, the names of the labels are added, and otherwise a number.
func (n *naming) nameCells(entries []entry) {
	short := func(l format.Label) string { return cmp.Or(l.Shown, n.labelValue(l)) }
	key := func(l format.Label) string { return fmt.Sprintf("%q=%q", l.Name, l.Value) }
	keys := map[string]map[string]bool{} // by short name
	for i := range entries {
		lists.Inner(keys, n.joinLabels(&entries[i], short))[n.joinLabels(&entries[i], key)] = true
	}
	names, taken := map[string]string{}, map[string]bool{} // names by key
	for i := range entries {
		e := &entries[i]
		its := n.joinLabels(e, key)
		name, ok := names[its]
		if !ok {
			name = n.joinLabels(e, short)
			if len(keys[name]) > 1 {
				name = n.joinLabels(e, func(l format.Label) string { return l.Name + "=" + n.labelValue(l) })
			}
			for was, k := name, 2; taken[name]; k++ {
				name = numbered(was, k)
			}
			names[its], taken[name] = name, true
		}
		e.cell = name
	}
}

// distinguishingLabel says which labels in the names of cells have other values for each contender,
// so that no cell has two contenders, or that the units differ; "" if neither is true.
//
// helps reports whether contenders that differ by a label can be compared.
func (t *table) distinguishingLabel(sources []Source, helps func(label string) bool) string {
	values := map[string]map[string]map[string]bool{} // name → value → contenders
	for _, s := range sources {
		for _, rec := range s.Records {
			who, ok := contender(rec, s, t.by)
			if !ok {
				continue
			}
			for _, l := range rec.Labels {
				lists.Inner(lists.Inner(values, l.Name), l.Value)[who.Value] = true
			}
		}
	}
	one := func(name string) bool { // each contender has one value
		seen := map[string]bool{}
		for _, who := range values[name] {
			for w := range who {
				if seen[w] {
					return false
				}
				seen[w] = true
			}
		}
		return true
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		shared := slices.ContainsFunc(slices.Collect(maps.Values(values[name])), func(who map[string]bool) bool {
			return len(who) > 1
		})
		if !shared && name != t.by && t.shown[name] && len(values[name]) > 1 {
			names = append(names, name)
		}
	}
	switch {
	case len(names) == 1 && one(names[0]) && helps(names[0]):
		return fmt.Sprintf("No cell has values of two contenders, because no two share a value of %q. Use --contender %q "+
			"to compare by it.", names[0], names[0])
	case len(names) > 0:
		text := fmt.Sprintf("No cell has values of two contenders, because no two share a value of any of these labels: %s.",
			quoteAll(names))
		if lacking := lists.Filter(names, func(name string) bool { return values[name][""] != nil }); len(lacking) > 0 {
			return text + fmt.Sprintf(" Some results have no %s.", quoteAll(lacking))
		}
		return text + " They did different work."
	}
	var differ []string
	for _, units := range t.units {
		if len(units) > 1 {
			differ = append(differ, units...)
		}
	}
	if len(differ) == 0 {
		return ""
	}
	slices.Sort(differ)
	return fmt.Sprintf("No cell has values of two contenders, because their units differ: %s.",
		quoteAll(slices.Compact(differ)))
}
