package report

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
)

// Sentences, bars, tables and charts have the contenders in one order: the best first,
// or that of the lab file.
func TestOrderOfContenders(t *testing.T) {
	d, p := example()
	r := analysis.Analyse(d)
	for order, want := range map[Order][]string{
		"": {"crun", "chroot", "microvm"}, ByEstimate: {"crun", "chroot", "microvm"}, ByLab: {"chroot", "crun", "microvm"},
	} {
		e := &contents{results: copied(t, r), plan: p, hasPlan: true, order: order}
		b := newBuilder(e)
		b.verdicts()
		b.percents()
		b.showCells()
		g := b.page.Groups[slices.IndexFunc(b.page.Groups, func(g group) bool { return g.Cell == "files" })]
		var sentences []string
		for _, s := range g.Items {
			sentences = append(sentences, s.Contender)
		}
		if !slices.Equal(sentences, want) {
			t.Errorf("%q: sentences of %q, want %q", order, sentences, want)
		}
		for _, f := range append(slices.Clone(b.page.Percent), b.page.Cells[2].Figures...) {
			if !strings.HasPrefix(f.Title, "files, create: ") || strings.HasSuffix(f.Title, "order of measurement") {
				continue
			}
			var rows []string
			for _, row := range f.Numbers.Rows {
				if slices.Contains(want, row[0]) && !slices.Contains(rows, row[0]) {
					rows = append(rows, row[0])
				}
			}
			if !slices.Equal(rows, want) {
				t.Errorf("%q: %s has rows %q, want %q", order, f.Title, rows, want)
			}
		}
		out := text(t, r, Terminal{}, order)
		files := out[strings.Index(out, "files, create"):]
		if first := strings.Index(files, "crun") < strings.Index(files, "chroot"); first != (want[0] == "crun") {
			t.Errorf("%q:\n%s", order, files)
		}
	}
}

// A table for a pull request: medians, differences, intervals, verdicts and the run; no
// name can break the table or notify a person.
func TestMarkdown(t *testing.T) {
	d, _ := example()
	r := copied(t, analysis.Analyse(d))
	r.PlanSHA256 = "abc123"
	r.Missing[0].Reason = "a|b `c` @everyone <img> \x1b[2J"
	var out strings.Builder
	must(t, Markdown.Results(&out, r, nil, Option{}))
	for _, want := range []string{
		"| cell | metric | contender | host median | median | difference | 95 % CI | blocks | verdict |\n|---|",
		"| sha256-16k | throughput | microvm | 1841 MB/s | 95.5 MB/s | 5.19 % of the throughput | 5.15–5.24 % | 12 | " +
			"▼ worse by more than 2 % |",
		"| sha256-16k | throughput | crun | 1.84 GB/s | 1.83 GB/s | −0.01 % | −0.5 to +0.5 % | 12 | = equivalent |",
		"? inconclusive (check failed): ceiling |",
		"∅ missing: a\\|b \\`c\\` &#64;everyone &lt;img&gt; \uFFFD\\[2J |",
		"The twin (host under a second name): no difference found, as it should be (4",
		"Run 20261121T200000Z-static-web, seed 42, plan sha256 abc123.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "|") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 10 {
			t.Errorf("not nine columns: %s", line)
		}
	}
}

// A reader of a pull request has no other page: the table says what failed, what is
// missing, and what a run without another contender measured.
func TestMarkdownOfFailures(t *testing.T) {
	lone := func(dead string) analysis.Results {
		d, _ := simulated(shape{contenders: []string{"host"}, cells: []string{"cpu"}, blocks: 12, dead: dead, judged: 1})
		return analysis.Analyse(d)
	}
	example, _ := example()
	cautious := copied(t, analysis.Analyse(example))
	cautious.Comparisons[0].Caveat = "crun: direct=false, fits in memory"
	for name, x := range map[string]struct {
		r         analysis.Results
		want, not []string
	}{
		"some trials": {analysis.Analyse(example), []string{"| microvm |", " of 24 trials of microvm failed |"},
			[]string{"no other contender"}},
		"all trials of the only contender": {lone("host"), []string{": Only host on 1 cell, 12 blocks.",
			"There is no verdict: host has no other contender to compare with.",
			"- ∅ host has no result at cpu: none of 24 trials succeeded: exit code 139"}, []string{"| cell |"}},
		"not what it seems": {cautious, []string{"; crun: direct=false, fits in memory |"}, nil},
		"no other contender": {lone(""), []string{"There is no verdict: host has no other contender",
			"| cell | metric | host median | CI | trials |\n|---|---|--:|--:|--:|\n| cpu | throughput | "}, []string{"∅"}},
	} {
		var out strings.Builder
		must(t, Markdown.Results(&out, x.r, nil, Option{}))
		for _, want := range x.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, out.String())
			}
		}
		for _, not := range x.not {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: has %q:\n%s", name, not, out.String())
			}
		}
	}
}
