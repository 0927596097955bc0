package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/publish/difference"
)

func f(v float64) *float64 { return &v }

func TestSentences(t *testing.T) {
	base := analysis.Comparison{Contender: "vm", Baseline: "host", Cell: "http", Metric: "throughput", Unit: "request/s",
		Better: sample.Higher, Scale: sample.Ratio, Primary: true, Blocks: 26, Scope: analysis.ScopeMachine}
	n, yes, no := 14, true, false
	for _, x := range []struct {
		want   string
		change func(*analysis.Comparison)
	}{
		{"vm is equivalent to host at http throughput on this machine: " +
			"0.1 % faster (95 % CI 0.6 % slower to 0.9 % faster), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Equivalent, f(1.001), analysis.Interval{f(.994), f(1.009)}
			}},
		{"vm is equivalent to host at http throughput on this machine: " +
			"0.1 % faster (95 % CI 0.6 % slower to 0.9 % faster), 26 blocks; direct=false, fits in memory.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Equivalent, f(1.001), analysis.Interval{f(.994), f(1.009)}
				c.Caveat = "direct=false, fits in memory"
			}},
		{"vm is worse than host at http throughput on this machine: 12.3 % of the throughput " +
			"(95 % CI 12.1–12.6 %), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(1/8.1), analysis.Interval{f(.121), f(.126)}
			}},
		{"vm is worse than host by more than 2 % at http throughput on this machine: " +
			"5.0 % slower (95 % CI 4.0–6.0 %), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(.95), analysis.Interval{f(.94), f(.96)}
				c.BeyondMargin = &yes
			}},
		{"vm is worse than host, possibly by less than 2 %, at http throughput on this machine: " +
			"3.0 % slower (95 % CI 1.8–4.0 %), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(.97), analysis.Interval{f(.96), f(.982)}
				c.BeyondMargin = &no
			}},
		{"vm is better than host at http throughput on this machine: 3.1 % faster (95 % CI 2.5–3.7 %), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Better, f(1.031), analysis.Interval{f(1.025), f(1.037)}
			}},
		{"vm is better than host at http throughput on this machine: 2.50 times the throughput " +
			"(95 % CI 2.40–2.60 times), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Better, f(2.5), analysis.Interval{f(2.4), f(2.6)}
			}},
		{"vm is worse than host by more than 2 % at boot instructions on this machine: " +
			"8.8 % more, +56,892,575 instructions exactly (deterministic: all 4 trials of both sides agree), 1 block.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(1.088), analysis.Interval{f(1.088), f(1.088)}
				c.Cell, c.Metric, c.Unit, c.Better, c.Blocks = "boot", "instructions", "instruction", sample.Lower, 1
				c.Exact, c.BeyondMargin = &analysis.Exact{Difference: 56_892_575, Trials: 4}, &yes
			}},
		{"vm is equivalent to host at boot instructions on this machine: " +
			"exactly the same (deterministic: all 4 trials of both sides agree), 1 block.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Equivalent, f(1), analysis.Interval{f(1), f(1)}
				c.Cell, c.Metric, c.Unit, c.Better, c.Blocks = "boot", "instructions", "instruction", sample.Lower, 1
				c.Exact = &analysis.Exact{Trials: 4}
			}},
		{"vm is worse than host at http latency on this machine: 3.1 % slower (95 % CI 2.5–3.7 %), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(1.031), analysis.Interval{f(1.025), f(1.037)}
				c.Metric, c.Unit, c.Better = "latency", "s", sample.Lower
			}},
		{"vm is worse than host at http cpu-per-request on this machine: " +
			"costs 1.80 times as much (95 % CI 1.75–1.85 times), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(1.8), analysis.Interval{f(1.75), f(1.85)}
				c.Metric, c.Unit, c.Better = "cpu-per-request", "s/request", sample.Lower
			}},
		{"vm is better than host at http cpu-per-request on this machine: costs 40 % as much " +
			"(95 % CI 39–41 %), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Better, f(.4), analysis.Interval{f(.39), f(.41)}
				c.Metric, c.Unit, c.Better = "cpu-per-request", "s/request", sample.Lower
			}},
		{"vm against host is inconclusive at http throughput for these instances: 1.1 % slower " +
			"(95 % CI 5.0 % slower to 2.0 % faster), 26 blocks; " +
			"about 14 more blocks would decide it with 80 % probability.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI, c.MoreBlocks, c.Scope = analysis.Inconclusive, f(.989), analysis.Interval{f(.95),
					f(1.02)}, &n, analysis.ScopeInstance
			}},
		{"vm against host is inconclusive at http throughput on this machine: 3.00 times the throughput " +
			"(interim 95 % CI 0.500–5.00 times), 26 blocks; no verdict before the first look.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.Interim = analysis.Inconclusive, f(3), analysis.Interval{f(.5), f(5)}
			}},
		{"vm against host is inconclusive at http throughput on this machine: no estimate yet, 0 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Blocks = analysis.Inconclusive, 0
			}},
		{"vm against host is inconclusive at http throughput on this machine, because a check failed: " +
			"steal (7 % of the time was stolen; 12 of 52 trials); 1.1 % slower (95 % CI at most 5.0 % slower), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Inconclusive, f(.989), analysis.Interval{f(.95), nil}
				c.Gates = []analysis.Gate{{Name: "steal", Reason: "7 % of the time was stolen", Trials: 12, Of: 52}}
			}},
		{"vm is worse than host at http throughput on this machine: 5.0 % slower (95 % CI 2.0–8.0 %), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(.95), analysis.Interval{f(.92), f(.98)}
			}},
		{"vm is worse than host at http throughput on this machine: at least 5.0 % slower (95 % CI), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.CI = analysis.Worse, analysis.Interval{nil, f(.95)}
			}},
		{"vm is worse than host at http switches on this machine: a difference of +3.00 (95 % CI +2.00 to +4.00), 26 blocks.",
			func(c *analysis.Comparison) {
				c.Verdict, c.Ratio, c.CI = analysis.Worse, f(3), analysis.Interval{f(2), f(4)}
				c.Metric, c.Unit, c.Better, c.Scale = "switches", "1", sample.Lower, sample.Difference
			}},
	} {
		c := base
		x.change(&c)
		if got := sayComparison(c, .02, "95 % ", "", "").String(); got != x.want {
			t.Errorf("\n got %s\nwant %s", got, x.want)
		}
	}
}

