// Package series compares values that were not measured in blocks: series of
// repetitions that other programs made, one side after the other or in an unknown
// order. It is pure.
//
// # No verdict
//
// Blocks in a random order are what makes a difference between two sides more than
// a difference between two times. Without them, anything that changed meanwhile
// (temperature, caches, other programs) looks like a difference, and no number of
// repetitions shows it. Therefore every comparison has an interval and the verdict
// "not interleaved", and package series never invents blocks. Values whose file
// names their blocks are analyzed by package analysis (see Rows).
//
// # The interval
//
// Each side's center is the Hodges–Lehmann estimate of its values, of their
// logarithms for ratios, with an interval that is widened for correlated neighbors
// (stats.SerialCenter). The two are combined as for two runs in package compare. The
// interval has a nominal level of 95 % for each comparison alone. It covers the
// noise among the repetitions, and nothing that changed between the sides.
package series

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/format"
)

// Schema is the schema of Result.
const Schema = "bakeoff/series/v1"

// NotInterleaved is the verdict of every comparison.
const NotInterleaved = compare.NotInterleaved

// Level is the nominal coverage of every interval.
const Level = 0.95

// ByFile distinguishes contenders by the names of the sources.
const ByFile = "file"

// Source is a file with its name as a contender.
type Source struct {
	Name string // several files may have the same
	Path string
	format.File
}

// Option configures a comparison.
type Option struct {
	// By is the label or fact that distinguishes contenders, or ByFile; "" for ByFile
	// if the sources have several names, and otherwise for what the format says.
	By string
	// Baseline is a contender; "" for the first one with values in each cell.
	Baseline string
	// Group is a label or fact, or ByFile; each of its values gets geometric means of
	// its own. "" for one group.
	Group string
}

// Order is what is known about the order in which two sides were measured.
type Order string

// The orders.
const (
	Sequence Order = "sequence" // all of one side before the other
	Turns    Order = "turns"    // by turns, without blocks
	Together Order = "together" // at the same time
	Unknown  Order = "unknown"  // the files do not say
)

// Result is the comparison of all contenders. An unknown value is null.
type Result struct {
	Schema string `json:"schema"`
	From   string `json:"from"` // name of the format
	// Measured says in which order the program measures.
	Measured    string             `json:"measured"`
	Sources     []SourceInfo       `json:"sources"`
	By          string             `json:"by"`
	Level       float64            `json:"level"`
	Contenders  []string           `json:"contenders"`
	Summaries   []Summary          `json:"summaries"`
	Comparisons []Comparison       `json:"comparisons"`
	Geomeans    []Geomean          `json:"geomeans"`
	Missing     []analysis.Missing `json:"missing"`
	Differences []Difference       `json:"differences"`
	Warnings    []string           `json:"warnings"`
}

// SourceInfo names a file that was read.
type SourceInfo struct {
	File    string `json:"file"`
	Name    string `json:"name"`
	Program string `json:"program"`
	Values  int    `json:"values"`
	// LeftOut is how many parts of the file could not be used.
	LeftOut int `json:"left_out"`
}

// Summary describes one contender on one cell and metric.
type Summary struct {
	Contender string        `json:"contender"`
	Cell      string        `json:"cell"` // "" if only the contender distinguishes records
	Group     string        `json:"group,omitempty"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    sample.Better `json:"better"` // "" if the file does not say
	// N is the number of values; a record with statistics instead of values counts as
	// one.
	N        int      `json:"n"`
	Failures int      `json:"failures"`
	Median   *float64 `json:"median"`
	// Stats are what the file gives instead of values, or the number and the mean or median of
	// values that are compared with such statistics.
	Stats *format.Stats `json:"stats,omitempty"`
	// CI is the interval of the median from order statistics. It assumes that the
	// values are independent.
	CI Interval `json:"ci"`
}

// Interval is a closed interval; a bound that is not finite is null.
type Interval = analysis.Interval

// Comparison is a contender against the baseline on one cell and metric.
type Comparison struct {
	Contender string        `json:"contender"`
	Baseline  string        `json:"baseline"`
	Cell      string        `json:"cell"`
	Group     string        `json:"group,omitempty"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    sample.Better `json:"better"`
	Scale     sample.Scale  `json:"scale"`
	// N and Failures are those of the contender and of the baseline.
	N        [2]int `json:"n"`
	Failures [2]int `json:"failures"`
	// Effective are the numbers of independent values with as much information.
	Effective [2]float64 `json:"effective"`
	Order     Order      `json:"order"`
	// Ratio is contender / baseline, or the difference where Scale is difference.
	Ratio *float64 `json:"ratio"`
	CI    Interval `json:"ci"`
	// Verdict is always NotInterleaved.
	Verdict  analysis.Verdict `json:"verdict"`
	Warnings []string         `json:"warnings,omitempty"`
}

