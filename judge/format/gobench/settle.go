package gobench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/judge/format"
)

// Settle implements format.Settler. A name such as Hash/sha-256 ends with GOMAXPROCS or is that of a sub-benchmark;
// and a rate in B/s is computed from the time, unless the benchmark reports its own. Often only other results tell.
func (gobench) Settle(files []*format.File) {
	settleProcs(files)
	dropRates(files)
}

// procsEnd is a name with GOMAXPROCS at its end. testing writes no 1.
var procsEnd = lazy.Compile(`^(.+)-([2-9]|[1-9][0-9]+)$`)

// cutProcs splits a name before the number at its end, which may be GOMAXPROCS; "" if there is none.
func cutProcs(name string) (base, procs string) {
	if m := procsEnd.FindStringSubmatch(name); m != nil {
		return m[1], m[2]
	}
	return name, ""
}

// settleProcs decides which numbers at the ends of names are GOMAXPROCS. Without -cpu all results have the same
// number, and with -cpu every benchmark has every number: where they differ, they belong to the names. The name of a
// benchmark without sub-benchmarks has no hyphen of its own. A number of which neither this nor another result tells
// whether it is GOMAXPROCS may say which work was done, and is no Place.
func settleProcs(files []*format.File) {
	known := map[string]bool{} // names without GOMAXPROCS
	var open []*format.Record
	for _, f := range files {
		groups, own := map[string][]*format.Record{}, map[string]map[string]bool{}
		for i := range f.Records {
			pkg := f.Records[i].Labels[0].Value
			groups[pkg] = append(groups[pkg], &f.Records[i])
		}
		all := map[string]bool{} // numbers of the packages of which they are certain
		for pkg, group := range groups {
			own[pkg] = certainProcs(group)
			maps.Copy(all, own[pkg])
		}
		for _, pkg := range slices.Sorted(maps.Keys(groups)) {
			numbers := own[pkg]
			if len(numbers) == 0 {
				numbers = all
			}
			if len(numbers) == 0 {
				open = append(open, groups[pkg]...)
				continue
			}
			for _, rec := range groups[pkg] {
				name := fullName(*rec)
				base, procs := cutProcs(name)
				if !numbers[procs] {
					base, procs = name, ""
				}
				known[base] = true
				setName(rec, base, procs, true)
			}
		}
	}
	one := map[string]bool{} // the only name without a number of a package, if there is one
	bases := map[string]map[string]bool{}
	for _, rec := range open {
		base, _ := cutProcs(fullName(*rec))
		lists.Inner(bases, rec.Labels[0].Value)[base] = true
	}
	for pkg, names := range bases {
		one[pkg] = len(names) == 1
	}
	for _, rec := range open {
		name := fullName(*rec)
		base, procs := cutProcs(name)
		switch {
		case known[name]:
			setName(rec, name, "", true)
		case known[base]:
			setName(rec, base, procs, true)
		case one[rec.Labels[0].Value]:
			setName(rec, base, procs, false)
		default:
			setName(rec, name, "", true)
		}
	}
	nameOneProc(files)
	for _, f := range files {
		f.RepeatEqual() // go test numbers sub-benchmarks of one name, so equal names are repetitions
	}
}

// certainProcs returns the numbers at the ends of names that are GOMAXPROCS, with "" for results without one; none if
// that is uncertain.
func certainProcs(records []*format.Record) map[string]bool {
	ends, plain := map[string]map[string]bool{}, map[string]bool{} // ends by name
	numbered := false
	for _, rec := range records {
		base, procs := cutProcs(fullName(*rec))
		lists.Inner(ends, base)[procs] = true
		numbered = numbered || procs != ""
		if !strings.Contains(base, "/") {
			plain[procs] = true
		}
	}
	if len(plain) > 0 {
		return plain
	}
	var first map[string]bool
	for _, numbers := range ends {
		if first == nil {
			first = numbers
		}
		if !maps.Equal(first, numbers) {
			return nil
		}
	}
	if len(ends) == 1 && numbered {
		return nil
	}
	return first
}