// Where the environments of a run had to be made again the page says how many
// sets of them there were.
func TestScopeOfSeveralSets(t *testing.T) {
	for sets, want := range map[int]string{1: "The same environments served all blocks",
		2: "2 sets of environments served the blocks"} {
		r := analysis.Results{InstanceSets: sets, Comparisons: []analysis.Comparison{{Scope: analysis.ScopeInstance}}}
		if got := (&builder{contents: &contents{results: r}}).scopeNote(); !strings.Contains(got, want) {
			t.Errorf("%d sets: %q does not say %q", sets, got, want)
		}
	}
	b := &builder{contents: &contents{results: analysis.Results{
		Comparisons: []analysis.Comparison{{Scope: analysis.ScopeMachine}}}}}
	b.plan.Design.Instances = "run"
	if got := b.scopeNote(); !strings.Contains(got, "a new environment for every trial") {
		t.Errorf("a cell whose trials each create an environment: %q", got)
	}
}

// Medians are of all trials, a difference is one within blocks. The sentence
// says so if they have opposite signs, or if the interval excludes the difference of the medians.
func TestMediansThatContradict(t *testing.T) {
	side := func(name string, median float64) analysis.Summary {
		return analysis.Summary{Contender: name, Cell: "k", Metric: "throughput", Unit: "B/s", Median: &median, N: 4}
	}
	at := func(v float64) *float64 { return &v }
	for _, x := range []struct {
		vm, ratio float64
		ci        analysis.Interval
		want      string
	}{
		{1.53e9, 0.998, analysis.Interval{at(0.991), at(1.004)}, "host 1.60 GB/s, vm 1.53 GB/s, but within blocks "},
		{1.53e9, 0.998, analysis.Interval{at(0.951), at(1.034)}, "host 1.60 GB/s, vm 1.53 GB/s, "},
		{1.6e9, 0.9995, analysis.Interval{at(0.999), at(0.9999)}, "host 1.60 GB/s, vm 1.60 GB/s, "}, // nobody sees it
		{1.53e9, 1.041, analysis.Interval{}, "host 1.60 GB/s, vm 1.53 GB/s, but within blocks "},
		{1.53e9, 0.951, analysis.Interval{}, "host 1.60 GB/s, vm 1.53 GB/s, "},
		{1.5999e9, 1.041, analysis.Interval{}, "host 1.60 GB/s, vm 1.60 GB/s, "}, // nobody sees that it is smaller
	} {
		b := &builder{summaries: difference.Index([]analysis.Summary{side("host", 1.6e9), side("vm", x.vm)})}
		c := analysis.Comparison{Contender: "vm", Baseline: "host", Cell: "k", Metric: "throughput", Unit: "B/s",
			Scale: sample.Ratio, Ratio: &x.ratio, CI: x.ci}
		if got := strings.ReplaceAll(b.medians(c), "\u00a0", " "); got != x.want {
			t.Errorf("%v: %q, want %q", x.ratio, got, x.want)
		}
	}
}

// Where medians contradict a difference, the page and both texts of the terminal say once
// why, and which counts. Elsewhere nobody reads about it.
func TestContraryMediansAreExplained(t *testing.T) {
	d, p := example()
	agreed := at(copied(t, analysis.Analyse(d)), "syscall")
	contrary := copied(t, agreed)
	for i, s := range contrary.Summaries {
		if s.Contender == "crun" && s.Cell == "syscall" && s.Metric == "rate" {
			more := 1.5 * *s.Median // crun is slower within blocks
			contrary.Summaries[i].Median = &more
		}
	}
	const note = "crun: the medians do not agree with the difference."
	for _, x := range []struct {
		r    analysis.Results
		want int
	}{{agreed, 0}, {contrary, 1}} {
		var text bytes.Buffer
		must(t, Text.Results(&text, x.r, nil, Option{Terminal: Terminal{Width: 400}}))
		dir := folder(t, d, p, x.r)
		must(t, Write(dir, Option{}))
		html, err := os.ReadFile(filepath.Join(dir, "report", "index.html"))
		must(t, err)
		for how, out := range map[string]string{"brief": screen(t, x.r, Terminal{Width: 400}), "text": text.String(),
			"page": string(html)} {
			out = strings.Join(strings.Fields(strings.ReplaceAll(out, "\u00a0", " ")), " ")
			if n := strings.Count(out, note); n != x.want {
				t.Errorf("%s: said %d times, want %d", how, n, x.want)
			}
		}
	}
}