// Difference is a fact that contenders do not share.
type Difference struct {
	Fact   string  `json:"fact"`
	Values []Value `json:"values"`
}

// Value is the fact of one contender; "unavailable" if it is unknown.
type Value struct {
	Contender string `json:"contender"`
	Value     string `json:"value"`
}

// placed is a record with its source.
type placed struct {
	format.Record
	source int
}

// side are the records of one contender in one cell, with the values of one metric.
type side struct {
	series  []format.Series // of records, one each
	records []placed
	values  []float64
	// ofStats means that each value stands for a record, because some records have
	// statistics only; mean that it is the mean of the record instead of the median.
	ofStats, mean bool
}

// cell is what was measured of every contender.
type cell struct {
	name  string
	sides map[string]*outcome // by contender
}

// outcome counts the repetitions of a contender in a cell.
type outcome struct {
	values, failed int
	reason         string     // of the failures
	counted        []position // of the records in failed
	sources        map[int]bool
}

// position is the place of a record in the sources.
type position struct{ source, line, turn int }

// cellMetric is a metric of a cell. Its unit and direction are part of it: two results
// that differ in them measured different things.
type cellMetric struct {
	cell, metric, unit string
	better             sample.Better
}

// table holds all values by cell, metric and contender.
type table struct {
	doc        format.Doc
	by, group  string
	groups     map[string]string // cell → value of the label group
	contenders []string          // in the order of their first records
	cells      map[string]*cell
	order      []*cell // in the order of their first records
	keys       []cellMetric
	metrics    map[cellMetric]sample.Metric
	sides      map[cellMetric]map[string]*side
	facts      map[string]map[string]map[string]bool // fact → contender → values
	without    int                                   // records without the label by
	shown      map[string]bool                       // labels in the names of cells
	units      map[cellMetric][]string               // of each metric of a cell, before it got a unit in its name
}

// Compare compares the contenders in sources, which are all of the format doc. An
// error is of kind fault.Invalid.
func Compare(doc format.Doc, sources []Source, opt Option) (Result, error) {
	named, opt := ownNames(sources, opt)
	r, t, err := compareNamed(doc, named, opt)
	if err != nil || len(r.Comparisons) > 0 || len(t.contenders) < 2 {
		return r, err
	}
	hint := t.distinguishingLabel(named, func(label string) bool {
		by, other, err := compareNamed(doc, named, Option{By: label})
		return err == nil && other.without == 0 && len(by.Comparisons) > 0
	})
	if hint != "" {
		r.Warnings = append(r.Warnings, hint)
	}
	return r, nil
}

// compareNamed compares sources that ownNames returned.
func compareNamed(doc format.Doc, sources []Source, opt Option) (Result, *table, error) {
	t, err := tabulate(doc, sources, opt)
	if err != nil {
		return Result{}, nil, err
	}
	if opt.Baseline != "" && !slices.Contains(t.contenders, opt.Baseline) {
		return Result{}, nil, noContender(opt.Baseline, t.contenders)
	}
	r := Result{Schema: Schema, From: doc.Name, Measured: doc.Order, By: t.by, Level: Level, Contenders: t.contenders,
		Sources: []SourceInfo{}, Summaries: []Summary{}, Comparisons: []Comparison{},
		Geomeans: []Geomean{}, Missing: []analysis.Missing{},
		Differences: []Difference{}, Warnings: []string{}}
	for _, s := range sources {
		n := 0
		for _, rec := range s.Records {
			for _, x := range rec.Series {
				n += len(x.Values)
			}
		}
		r.Sources = append(r.Sources, SourceInfo{s.Path, s.Name, s.Program, n, s.LeftOut})
		r.Warnings = lists.AddNew(r.Warnings, s.Warnings...)
	}
	r.Warnings = slices.Concat(r.Warnings, t.recordNotes(), t.lackingFiles(sources))
	for _, key := range t.keys {
		t.compare(&r, key, opt.Baseline)
	}
	r.Geomeans = geomeans(r)
	t.missing(&r)
	t.differences(&r)
	return r, t, nil
}

// recordNotes say how many records have no contender, and which facts differ among
// repetitions and between results that are compared.
func (t *table) recordNotes() (out []string) {
	if t.without > 0 {
		out = append(out, fmt.Sprintf("%d results have no %q and are left out.", t.without, t.by))
	}
	return slices.Concat(out, t.opposed(), t.mixedWarnings(), t.unequalFacts())
}

