package report

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"bakeoff/judge/analysis"
)

func screen(t testing.TB, r analysis.Results, to Terminal, sort ...Order) string {
	t.Helper()
	var b bytes.Buffer
	must(t, Brief.Results(&b, r, nil, Option{Terminal: to, Sort: append(sort, "")[0]}))
	return b.String()
}

// at leaves only one cell of results.
func at(r analysis.Results, cell string) analysis.Results {
	r.Cells = slices.DeleteFunc(r.Cells, func(c analysis.Cell) bool { return c.Name != cell })
	r.Comparisons = slices.DeleteFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Cell != cell })
	r.Missing = slices.DeleteFunc(r.Missing, func(m analysis.Missing) bool { return m.Cell != cell })
	return r
}

// A comparison fits on a screen: a row for each contender with its median, a bar and a
// verdict, then what has no verdict and why.
func TestBrief(t *testing.T) {
	d, _ := example()
	all := analysis.Analyse(d)
	for cell, want := range map[string][]string{
		"syscall": {`^syscall rate, higher is better, 13 blocks; verdicts from the first 12$`, `← slower +faster →`,
			`^  host +7\.\d+ Mop/s .* baseline$`, `^▼ crun .*●.* −\d.*\[.* %\] +worse$`,
			`^▼ microvm .*% of the rate \[.* %\] +worse$`,
			`^The twin \(host under a second name\): no difference found, as it should be \(4$`},
		"http-50": {`microvm +missing`, `check failed`, `crun: check ceiling failed \(`, `microvm has no result`, `^Ended: `},
		"files":   {`^  \d+ of 24 trials of microvm failed\.$`},
	} {
		r := at(copied(t, all), cell)
		out := screen(t, r, Terminal{Width: 80, Page: "runs/x/report/index.html"})
		t.Log("\n" + out)
		for _, pattern := range append(want, `^Full report: runs/x/report/index.html$`) {
			if !regexp.MustCompile("(?m)" + pattern).MatchString(out) {
				t.Errorf("%s: no line matches %s", cell, pattern)
			}
		}
		lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
		if len(lines) > 26 {
			t.Errorf("%s: %d lines", cell, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s: %d columns: %s", cell, n, line)
			}
		}
		for _, c := range screen(t, r, Terminal{ASCII: true}) {
			if c > 126 {
				t.Fatalf("%s: %q is not ASCII", cell, c)
			}
		}
		if !strings.Contains(screen(t, r, Terminal{Color: true}), "\x1b[") {
			t.Errorf("%s: no color", cell)
		}
	}
}

// A verdict is that of a look. The heading says so if the run has blocks after it.
func TestBriefNamesTheBlocksOfVerdicts(t *testing.T) {
	d, _ := example()
	all := analysis.Analyse(d)
	for want, looks := range map[string][]int{
		"better, 40 blocks\n":                                   {40, 40},
		"better, 40 blocks; verdicts from the first 31\n":       {31, 31},
		"better, 40 blocks; verdicts from the first 16 to 40\n": {40, 16},
		"better, 40 blocks \n":                                  nil,
	} {
		r := at(copied(t, all), "syscall")
		r.Blocks = 40
		for i := range r.Comparisons {
			if r.Comparisons[i].Look = 0; looks != nil {
				r.Comparisons[i].Look = looks[min(i, 1)]
			}
		}
		if out := screen(t, r, Terminal{}); !strings.Contains(out, strings.ReplaceAll(want, " \n", "\n")) {
			t.Errorf("looks %v: no %q in\n%s", looks, want, out)
		}
	}
}

// A contender without another has its metrics in a list.
func TestBriefOfOne(t *testing.T) {
	d, _ := example()
	r := at(copied(t, analysis.Analyse(d)), "syscall")
	r.Comparisons, r.Missing = nil, nil
	if out := screen(t, r, Terminal{Width: 80}); !strings.Contains(out, "blocks; no comparison has a result\n") {
		t.Errorf("there are other contenders, but none was compared:\n%s", out)
	}
	r.Contenders = slices.DeleteFunc(r.Contenders, func(c analysis.Contender) bool { return c.Name != r.Baseline })
	out := screen(t, r, Terminal{Width: 80})
	for _, pattern := range []string{`^host at syscall, \d+ blocks; there is no other contender`,
		`^  rate +7\.\d+ Mop/s +\[7\.\d+ Mop/s to 7\.\d+ Mop/s\], \d+ trials$`, `^  cpu-per-op `} {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(out) {
			t.Errorf("no line matches %s in\n%s", pattern, out)
		}
	}
}

// On a narrow terminal, no row of a panel is longer than a line: the difference follows in
// a line of its own.
func TestBriefOnANarrowTerminal(t *testing.T) {
	d, _ := example()
	r := at(copied(t, analysis.Analyse(d)), "syscall")
	for _, width := range []int{40, 50, 60, 80} {
		out := screen(t, r, Terminal{Width: width, Page: "p"})
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && strings.Contains(line, " worse") {
				t.Errorf("%d columns, and the line has %d: %s", width, n, line)
			}
		}
		own := regexp.MustCompile(`(?m)^▼ microvm +\S+ Mop/s  worse\n    \S+ % of the rate \[.*\]$`).MatchString(out)
		if own != (width < 80) {
			t.Errorf("%d columns: the difference has a line of its own: %v\n%s", width, own, out)
		}
	}
}

// The alarm of the twin stands before the verdicts.
func TestBriefAlarm(t *testing.T) {
	d, _ := example()
	r := copied(t, analysis.Analyse(d))
	r.Twin.Different = true
	r.Twin.Comparisons[0].Verdict = analysis.Worse
	if out := screen(t, r, Terminal{}); !strings.HasPrefix(out, "Do not trust this run") {
		t.Errorf("the text begins with %q", out[:80])
	}
}

// Whatever a stranger called things, a row stays in its width where that is possible.
func TestBriefIsInert(t *testing.T) {
	d, _ := example()
	r := copied(t, analysis.Analyse(d))
	r.Comparisons[0].Contender = "\x1b[2J" + strings.Repeat("w", 1<<20)
	r.Baseline = "host\u202e\n"
	out := screen(t, r, Terminal{Width: 60})
	if strings.ContainsAny(out, "\x1b\r\u202e") || len(out) > 1<<16 {
		t.Errorf("%d bytes, or control characters", len(out))
	}
}

// A sweep has its curve below the rows.
func TestBriefOfASweep(t *testing.T) {
	d, _ := sweepOf(false)
	out := screen(t, at(analysis.Analyse(d), "try"), Terminal{Width: 80}, ByLab)
	t.Log("\n" + out)
	first, fifth, curve := strings.Index(out, "gzip-level-1 "), strings.Index(out, "gzip-level-5 "), strings.Index(out,
		"■")
	if first < 0 || fifth < first || curve < fifth {
		t.Errorf("no rows in the order of the values, or no curve below them:\n%s", out)
	}
}
