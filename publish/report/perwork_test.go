package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// charged is the example with counters in every trial: a request takes ten context
// switches on the host and twenty under crun, and reads nothing from a disk.
func charged() (*contents, analysis.Data) {
	d, p := example()
	e := &contents{base: "run", results: analysis.Analyse(d), plan: p, hasPlan: true}
	v := func(f float64) *float64 { return &f }
	const busy = .5 // seconds
	for _, o := range d.Observations {
		if o.Failed {
			continue
		}
		requests := busy / o.Values[1].Value
		switches := 10 * requests
		if o.Contender == "crun" {
			switches *= 2
		}
		l := store.Line{Type: store.LineTrial, Block: o.Block, Contender: o.Contender, Instance: o.Instance, Status: store.OK,
			Trial: &store.Trial{Position: o.Position, Cell: o.Cell,
				Before: &facts.Counters{CPU: &facts.CPU{}, ContextSwitches: v(7), ReadOps: v(3)},
				After: &facts.Counters{AtNS: 1e9, CPU: &facts.CPU{User: .3 * busy, System: .7 * busy},
					ContextSwitches: v(7 + switches), ReadOps: v(3),
					Unavailable: map[string]string{"interrupts": "this kernel <b>hides</b> them"}}}}
		e.lines = append(e.lines, l)
	}
	return e, d
}

// rowsOf are the rows of a counter, by contender.
func rowsOf(t table, counter string) map[string][]string {
	out := map[string][]string{}
	for _, r := range t.Rows {
		if r[0] == counter {
			out[r[1]] = r
		}
	}
	return out
}

// Counters are charged to the work by the cost in CPU time, and compared within blocks.
func TestCountersPerRequest(t *testing.T) {
	e, _ := charged()
	e.makeHarmless()
	b := newBuilder(e)
	got, why := b.perWork(e.results.Cells[3])
	if why != "" || got.Caption != "Counters per request at http-50" {
		t.Fatalf("%q: %s", got.Caption, why)
	}
	switches := rowsOf(got, "context switches")
	if r := switches["host"]; fmt.Sprint(r[2:]) != "[10.0 26 – –]" {
		t.Errorf("host: %q", r)
	}
	if r := switches["crun"]; r[2] != "20.0" || r[4] != "2.00×" || !strings.Contains(r[5], "2.00×") {
		t.Errorf("crun: %q", r)
	}
	if r := switches["chroot"]; r[4] != "0 %" {
		t.Errorf("chroot: %q", r)
	}
	if switches["microvm"] != nil {
		t.Errorf("a contender without a trial: %q", switches["microvm"])
	}
	cost := b.summaries[[3]string{"host", "http-50", "cpu-per-request"}].Median
	user, system := .3**cost, .7**cost
	if r := rowsOf(got, "user time")["host"]; r[2] != perUnit(&user, "s") {
		t.Errorf("user time %q of %v", r, *cost)
	}
	if r := rowsOf(got, "system time")["host"]; r[2] != perUnit(&system, "s") {
		t.Errorf("system time %q of %v", r, *cost)
	}
	for _, want := range []string{"Zero in all trials: interrupt time, disk reads.",
		"Unavailable, because the host does not report them: interrupts (this kernel <b>hides</b> them), new processes",
		notCounted} {
		if !strings.Contains(got.Note, want) {
			t.Errorf("the note lacks %q: %s", want, got.Note)
		}
	}
	// A cell whose work costs no known CPU time has no table, and needs no reason.
	if got, why := b.perWork(e.results.Cells[2]); len(got.Rows) > 0 || why != "" {
		t.Errorf("files: %v, %q", got.Rows, why)
	}
}

// A counter that is zero in some trials is compared by difference.
func TestCountersThatAreSometimesZero(t *testing.T) {
	e, _ := charged()
	v := func(f float64) *float64 { return &f }
	for _, l := range e.lines {
		if l.Cell == "http-50" && l.Contender == "crun" {
			l.After.ReadOps = v(3 + 1e5)
		}
	}
	e.makeHarmless()
	got, _ := newBuilder(e).perWork(e.results.Cells[3])
	r := rowsOf(got, "disk reads")
	if r["host"] == nil || r["crun"] == nil || r["host"][2] != "0" || !strings.HasPrefix(r["crun"][4], "+") ||
		strings.ContainsAny(r["crun"][4], "%×") {
		t.Errorf("%q", r)
	}
}

// Without counters, without costs, or with more trials than a page computes, the page says
// why there is no table. Numbers of a stranger neither stop the page nor count.
func TestCountersPerRequestUnavailable(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*contents)
		want   string
	}{
		"no counters": {func(e *contents) { e.lines = nil }, "the journal has no counters of its trials"},
		"no costs": {func(e *contents) {
			e.results.Summaries = nil
			e.results.Unavailable = []analysis.Unavailable{{Cell: "http-50", Metric: "cpu-per-request", Reason: "too coarse"}}
		}, "cpu-per-request has no value: too coarse"},
		"zero costs": {func(e *contents) {
			for i := range e.results.Summaries {
				for k := range e.results.Summaries[i].Samples {
					e.results.Summaries[i].Samples[k].Value = 0
				}
			}
		}, "cpu-per-request has no value with counters"},
		"too many": {func(e *contents) {
			e.lines = slices.DeleteFunc(e.lines, func(l store.Line) bool { return l.Cell != "http-50" })
			for len(e.lines) <= maxWorkTrials {
				e.lines = append(e.lines, e.lines...)
			}
		}, "are too many for a page"},
		"stranger": {func(e *contents) {
			v := 1e300
			for i, l := range e.lines {
				l.After.ContextSwitches = &v
				if i%2 == 0 {
					l.After.CPU = nil
				}
			}
		}, ""},
	} {
		e, _ := charged()
		x.change(e)
		e.makeHarmless()
		got, why := newBuilder(e).perWork(e.results.Cells[3])
		if !strings.Contains(why, x.want) || (why == "") != (len(got.Rows) > 0) {
			t.Errorf("%s: %d rows, %q", name, len(got.Rows), why)
		}
		if rows := rowsOf(got, "context switches"); len(rows) > 0 && name == "stranger" {
			t.Errorf("a number that cannot be: %q", rows)
		}
	}
}

// The table is on the page, a part of the report for posts, and folded in Markdown.
func TestCountersPerRequestAreShown(t *testing.T) {
	e, _ := charged()
	e.strips = map[cellOf]*spent{}
	e.makeHarmless()
	var page bytes.Buffer
	must(t, renderPage(&page, buildPage(e, Option{}).page))
	doc := sound(t, "", page.String())
	for _, want := range []string{"Counters per request at http-50", "Counters per op at syscall",
		"context switches crun 20.0 26 2.00×",
		"this kernel <b>hides</b> them"} {
		if !strings.Contains(doc.text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var text bytes.Buffer
	must(t, writeMarkdown(&text, e, Option{}))
	for _, want := range []string{"<details><summary>Counters per request at http-50</summary>\n\n| counter |",
		"| context switches | crun | 20.0 | 26 | 2.00× |", "&lt;b&gt;hides", "</details>"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the Markdown lacks %q:\n%s", want, text.String())
		}
	}
	d, p := example()
	parts, err := Parts(folder(t, d, p, analysis.Analyse(d)), Option{})
	must(t, err)
	i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == "counters-syscall" })
	if i < 0 || len(parts[i].Table.Rows) == 0 || parts[i].Href != "report/index.html#counters-syscall" {
		t.Errorf("no part of the counters: %d", i)
	}
}