// opposed warns about values that are not compared because files give one metric two
// directions.
func (t *table) opposed() (out []string) {
	seen := map[cellMetric]bool{}
	for _, key := range t.keys {
		undirected := key
		undirected.better = ""
		if seen[undirected] {
			out = append(out, fmt.Sprintf("The results do not agree whether a higher or a lower %s is better at %q. bakeoff "+
				"does not compare those that differ.", key.metric, key.cell))
		}
		seen[undirected] = true
	}
	return slices.Compact(out)
}

// mixedWarnings warns about values that are pooled although a fact of theirs differs.
func (t *table) mixedWarnings() (out []string) {
	differ := map[string][]string{}
	for _, key := range t.keys {
		for _, s := range t.sides[key] {
			seen := map[string]string{}
			for _, rec := range s.records {
				for k, v := range rec.Facts {
					was, ok := seen[k]
					seen[k] = v
					if !ok || was == v || k == t.by {
						continue
					}
					differ[k] = lists.AddNew(differ[k], was, v)
				}
			}
		}
	}
	const shown = 3
	for _, k := range slices.Sorted(maps.Keys(differ)) {
		vs := slices.Sorted(slices.Values(differ[k]))
		text := quoteAll(vs[:min(shown, len(vs))])
		if more := len(vs) - shown; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, fmt.Sprintf("Values that differ in %q (%s) count as repetitions. If they are not, use "+
			"--contender %q.", k, text, k))
	}
	return out
}

// unequalFacts warns about facts that differ between two contenders in one cell, although these contenders share
// values of the fact elsewhere: the list of differences then does not tell where they differ.
func (t *table) unequalFacts() (out []string) {
	first, cells := map[string]string{}, map[string]map[string]bool{} // by fact
	for _, key := range t.keys {
		var base *side
		var baseline string
		for _, who := range t.contenders {
			s := t.sides[key][who]
			switch {
			case s == nil || len(s.values) == 0:
				continue
			case base == nil:
				base, baseline = s, who
				continue
			}
			for fact, all := range t.facts {
				if !shareKey(all[baseline], all[who]) {
					continue // the list of differences tells it
				}
				a, b := base.factText(fact), s.factText(fact)
				if a == b {
					continue
				}
				if _, warned := first[fact]; !warned {
					where := ""
					if key.cell != "" {
						where = " at " + key.cell
					}
					first[fact] = fmt.Sprintf("Results that are compared differ in %q: %s has %s and %s has %s%s", fact, baseline, a,
						who, b, where)
				}
				lists.Inner(cells, fact)[key.cell] = true
			}
		}
	}
	for _, fact := range slices.Sorted(maps.Keys(first)) {
		text := first[fact]
		if more := len(cells[fact]) - 1; more > 0 {
			text += " (and other values at " + unit.Count(more, "other cell") + ")"
		}
		out = append(out, text+".")
	}
	return out
}

// factText lists the values of a fact of a side.
func (s *side) factText(fact string) string {
	values := map[string]bool{}
	for _, rec := range s.records {
		if v, ok := rec.Facts[fact]; ok {
			values[v] = true
		} else {
			values[unavailable] = true
		}
	}
	return quoteAll(slices.Sorted(maps.Keys(values)))
}

// shareKey reports whether two sets have a common element.
func shareKey(a, b map[string]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

func noContender(name string, there []string) error {
	return fault.New(fault.Invalid, "the baseline %q is not a contender; use one of %s", name, quoteAll(there))
}

// sequence returns what is known about the order of two sides.
func (t *table) sequence(a, b []placed) Order {
	all := append(slices.Clone(a), b...)
	one := true
	timed := true
	for _, x := range all {
		one = one && x.source == all[0].source
		timed = timed && !x.When.IsZero()
	}
	if t.doc.InOrder && together(a, b) {
		return Together
	}
	if !(one && t.doc.InOrder) && !timed {
		return Unknown
	}
	type step struct {
		at     time.Time
		source int
		turn   int
		side   bool
	}
	var steps []step
	for i, x := range all {
		steps = append(steps, step{x.When, x.source, x.Turn, i < len(a)})
	}
	slices.SortStableFunc(steps, func(x, y step) int {
		return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.source, y.source), cmp.Compare(x.turn, y.turn))
	})
	changes := 0
	for i := 1; i < len(steps); i++ {
		x, y := steps[i-1], steps[i]
		if x.side == y.side {
			continue
		}
		changes++
		if !(one && t.doc.InOrder) && x.at.Equal(y.at) && (x.source != y.source || !t.doc.InOrder) {
			return Unknown
		}
	}
	if changes > 1 {
		return Turns
	}
	return Sequence
}

// together reports whether records of two sides were measured at the same time.
func together(a, b []placed) bool {
	type place struct{ source, turn int }
	at := lists.Set(a, func(x placed) place { return place{x.source, x.Turn} })
	return slices.ContainsFunc(b, func(x placed) bool { return at[place{x.source, x.Turn}] })
}
