package offline

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/judge/compare"
	"bakeoff/lab/store"
	"bakeoff/publish/difference"
	"bakeoff/publish/export"
)

// changed is a run of a host and a container with its values at one cell.
func changed(name string, crun float64) compare.Run {
	r := analysis.Results{
		Run: name, Baseline: "host", Margin: 0.02, Ended: "blocks", Blocks: 20,
		Contenders: []analysis.Contender{{Name: "host"}, {Name: "crun"}},
		Cells: []analysis.Cell{{Name: "sha", Workload: "crypto", Params: param.Values{}, Metrics: []sample.Metric{
			{Name: "throughput", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Primary: true},
			{Name: "cpu-per-op", Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio},
		}}},
	}
	for _, metric := range []string{"throughput", "cpu-per-op"} {
		for contender, v := range map[string]float64{"host": 100, "crun": crun} {
			s := analysis.Summary{Contender: contender, Cell: "sha", Metric: metric, Unit: "B/s"}
			for b := range 20 {
				s.Samples = append(s.Samples, analysis.Point{Block: b, Value: v * (1 + 0.001*float64(b*7%5))})
			}
			r.Summaries = append(r.Summaries, s)
		}
	}
	return compare.Run{Results: r, Facts: map[string]map[string]string{"host": {"kernel": name}}}
}

func TestCompareSaysTheWarningFirst(t *testing.T) {
	for _, x := range []struct {
		repeats []compare.Run
		verdict string
		fails   bool
	}{
		{nil, "not interleaved", false},
		{[]compare.Run{changed("r1", 90.2), changed("r2", 89.9)}, "worse by more than 2 %", true},
	} {
		res, err := compare.Two(changed("6.1", 90), changed("6.2", 60), compare.Option{Repeats: x.repeats})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := reader{Streams: cli.NewStreams(nil, &out, io.Discard, func(string) string { return "" })}
		a.printCompare(res, false)
		lines := strings.Split(out.String(), "\n")
		if lines[0] != "6.1 → 6.2" || !strings.HasPrefix(lines[1],
			"The runs were made at different times and are not interleaved.") {
			t.Errorf("it begins with %q", lines[:2])
		}
		for _, want := range []string{"0.667× [", x.verdict, "kernel", "6.1 → 6.2"} {
			if !strings.Contains(strings.Join(lines[3:], "\n"), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "cpu-per-op") {
			t.Error("metrics that are not primary are shown unasked")
		}
		if all, some := unjudged(res); all == x.fails || some == x.fails {
			t.Errorf("all are unjudged: %v, some: %v, with %d repeats", all, some, len(x.repeats))
		}
		if end := (FailOn{"worse"}).End(res.Results(), ""); (cli.ExitCode(end) == cli.ExitAsked) != x.fails {
			t.Errorf("--fail-on worse ends with %v", end)
		}
		out.Reset()
		if err := export.Write(&out, "junit", []export.Run{{Results: res.Results()}}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), `failures="1"`) != x.fails {
			t.Errorf("junit:\n%s", out.String())
		}
	}
}

// A change of 2 to 4 % is worse, but fails no build that tolerates 3 %.
func TestFailOnWorseThanTheMargin(t *testing.T) {
	quiet := []compare.Run{changed("r1", 90.2), changed("r2", 89.9)}
	for _, x := range []struct {
		now   float64
		words string
		fails []string
	}{
		{87.3, "worse, possibly by less than 3 %", []string{"worse"}},
		{80, "worse by more than 3 %", []string{"worse", "worse-than-margin"}},
		{90, "equivalent", nil},
	} {
		res, err := compare.Two(changed("6.1", 90), changed("6.2", x.now), compare.Option{Repeats: quiet, Margin: 0.03})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := reader{Streams: cli.NewStreams(nil, &out, io.Discard, func(string) string { return "" })}
		a.printCompare(res, false)
		if flat := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(flat, x.words) {
			t.Errorf("%v: no %q in\n%s", x.now, x.words, &out)
		}
		var junit bytes.Buffer
		if err := export.Write(&junit, "junit", []export.Run{{Results: res.Results()}}); err != nil ||
			!strings.Contains(junit.String(), x.words) {
			t.Errorf("%v: no %q in %v\n%s", x.now, x.words, err, &junit)
		}
		for _, condition := range []string{"worse", "worse-than-margin"} {
			end := (FailOn{condition}).End(res.Results(), "")
			if got, want := cli.ExitCode(end) == cli.ExitAsked, slices.Contains(x.fails, condition); got != want {
				t.Errorf("%v: --fail-on %s ends with %v", x.now, condition, end)
			}
		}
	}
}

