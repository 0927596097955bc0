package report

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"bakeoff/judge/analysis"
)

func text(t testing.TB, r analysis.Results, to Terminal, sort ...Order) string {
	t.Helper()
	var b bytes.Buffer
	must(t, Text.Results(&b, r, nil, Option{Terminal: to, Sort: append(sort, "")[0]}))
	return b.String()
}

func TestText(t *testing.T) {
	d, _ := example()
	r := analysis.Analyse(d)
	before := copied(t, r)
	out := text(t, r, Terminal{Width: 80, Page: "runs/x/report/index.html"})
	t.Log("\n" + out)
	flat := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"crun is equivalent to host at sha256-16k throughput on this machine: host 1.84 GB/s, crun 1.83 " +
			"GB/s, 0.01 % slower (95 % CI",
		"microvm has no result at http-50: the server answered 404",
		"because a check failed: ceiling",
		"files, create, lower is better",
		"The twin (host under a second name): no difference found, as it should be (4 equivalent, 1 inconclusive).",
		"runs/x/report/index.html",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("the text does not say %q", want)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(out, "\x1b") || !strings.Contains(text(t, r, Terminal{Color: true}), "\x1b[33m") {
		t.Error("color where none was asked for, or the reverse")
	}
	for _, c := range text(t, r, Terminal{ASCII: true, Width: 100}) {
		if c > 126 {
			t.Fatalf("%q is not ASCII", c)
		}
	}
	if after := copied(t, r); len(after.Summaries[0].Samples) != len(before.Summaries[0].Samples) {
		t.Error("Text changed the results that it was given")
	}
}

// A run of the baseline alone, as regression checks keep it, has values and no verdict.
func TestTextOfOne(t *testing.T) {
	d, _ := simulated(shape{contenders: []string{"host"}, cells: []string{"cpu"}, blocks: 12, judged: 1})
	out := text(t, analysis.Analyse(d), Terminal{Width: 80})
	for _, want := range []string{"Only host on 1 cell, 12 blocks.", "host at cpu, 12 blocks; there is no other contender",
		"\n  throughput     ", "The twin (host under a second name): no difference found, as it should be (1"} {
		if !strings.Contains(out, want) {
			t.Errorf("the text does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "No comparison is primary") {
		t.Errorf("a cell is primary:\n%s", out)
	}
}

// Nothing in the results moves the cursor, whatever a stranger called things.
// Values missing for one reason are reported once.
func TestMissingIsGathered(t *testing.T) {
	var missing []analysis.Missing
	for _, contender := range []string{"a", "b"} {
		for _, cell := range []string{"x", "y"} {
			missing = append(missing, analysis.Missing{Contender: contender, Cell: cell, Reason: "interrupted"})
		}
	}
	missing = append(missing, analysis.Missing{Contender: "c", Cell: "x", Reason: "interrupted"},
		analysis.Missing{Contender: "a", Cell: "z", Reason: "no disk"})
	got := joinMissing(missing)
	want := []absence{
		{[]string{"a", "b"}, []string{"x", "y"}, "interrupted"},
		{[]string{"c"}, []string{"x"}, "interrupted"},
		{[]string{"a"}, []string{"z"}, "no disk"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("gathered %+v, want %+v", got, want)
	}
}

func TestTextIsInert(t *testing.T) {
	d, _ := example()
	r := copied(t, analysis.Analyse(d))
	r.Baseline = "\x1b[2Jhost\u202e"
	r.Run = "\a\u009b31m"
	r.Missing = append(r.Missing, analysis.Missing{Contender: "\x1b]0;title\a", Cell: "nowhere",
		Reason: "\r\nforged line"})
	r.Comparisons[0].Contender = strings.Repeat("w", 1<<20)
	out := text(t, r, Terminal{})
	if strings.ContainsAny(out, "\x1b\a\r\u009b\u202e") || strings.Contains(out, "\nforged") {
		t.Error("control characters came through")
	}
	if len(out) > 1<<16 {
		t.Errorf("%d bytes", len(out))
	}
}

// A path that is longer than a line is broken: terminals would do it in the
// middle of an indent.
func TestLongWordsAreBroken(t *testing.T) {
	d, _ := example()
	r := copied(t, analysis.Analyse(d))
	r.Missing[0].Reason = "open " + strings.Repeat("/a-folder", 20) + ": no such file"
	for _, line := range strings.Split(text(t, r, Terminal{Width: 60}), "\n") {
		if n := utf8.RuneCountInString(line); n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// The alarm of the twin stands before the verdicts.
func TestTextAlarm(t *testing.T) {
	d, _ := example()
	r := copied(t, analysis.Analyse(d))
	r.Twin.Different = true
	r.Twin.Comparisons[0].Verdict = analysis.Worse
	if out := text(t, r, Terminal{}); !strings.HasPrefix(out, "Do not trust this run") {
		t.Errorf("the text begins with %q", out[:80])
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/results/v1","cells":[{"name":"a","metrics":[{"name":"m","primary":true,`+
		`"unit":"op/s","better":"higher","scale":"ratio"}]}],"comparisons":[{"cell":"a","metric":"m","primary":true,`+
		`"ci":[null,1e-320],"ratio":1e308,"verdict":"worse"}],"contenders":[{}],"twin":{"different":true}}`),
		80)
	f.Fuzz(func(t *testing.T, data []byte, width int) {
		r, err := analysis.ParseResults(data)
		if err != nil {
			return
		}
		text(t, r, Terminal{Width: min(width, 1000)})
		screen(t, r, Terminal{Width: min(width, 1000)})
	})
}
