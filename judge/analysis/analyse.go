package analysis

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
)

// Analyse turns the observations of a run into summaries, comparisons and
// verdicts. It depends on nothing but d, not even on the order of d.Observations,
// and does not modify d. Further blocks of a run never change a verdict.
func Analyse(d Data) Results {
	warnings := d.checkDesign()
	r := Results{
		Schema: ResultsSchema, Rules: Rules, Run: d.Run, Seed: d.Seed, PlanSHA256: d.PlanSHA256, Baseline: d.Baseline,
		Margin: d.Margin, Looks: nonNil(d.Looks), Alphas: nonNil(d.Alphas), Ended: d.Ended, Void: d.Void,
		Contenders: nonNil(d.Contenders), Cells: nonNil(d.Cells),
		Summaries: []Summary{}, Comparisons: []Comparison{}, Warnings: warnings,
	}
	if r.InstanceSets = d.instanceSets(); r.InstanceSets > 1 {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("one environment of each contender was meant to serve all blocks, but %d did, one after another: "+
				"the run was resumed, or a block was void. The variation between environments was therefore sampled only "+
				"%d times, whatever the number of blocks; the verdicts hold for these instances only.",
				r.InstanceSets, r.InstanceSets))
	}
	r.Protocols = d.protocols()
	r.Warnings = append(append(r.Warnings, d.tieWarnings()...), protocolWarnings(r.Protocols)...)
	t := indexObservations(&d)
	r.Blocks = len(t.blocks)
	var wanted []place
	for c := range d.Contenders {
		for k, cell := range d.Cells {
			for _, m := range cell.Metrics {
				wanted = append(wanted, place{c, k, m})
			}
		}
	}
	summaries := make([]*Summary, len(wanted))
	forEachParallel(len(wanted), func(i int) {
		w := wanted[i]
		contender, cell := d.Contenders[w.contender].Name, d.Cells[w.cell].Name
		if s, ok := summarise(t.series[w.contender][w.cell], contender, cell, w.metric, d.repeats()); ok {
			summaries[i] = &s
		}
	})
	for _, s := range summaries {
		if s != nil {
			r.Summaries = append(r.Summaries, *s)
		}
	}
	r.Missing = d.missing(t)
	r.Unavailable = d.unavailable(t)
	run := d.compare(t, r.Missing)
	for _, c := range run.main {
		r.Comparisons = append(r.Comparisons, c.Comparison)
	}
	if r.asked = HasLimit(d.FailOn); r.asked {
		r.Limits = d.answerLimits(run.main, r.Missing)
		r.limitsOnly = !slices.ContainsFunc([]Verdict{Worse, Better, Inconclusive}, func(v Verdict) bool {
			return slices.Contains(d.FailOn, string(v))
		})
	}
	d.warnAcrossHosts(r.Comparisons)
	d.caveats(r.Comparisons)
	if d.Twin != "" {
		r.Twin = &Twin{Name: d.Twin, Comparisons: []Comparison{}}
		for _, c := range run.twin {
			r.Twin.Comparisons = append(r.Twin.Comparisons, c.Comparison)
			r.Twin.Different = r.Twin.Different || c.Primary && c.differs
		}
		d.caveats(r.Twin.Comparisons)
	}
	r.Unused = run.unusedBlocks(t.blocks)
	return r
}

// scopeOf returns the scope of the verdicts of a cell.
func (d *Data) scopeOf(k Cell) Scope {
	if k.Fresh {
		return ScopeMachine
	}
	return d.Scope
}

// instanceSets returns the largest number of environments of one contender that
// served the blocks, if one was meant to serve them all; otherwise, or if the
// environments are unknown, 0.
func (d *Data) instanceSets() int {
	fresh := len(d.Cells) > 0 && !slices.ContainsFunc(d.Cells, func(k Cell) bool { return !k.Fresh })
	if d.Scope != ScopeInstance || fresh {
		return 0
	}
	seen, sets, most := map[[2]string]bool{}, map[string]int{}, 0
	for _, o := range d.Observations {
		if at := [2]string{o.Contender, o.Instance}; o.Instance != "" && !seen[at] {
			seen[at] = true
			sets[o.Contender]++
			most = max(most, sets[o.Contender])
		}
	}
	return most
}

// checkDesign returns warnings about drivers and about a design that cannot be used as it is.
func (d *Data) checkDesign() []string {
	out := []string{}
	for _, c := range d.Contenders {
		// driver.Unproven, as the controller wrote it into the fingerprint.
		if c.Facts["status"] == "unproven" {
			out = append(out, fmt.Sprintf("%s: the driver %s is unproven: it was tested with a simulation of its commands "+
				"only, never with the real technology; "+
				"run `bakeoff doctor --prove %s` to test it on this machine",
				c.Name, c.Driver, c.Driver))
		}
	}
	if !(d.Margin >= 0) || math.IsInf(d.Margin, 0) {
		out = append(out, fmt.Sprintf("the margin %v is not a share: bakeoff used 0 instead, so no verdict can be "+
			"\"equivalent\"",
			d.Margin))
		d.Margin = 0
	}
	if len(d.Looks) != len(d.Alphas) {
		out = append(out, fmt.Sprintf("%d looks and %d alphas: only the first %d were used",
			len(d.Looks), len(d.Alphas), min(len(d.Looks), len(d.Alphas))))
	}
	if !slices.IsSorted(d.spendingLooks()) {
		out = append(out, "the looks are not in ascending order: a look below an earlier one was skipped")
	}
	return out
}