// The calibrations that both run folders keep widen the intervals: the larger
// spread of the two, and none that is outdated or of too few runs.
func TestCompareTakesTheCalibrations(t *testing.T) {
	kept := func(changed []string, relative ...float64) string {
		dir := filepath.Join(t.TempDir(), "run")
		run, err := store.Create(dir, time.Unix(0, 0), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		c := calibrate.Calibration{Schema: calibrate.Schema, Changed: changed}
		for _, r := range relative {
			c.Runs = append(c.Runs, calibrate.Measured{Visits: 2, Relative: r, Direct: 2 * r})
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(relative) > 0 {
			if err := run.KeepCalibration(time.Unix(0, 0), text); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	steady, wild := kept(nil, 0, 0.01, 0.02), kept(nil, 0, 0.1, 0.2)
	for name, x := range map[string]struct {
		dirs []string
		want float64 // 0: none
	}{
		"none":       {[]string{kept(nil), kept(nil)}, 0},
		"one":        {[]string{kept(nil), steady}, 0.01},
		"the larger": {[]string{wild, steady}, 0.1},
		"outdated":   {[]string{kept([]string{"kernel"}, 0, 0.1, 0.2), steady}, 0.01},
		"too few":    {[]string{kept(nil, 0, 0.1), kept(nil)}, 0},
	} {
		got, err := calibratedSpread(x.dirs)
		if err != nil {
			t.Fatal(err)
		}
		if (got == nil) != (x.want == 0) || got != nil && (math.Abs(got.Relative-x.want) > 1e-9 ||
			math.Abs(got.Direct-2*x.want) > 1e-9 || got.Runs != 3) {
			t.Errorf("%s: %+v, want %v", name, got, x.want)
		}
	}
}

// A contender that has no values in one of the runs is named, and its facts are
// counted: they would be a screen of "unavailable".
func TestCompareNamesWhatIsNotCompared(t *testing.T) {
	older, newer := changed("6.1", 90), changed("6.2", 90)
	newer.Results.Summaries = slices.DeleteFunc(newer.Results.Summaries,
		func(s analysis.Summary) bool { return s.Contender == "crun" })
	facts := map[string]string{"driver": "oci"}
	newer.Facts["crun"] = maps.Clone(facts)
	for _, k := range []string{"kernel", "clocksource", "libc", "arch", "os", "governor"} {
		facts[k] = "x"
	}
	older.Facts["crun"] = facts
	res, err := compare.Two(older, newer, compare.Option{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := reader{Streams: cli.NewStreams(nil, &out, io.Discard, func(string) string { return "" })}
	a.printCompare(res, false)
	flat := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"Not compared, because one run has no values crun at sha ",
		"6 facts crun known → unavailable", "kernel host 6.1 → 6.2"} {
		if !strings.Contains(flat, want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	if strings.Contains(flat, "BETWEEN RUNS") {
		t.Error("a column in which nothing is known")
	}
	if strings.Contains(flat, "governor") {
		t.Error("each fact of a contender that did not run is listed")
	}
}

// compare says which change these runs could have found, in text and in Markdown, and no
// line is wider than its output.
func TestCompareSaysWhatItCanFind(t *testing.T) {
	res, err := compare.Two(changed("6.1|", 90), changed("6.2", 89), compare.Option{Margin: .03,
		Repeats: []compare.Run{changed("r1", 95), changed("r2", 88), changed("r3", 84)}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := reader{Streams: cli.NewStreams(nil, &out, io.Discard, func(string) string { return "" })}
	a.printCompare(res, false)
	c := res.Rows[0].Relative
	percent := func(v float64) string { return strings.ReplaceAll(difference.Ratios(&v).Text(v), "\u00a0", " ") }
	found, beyond := percent(*c.Smallest), percent(*c.SmallestBeyond)
	for _, want := range []string{"The smallest change that these runs find in half of the cases",
		"Standard deviation between 4 runs in which nothing changed: crun sha throughput 5.", found, beyond} {
		if !strings.Contains(strings.ReplaceAll(out.String(), "\n  ", " "), want) && !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > cli.LogWidth {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	md := markdownOf(res)
	for _, want := range []string{`**6.1\| → 6.2**`, "| crun | sha | throughput | ", "| " +
		found + " | " + beyond + " |"} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
}