// fullName is the name of a benchmark as go test prints it.
func fullName(rec format.Record) string {
	var parts []string
	procs := procsOf(&rec)
	for i, l := range rec.Labels[1:] {
		if procs == &rec.Labels[i+1] {
			break
		}
		switch {
		case l.Value == "" && l.Shown == emptyPart:
			parts = append(parts, "")
		default:
			parts = append(parts, cmp.Or(l.Shown, l.Value))
		}
	}
	name := strings.Join(parts, "/")
	if procs != nil && !procs.Absent() && procs.Value != "1" {
		name += "-" + procs.Value
	}
	return name
}

// setName gives a record the labels of a name.
func setName(rec *format.Record, base, procs string, place bool) {
	rec.Labels = append(rec.Labels[:1:1], splitName(base, procs)...)
	rec.Labels[len(rec.Labels)-1].Place = place
}

// procsOf is the label of GOMAXPROCS; nil if nameOneProc took it away.
func procsOf(rec *format.Record) *format.Label {
	if last := &rec.Labels[len(rec.Labels)-1]; last.Name == procsLabel {
		return last
	}
	return nil
}

// nameOneProc gives records without a number of processors the number 1, for which
// testing writes none, if other records have one. If the other results of the package in the
// file have a number, and none of their names occurs without it, another program wrote the
// result, such as the sizes of bent. Its number of processors is unknown, so it gets no label.
func nameOneProc(files []*format.File) {
	groups, ends := map[string][]*format.Record{}, map[string]map[string]map[string]bool{} // by file and package
	number := false
	for i, f := range files {
		for k := range f.Records {
			rec := &f.Records[k]
			at := fmt.Sprintf("%d %s", i, rec.Labels[0].Value)
			groups[at] = append(groups[at], rec)
			name, procs := fullName(*rec), ""
			if l := procsOf(rec); l != nil && !l.Absent() {
				name, procs = strings.TrimSuffix(name, "-"+l.Value), l.Value
				number = true
			}
			lists.Inner(lists.Inner(ends, at), name)[procs] = true
		}
	}
	for at, group := range groups {
		numbered, both := false, false // a name has a number; one occurs with and without a number
		for _, numbers := range ends[at] {
			numbered = numbered || len(numbers) > 1 || !numbers[""]
			both = both || len(numbers) > 1 && numbers[""]
		}
		for _, rec := range group {
			switch l := procsOf(rec); {
			case !number || l == nil || !l.Absent():
			case numbered && !both:
				rec.Labels = rec.Labels[:len(rec.Labels)-1]
			default:
				l.Value, l.Shown = "1", procsLabel+"=1"
			}
		}
	}
}

// Bounds on rates: the least one in B/s whose rounding to 0.01 MB/s does not matter, and the share by which the bytes
// of an operation differ in two results because of rounding.
const (
	leastRate = 1e6
	sameBytes = 0.03
)

// bytesOf returns the bytes of an operation by its time and its rate in B/s; false if they are unknown.
func bytesOf(rec format.Record) (bytes, time, rate float64, ok bool) {
	value := func(unit string) float64 {
		s, _ := lists.Find(rec.Series, func(s format.Series) bool { return s.Metric.Name == unit })
		if len(s.Values) == 0 {
			return 0
		}
		return s.Values[0]
	}
	time, rate = value("sec/op"), value("B/s")
	return time * rate, time, rate, time > 0 && rate >= leastRate
}

// dropRates leaves out the rates that testing computes from the time: those of a benchmark whose operations have one
// number of bytes in all results. The others are reported by the benchmark.
func dropRates(files []*format.File) {
	at := func(rec format.Record) string { return rec.Labels[0].Value + " " + fullName(rec) }
	first, own := map[string]float64{}, map[string]bool{}
	for _, f := range files {
		for _, rec := range f.Records {
			bytes, _, _, ok := bytesOf(rec)
			if !ok {
				continue
			}
			if was, known := first[at(rec)]; !known {
				first[at(rec)] = bytes
			} else if math.Abs(bytes-was) > sameBytes*max(bytes, was) {
				own[at(rec)] = true
			}
		}
	}
	for _, f := range files {
		for i := range f.Records {
			rec := &f.Records[i]
			has := func(unit string) bool {
				return slices.ContainsFunc(rec.Series, func(s format.Series) bool { return s.Metric.Name == unit })
			}
			if has("sec/op") && !own[at(*rec)] {
				rec.Series = slices.DeleteFunc(slices.Clone(rec.Series), func(s format.Series) bool {
					return s.Metric.Name == "B/s"
				})
			}
		}
	}
}
