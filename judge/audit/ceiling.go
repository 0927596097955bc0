package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A row is at a ceiling from this share of it: what remains is lost in gaps,
// acknowledgements and counting.
const near = 0.9

// Ethernet, IPv4 and TCP with time stamps add this to the data of a full
// frame of 1500 bytes: preamble 8, header 14, check sequence 4, gap 12, IP
// 20, TCP 32 (IEEE 802.3; RFC 791, 9293, 7323).
const (
	frameData  = 1448
	frameExtra = 90
)

// ceiling is the largest value that a column can show, in its unit, and why.
type ceiling struct {
	what  string // "the link of 2.5 Gbit/s"
	why   string // how value follows from it
	value float64
	// hard means that more is impossible by definition. It is not a resource
	// that makes rows look equal.
	hard bool
}

// because says in brackets how much k allows in col, and why.
func (k ceiling) because(col *Column) string {
	v := numberText(k.value)
	if k.value >= 1000 {
		v = fmt.Sprintf("%.0f", k.value)
	}
	text := strings.TrimSpace(v + " " + col.Unit)
	if k.why != "" {
		text += ": " + k.why
	}
	return " (" + text + ")"
}

// ceilings lists what bounds a column: the link, the processor for what a
// tool does in an event, and what the file says of it.
func (t *Table) ceilings(col *Column) []ceiling {
	return computedOnce(&t.bounds, col, t.ceilingsOf)
}

// computedOnce returns what of gives for a column, computed once.
func computedOnce[V any](all *map[*Column]V, col *Column, of func(*Column) V) V {
	v, ok := (*all)[col]
	if !ok {
		v = of(col)
		if *all == nil {
			*all = map[*Column]V{}
		}
		(*all)[col] = v
	}
	return v
}

func (t *Table) ceilingsOf(col *Column) (out []ceiling) {
	e := t.Experiment
	if e.Link > 0 && e.Payload > 0 && perSecond(col.Unit) && !t.isIncluded(col) {
		body := float64(e.Payload + e.Headers)
		wire := body + math.Ceil(body/frameData)*frameExtra
		out = append(out, ceiling{
			what:  "the link of " + bitrateText(float64(e.Link)),
			why:   fmt.Sprintf("an answer takes %.0f bytes on the wire", wire),
			value: float64(e.Link) / 8 / wire,
		})
	}
	if c, ok := t.processor(col); ok {
		out = append(out, c)
	}
	for _, l := range col.Limits {
		out = append(out, ceiling{what: l.What, value: l.Value, hard: !l.Shared})
	}
	return out
}

func perSecond(unit string) bool {
	return slices.Contains([]string{"request/s", "requests/s", "answer/s"}, unit)
}

func bitrateText(v float64) string {
	if v >= 1e9 {
		return numberText(v/1e9) + " Gbit/s"
	}
	return numberText(v/1e6) + " Mbit/s"
}

// processor bounds the events of a tool whose work for one event is known: a
// core does not begin more than one division in a cycle.
func (t *Table) processor(col *Column) (ceiling, bool) {
	hz, threads := float64(t.Experiment.Machine.Hz), 1
	for _, tool := range t.Experiment.Tools {
		if !tool.measures(col) || hz == 0 || col.Unit != "event/s" {
			continue
		}
		work, ok := tool.divisions()
		if !ok {
			continue
		}
		if n, ok := tool.optionNumber("threads"); ok && n > 0 {
			threads = int(min(n, 1<<16))
		}
		return ceiling{
			what:  "the processor",
			why:   fmt.Sprintf("%.0f divisions per event at %s GHz, at most one per cycle", work, numberText(hz/1e9)),
			value: hz * float64(threads) / work,
		}, true
	}
	return ceiling{}, false
}

// lowestCeiling returns the ceiling that r comes nearest to, and how near: 1 at it.
func (t *Table) lowestCeiling(col *Column, r *Row) (c ceiling, share float64) {
	v := r.Values[col.Name]
	if !v.Known() {
		return c, 0
	}
	for _, k := range t.ceilings(col) {
		if s := v.Lo / k.value; s > share {
			c, share = k, s
		}
	}
	return c, share
}