// missing lists the cells of contenders without any value: those that the run
// could not start and those in which no trial succeeded.
func (d *Data) missing(t *table) []Missing {
	out := []Missing{}
	for c, name := range d.Contenders {
		for k, cell := range d.Cells {
			s := t.series[c][k]
			if len(s) > 0 && s.succeeded(cell) {
				continue
			}
			reason, known, gone := "", false, false
			for _, m := range d.Missing {
				if m.Contender == name.Name && m.Cell == cell.Name {
					reason, known, gone = m.Reason, true, m.Gone
				}
			}
			if len(s) > 0 && !known {
				reason, known = fmt.Sprintf("none of %d trials succeeded", len(s)), true
				if s[0].Reason != "" {
					reason += ": " + s[0].Reason
				}
			}
			if len(s) == 0 && !known && d.Elsewhere { // bakeoff itself knows what it did not start
				reason, known = "no values", true
			}
			if known {
				out = append(out, Missing{Contender: name.Name, Cell: cell.Name, Reason: reason, Gone: gone})
			}
		}
	}
	return out
}

// noCPUTime is the reason why a cost in CPU time may have no value.
const noCPUTime = "no trial could measure the CPU time of the timed part: the counters of the host are too coarse, " +
	"or the guest counts CPU time in whole timer ticks"

// unavailable lists the metrics without a value of which a reason is known, in cells that
// have other values.
func (d *Data) unavailable(t *table) (out []Unavailable) {
	for c, name := range d.Contenders {
		for k, cell := range d.Cells {
			s := t.series[c][k]
			if !s.succeeded(cell) {
				continue
			}
			for _, m := range cell.Metrics {
				reason, known := d.noEnergy(m)[name.Name]
				known = known && strings.HasPrefix(m.Unit, "J/")
				if m.CPUTime {
					reason, known = noCPUTime, true
				}
				if why := s.absenceReason(m.Name); why != "" {
					reason, known = why, true
				}
				if !known || s.succeeded(Cell{Metrics: []sample.Metric{m}}) {
					continue
				}
				out = append(out, Unavailable{Contender: name.Name, Cell: cell.Name, Metric: m.Name, Reason: reason})
			}
		}
	}
	return out
}

// noEnergy is contender → reason why a metric of energy may have no value.
func (d *Data) noEnergy(m sample.Metric) map[string]string {
	if m.GeneratorHost {
		return d.NoGeneratorEnergy
	}
	return d.NoEnergy
}

// drafts are all comparisons of a run: those of the contenders and those of the twin.
type drafts struct{ main, twin []*draft }

// compare makes every comparison whose two sides both succeeded at least once,
// and decides the two families.
func (d *Data) compare(t *table, missing []Missing) drafts {
	var out drafts
	gone := lists.Set(missing, func(m Missing) [2]string { return [2]string{m.Contender, m.Cell} })
	base, ok := t.contenders[d.Baseline]
	if !ok {
		return out
	}
	var families [2][]*draft
	var sizes [2]int
	var plain []*draft // comparisons that get no verdict
	var wanted []place
	for c, name := range d.Contenders {
		if c == base {
			continue
		}
		twin := d.familyOf(c)
		for k, cell := range d.Cells {
			lost := gone[[2]string{name.Name, cell.Name}] || gone[[2]string{d.Baseline, cell.Name}]
			tried := len(t.series[c][k]) > 0 && len(t.series[base][k]) > 0
			for _, m := range cell.Metrics {
				if m.Primary && (!lost || tried) {
					sizes[twin]++ // a comparison that was tried keeps its share even if it is missing
				}
				if lost {
					continue
				}
				wanted = append(wanted, place{c, k, m})
			}
		}
	}
	made := make([]*draft, len(wanted))
	forEachParallel(len(wanted), func(i int) {
		made[i] = d.newDraft(t, wanted[i].contender, base, wanted[i].cell, wanted[i].metric)
	})
	for i, x := range made {
		twin := d.familyOf(wanted[i].contender)
		switch {
		case wanted[i].metric.Primary:
			families[twin] = append(families[twin], x)
		case len(x.blocks) == 0:
			continue // this platform does not have the metric
		default:
			plain = append(plain, x)
		}
		if twin == 1 {
			out.twin = append(out.twin, x)
		} else {
			out.main = append(out.main, x)
		}
	}
	forEachParallel(len(plain), func(i int) { plain[i].describe() })
	for i, f := range families {
		d.decideFamily(f, sizes[i])
	}
	return out
}

// familyOf returns the family of a contender's comparisons: 1 for the twin's, 0 for
// the others'.
func (d *Data) familyOf(contender int) int {
	if d.Contenders[contender].Name == d.Twin {
		return 1
	}
	return 0
}

// place is a metric of a cell on one contender; both are indexes.
type place struct {
	contender, cell int
	metric          sample.Metric
}

// forEachParallel calls f(0) to f(n-1) on all processors. The calls must be independent of
// each other.
func forEachParallel(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// unusedBlocks counts the blocks after the one at which the last comparison got its
// verdict or had its last look; 0 while one is pending.
func (cs drafts) unusedBlocks(blocks []int) int {
	family := cs.main
	if !slices.ContainsFunc(family, func(c *draft) bool { return c.Primary }) {
		family = cs.twin
	}
	last, any := 0, false
	for _, c := range family {
		switch {
		case !c.Primary:
		case c.closed || c.Unused > 0:
			b := c.blocks[c.Blocks-1].index
			if !any || b > last {
				last, any = b, true
			}
		default:
			return 0
		}
	}
	if !any {
		return 0
	}
	n, _ := slices.BinarySearch(blocks, last+1)
	return len(blocks) - n
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
