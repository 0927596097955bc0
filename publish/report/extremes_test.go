package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
)

// shape is a run that is unusual in its size, its names or its luck.
type shape struct {
	contenders []string // the baseline first
	cells      []string
	blocks     int
	ended      string
	dead       string // a contender of which every trial fails
	judged     int    // cells whose first metric gets verdicts; the others are shown
	says       []string
}

// simulated makes a run of a shape: each contender a little slower than the one
// before it, at every cell.
func simulated(s shape) (analysis.Data, plan.Plan) {
	rng := rand.New(rand.NewPCG(7, 11))
	names := append(slices.Clone(s.contenders), s.contenders[0]+name.TwinSuffix)
	d := analysis.Data{Run: "20261121T200000Z-extremes", Seed: 7, Baseline: names[0], Twin: names[len(names)-1],
		Margin: 0.02,
		Looks:  looks, Alphas: alphas, Scope: analysis.ScopeMachine, Trials: 2, Ended: s.ended,
		Meant: []string{"driver"}, Facts: map[string]map[string]string{}}
	p := plan.Plan{Schema: plan.Schema, Lab: "extremes", Seed: 7, Baseline: d.Baseline, Twin: d.Twin,
		Design: manifest.Design{Margin: 0.02, Looks: looks, Alphas: alphas, Instances: "block", Mirror: true,
			Budget: 30 * time.Minute}}
	for _, n := range names {
		c := analysis.Contender{Name: n, Driver: "host", Host: "local"}
		if n == d.Twin {
			c.TwinOf = d.Baseline
		}
		d.Contenders = append(d.Contenders, c)
		d.Facts[n] = map[string]string{"kernel": "Linux 6.18.3"}
		p.Contenders = append(p.Contenders, plan.Contender{Contender: manifest.Contender{Name: n, Driver: "host",
			Host: "local", CPUs: 1, Memory: 512 * unit.MiB}, TwinOf: c.TwinOf})
	}
	for i, n := range s.cells {
		d.Cells = append(d.Cells, analysis.Cell{Name: n, Workload: "cpu",
			Params: param.Values{"max": "20000", "time": "500ms"}, Metrics: []sample.Metric{
				{Name: "throughput", Unit: "op/s", Better: sample.Higher, Primary: i < s.judged, Scale: sample.Ratio,
					Doc: "operations in a second"}}})
	}
	for k := range s.blocks {
		position := 0
		for _, c := range d.Cells {
			for range 2 {
				for i, n := range names {
					o := analysis.Observation{Block: k, Position: position, Instance: fmt.Sprintf("%d-%d", i, k), Contender: n,
						Cell: c.Name}
					position++
					if n == s.dead {
						o.Failed, o.Reason = true, "exit code 139: segmentation fault"
					} else {
						speed := 1e6 * math.Pow(0.985, float64(i%(len(names)-1))) * math.Exp(0.006*rng.NormFloat64())
						o.Values = []sample.Value{{Metric: "throughput", Unit: "op/s", Value: speed}}
					}
					d.Observations = append(d.Observations, o)
				}
			}
		}
	}
	return d, p
}

func numbered(what string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", what, i+1))
	}
	return out
}

// What is unusual is no reason for a page that cannot be read. Each is kept by
// -keep, for a person to look at.
func TestUnusualRuns(t *testing.T) {
	long := "a-contender-with-a-name-that-is-as-long-" // as lab files allow
	for name, s := range map[string]shape{
		"many contenders": {contenders: append([]string{"host"}, numbered("contender", 20)...), cells: []string{"cpu"},
			blocks: 12, ended: "blocks", judged: 1, says: []string{"20 comparisons"}},
		"many cells": {contenders: []string{"host", "crun", "microvm"}, cells: numbered("cell", 12), blocks: 12,
			ended: "blocks", judged: 4, says: []string{"8 comparisons", "8 of 12 cells"}},
		"long names": {contenders: []string{"host", long[:39] + "1", long[:39] + "2"},
			cells: []string{strings.Repeat("w", 40), strings.Repeat("i", 40)}, blocks: 12, ended: "blocks", judged: 2},
		"one contender": {contenders: []string{"host", "crun"}, cells: []string{"cpu"}, blocks: 12,
			ended: analysis.EndedDecided, judged: 1, says: []string{"1 comparison:", "every primary comparison has a verdict"}},
		"dead": {contenders: []string{"host", "crun", "dead"}, cells: []string{"cpu", "memory"}, blocks: 12,
			ended: "blocks", dead: "dead", judged: 1, says: []string{"∅ 1 missing",
				"dead has no result at memory: none of 24 trials succeeded: exit code 139"}},
		"one block": {contenders: []string{"host", "crun", "microvm"}, cells: []string{"cpu", "memory", "files"},
			blocks: 1, ended: analysis.EndedInterrupted, judged: 3, says: []string{"on 3 cells, 1 block.", "it was interrupted",
				"nothing is decided before the first look, after 8 blocks", "? 6 inconclusive"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, p := simulated(s)
			r := analysis.Analyse(d)
			dir, page := written(t, d, p, r)
			doc := sound(t, dir, page)
			t.Logf("%d bytes", len(page))
			out := text(t, r, Terminal{})
			t.Log("\n" + out)
			for _, line := range strings.Split(out, "\n") {
				if n := utf8.RuneCountInString(line); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			if strings.Contains(out, long[:20]) && (!strings.Contains(out, "long1 ") || !strings.Contains(out, "long2 ")) {
				t.Error("beside their bars the names cannot be told apart")
			}
			for _, want := range s.says {
				if !strings.Contains(doc.text, want) {
					t.Errorf("the page does not say %q", want)
				}
			}
		})
	}
}