var impossibleCheck = Check{
	Name: "impossible",
	Doc: "A figure exceeds a physical limit. Examples are more events than the processor has cycles for, more bytes " +
		"than the link can carry, or more simultaneous requests than clients. An impossible figure does not " +
		"measure what its label says. In sysbench's CPU test, the usual cause is an empty loop: the " +
		"compiler removes the calls to sqrt, because nothing uses their results.",
	claim: func(t *Table, c *comparison) (out []Reason) {
		for _, r := range c.decisive() {
			if k, share := t.lowestCeiling(c.column, r); share > 1 {
				out = append(out, because(Undoes, "an impossible figure: %s is %s times the maximum that %s "+
					"allows%s", c.showCell(r),
					timesText(share), k.what, k.because(c.column))...)
			}
		}
		return out
	},
	column: func(t *Table, col *Column) []string {
		var rows []string
		var k ceiling
		worst := 0.0
		for j := range t.Rows {
			if c, share := t.lowestCeiling(col, &t.Rows[j]); share > 1 {
				rows = append(rows, t.Rows[j].titleOrName())
				if share > worst {
					worst, k = share, c
				}
			}
		}
		if len(rows) == 0 {
			return nil
		}
		text := fmt.Sprintf("%s: impossible for %s, up to %s times the maximum that %s "+
			"allows%s", col.titleOrName(), shortened(rows),
			timesText(worst), k.what, k.because(col))
		if t.emptyLoop(col) {
			text += "; an empty loop was timed: sysbench does not use the counter of its CPU test, and a compiler that may " +
				"take sqrt for pure removes the work"
		}
		return []string{text}
	},
}

var ceilingCheck = Check{
	Name: "ceiling",
	Doc: "A row uses at least 90 % of the link's capacity, counting frame overhead. A row at this ceiling describes " +
		"the link, not the system. Only the cost per request (CPU seconds, context switches) can distinguish two " +
		"systems at the ceiling. If one row is at the ceiling and another row is below the ceiling, the true " +
		"difference is at least as large as the printed difference.",
	claim: func(t *Table, c *comparison) []Reason {
		var at []string
		var k ceiling
		for _, r := range c.decisive() {
			if l, share := t.lowestCeiling(c.column, r); share >= near && share <= 1 && !l.hard {
				at, k = append(at, r.titleOrName()), l
			}
		}
		switch {
		case len(at) == 0:
			return nil
		case len(at) == 2:
			return because(Undoes, "both are at the ceiling of %s%s: the table measured the ceiling, not the two "+
				"systems", k.what,
				k.because(c.column))
		}
		return because(Qualifies, "%s is at the ceiling of %s%s: the limit of the system itself is unknown", at[0], k.what,
			k.because(c.column))
	},
	column: func(t *Table, col *Column) []string {
		var rows []string
		var k ceiling
		for j := range t.Rows {
			if l, share := t.lowestCeiling(col, &t.Rows[j]); share >= near && share <= 1 && !l.hard {
				rows, k = append(rows, t.Rows[j].titleOrName()), l
			}
		}
		if len(rows) == 0 {
			return nil
		}
		return oneFinding(
			"%s: %d of %d rows reach %s or more of %s%s, so the column does not show which is faster: %s",
			col.titleOrName(),
			len(rows), len(t.Rows), percent(near), k.what, k.because(col), shortened(rows))
	},
}

var idleCheck = Check{
	Name: "idle",
	Doc: "A server had idle CPU, so it was not at its limit. Something else limited the rate: the link, the client, " +
		"or a lock.",
	column: func(t *Table, col *Column) []string {
		var rows []string
		for j := range t.Rows {
			if v := t.Rows[j].Values[col.Name]; v.Known() && v.Lo >= 5 {
				rows = append(rows, fmt.Sprintf("%s %s %%", t.Rows[j].titleOrName(), numberText(v.Value)))
			}
		}
		if col.Role != "idle" || len(rows) == 0 {
			return nil
		}
		return oneFinding("%s: CPU was idle, so something else limited the rate: %s", col.titleOrName(), shortened(rows))
	},
}

var plateauCheck = Check{
	Name: "plateau",
	Doc: "Three or more systems at the top of the table are within 1 % of each other, and the other systems are " +
		"well below them. A common limit (the link, the client, one CPU) is then likelier than equal systems. The " +
		"check applies only if no limit is known.",
	column: func(t *Table, col *Column) []string {
		if col.Better != "higher" || !strings.HasSuffix(col.Unit, "/s") || col.Role != "" || col.Formula != "" ||
			t.isBound(col) || t.isIncluded(col) {
			return nil
		}
		var vs []float64
		for _, r := range t.Rows {
			if v := r.Values[col.Name]; v.Known() && v.State == "" && v.Hi-v.Lo < 0.02*v.Value {
				vs = append(vs, v.Value)
			}
		}
		slices.Sort(vs)
		if len(vs) < 4 || vs[len(vs)-1] <= 0 {
			return nil
		}
		top := vs[len(vs)-1]
		n := len(vs) - slices.IndexFunc(vs, func(v float64) bool { return v >= 0.99*top })
		if n < 3 || vs[0] >= 0.9*top {
			return nil
		}
		return oneFinding(
			"%s: %d of %d rows lie within 1 %% of the best: a common ceiling (link, client, CPU) is likelier than "+
				"equal systems", col.titleOrName(), n, len(vs))
	},
}

// isBound reports whether a resource is known to bound some row of col.
func (t *Table) isBound(col *Column) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool {
		k, share := t.lowestCeiling(col, &r)
		return share >= near && !k.hard
	})
}
