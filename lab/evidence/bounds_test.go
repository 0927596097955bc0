package evidence

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// Each bound of a gate: the last value that passes, and the first that fails.
func TestBoundsOfGates(t *testing.T) {
	for _, x := range []struct {
		name, gate   string
		passes, fail float64
		set          func(t *Trial, v float64)
	}{
		{"generator", "ceiling", .95, .951, func(t *Trial, v float64) { t.Work.Generator.Utilisation = v }},
		{"clock rate", "frequency", 2.4e9, 2.39e9, func(t *Trial, v float64) { t.Line.After.FrequencyHz = &v }},
		{"killed", "memory", 0, 1, func(t *Trial, v float64) { t.Line.After.Scope.OOMKills = &v }},
		{"scaling", "scaling", 1.2, 1.19, func(t *Trial, v float64) { t.Work.Check.Scaling = v }},
		{"no scaling", "scaling", 0, math.Inf(1), func(t *Trial, v float64) { t.Work.Check.Scaling = v }},
		{"much scaling", "scaling", 5, -1, func(t *Trial, v float64) { t.Work.Check.Scaling = v }},
		{"starved", "starved", .05, .051, func(t *Trial, v float64) {
			t.Work.Values = []sample.Value{{Metric: "x", Value: 9}, {Metric: "generator-starved", Value: v}}
		}},
		{"stolen from the generator", "steal", .05, .051, func(t *Trial, v float64) {
			t.Work.Values = []sample.Value{{Metric: "generator-stolen", Value: v}}
		}},
		{"two ticks of the generator", "steal", 2e8, 2.01e8, func(t *Trial, v float64) { // a tenth of 0.2 s
			t.Work.ElapsedNS, t.Work.Values = int64(v), []sample.Value{{Metric: "generator-stolen", Value: .1}}
		}},
		{"stolen", "steal", .052, .053, func(t *Trial, v float64) { t.Line.After.CPU.Steal = v }}, // of 1 s and itself
		{"two ticks", "steal", .02, .021, func(t *Trial, v float64) {
			*t.Line.After.CPU = facts.CPU{User: 10.1, Idle: 10.1,
				Steal: v}
		}},
		{"stolen beside waiting", "steal", .099, .11, func(t *Trial, v float64) {
			t.Line.After.CPU.IOWait,
				t.Line.After.CPU.Steal = 1, v
		}},
		{"swapped in", "swap", 5, 6, func(t *Trial, v float64) { t.Line.After.SwapIn = &v }},
		{"swapped out", "swap", 5, 6, func(t *Trial, v float64) { t.Line.After.SwapOut = &v }},
		{"quota", "throttled", 1.00999, 1.011, func(t *Trial, v float64) { t.Line.After.ThrottledSeconds = &v }},
		{"heat", "throttled", 3, 4, func(t *Trial, v float64) { t.Line.After.ThermalThrottles = &v }},
		{"claim", "cpu-time", 2.7, 2.69, func(t *Trial, v float64) {
			t.Reported = &workload.ReportedTime{Seconds: v,
				Elapsed: 3, CPUSeconds: v}
		}},
		{"claim above the CPU time", "cpu-time", 2.2, 2.14, func(t *Trial, v float64) { // 5 % and 0.05 s
			t.Reported = &workload.ReportedTime{Seconds: 2, Elapsed: 3, CPUSeconds: v}
		}},
		{"claim below it", "cpu-time", 1.84, 1.86, func(t *Trial, v float64) {
			t.Reported = &workload.ReportedTime{Seconds: 2, Elapsed: 3, CPUSeconds: v}
		}},
		{"claim of nothing", "cpu-time", 0, .04, func(t *Trial, v float64) {
			t.Reported = &workload.ReportedTime{Seconds: v,
				Elapsed: 3, CPUSeconds: .01}
		}},
		{"claim without CPU time", "cpu-time", 0, .04, func(t *Trial, v float64) {
			t.Reported = &workload.ReportedTime{Seconds: .01, Elapsed: 3, CPUSeconds: v}
		}},
		{"half was read", "disk", 1.5 * (1 << 20), 1.5*(1<<20) - 1, func(t *Trial,
			v float64) {
			t.Line.After.ReadBytes = &v
		}},
		{"half was written", "disk", 1.5 * (1 << 20), 1.5*(1<<20) - 1, func(t *Trial,
			v float64) {
			t.Line.After.WriteBytes = &v
		}},
		{"a counter of disks that fell", "disk", -1, 0, func(t *Trial, v float64) { t.Line.After.WriteBytes = &v }},
		{"a mebibyte", "disk", 1<<20 - 1, 1 << 20, func(t *Trial, v float64) {
			t.Work.Forced.ReadBytes,
				*t.Line.After.ReadBytes = v, 0
		}},
		{"late at the median", "lateness", 1e-3, 1.01e-3, func(t *Trial, v float64) { t.Work.Generator.LatenessP50 = &v }},
		{"late at the 99th percentile", "lateness", 2.5e-3, 2.51e-3, func(t *Trial,
			v float64) {
			t.Work.Generator.LatenessP99 = &v
		}},
		{"the path", "path", 10527, 10526, func(t *Trial, v float64) { // 10,000/s are 95 % of 10,526
			t.Path.PerSecond, t.Line.After.CPU.User, t.Line.After.CPU.Idle = v, 10.5, 10.5
		}},
		{"CPUs beside it", "path", 10.901, 10.89, func(t *Trial, v float64) {
			t.Path.PerSecond, t.Line.After.CPU.User, t.Line.After.CPU.Idle = 10100, v, 21-v
		}},
		{"one worker of two CPUs", "path", 1, 2, func(t *Trial, v float64) {
			t.Path.PerSecond, t.Path.Workers, t.Line.After.CPU.User, t.Line.After.CPU.Idle = 10100, int(v), 11, 11
		}},
		{"two CPUs without workers", "path", 11.9, 11, func(t *Trial, v float64) {
			t.Path.PerSecond, t.Path.Workers, t.Line.After.CPU.User, t.Line.After.CPU.Idle = 10100, 0, v, 22-v
		}},
		{"longer inside", "clock", 1.01e9, 1.0101e9, func(t *Trial, v float64) { t.Work.ElapsedNS = int64(v) }},
		{"the wall clock ahead", "clock", 1.0119e9, 1.0121e9, func(t *Trial,
			v float64) {
			*t.Line.After.WallNS = *t.Line.Before.WallNS + int64(v)
		}},
		{"the wall clock behind", "clock", .9881e9, .9879e9, func(t *Trial,
			v float64) {
			*t.Line.After.WallNS = *t.Line.Before.WallNS + int64(v)
		}},
		{"corrected forwards", "clock", .9931e9, .9929e9, func(t *Trial,
			v float64) {
			*t.Line.After.RawNS = *t.Line.Before.RawNS + int64(v)
		}},
		{"corrected backwards", "clock", 1.0069e9, 1.0071e9, func(t *Trial,
			v float64) {
			*t.Line.After.RawNS = *t.Line.Before.RawNS + int64(v)
		}},
		{"fast inside", "clock", 1.0149e9, 1.0151e9, func(t *Trial, v float64) {
			t.Line.Clock = &store.Clock{InsideNS: int64(v), OutsideNS: 1e9, UncertaintyNS: 5e6}
		}},
		{"slow inside", "clock", .9851e9, .9849e9, func(t *Trial, v float64) {
			t.Line.Clock = &store.Clock{InsideNS: int64(v), OutsideNS: 1e9, UncertaintyNS: 5e6}
		}},
		{"nothing outside", "clock", 0, 1, func(t *Trial, v float64) {
			t.Line.Clock = &store.Clock{InsideNS: 4e9,
				OutsideNS: int64(v)}
		}},
		{"longer than the lines say", "clock", .99e9, 1.02e9, func(t *Trial, v float64) {
			t.Line.Before,
				t.Work.ElapsedNS = nil, int64(v)
		}},
		{"fell to this", "trend", 8.34, 8.33, func(t *Trial, v float64) { // 10/1.2
			t.Work.Windows = slices.Concat(slices.Repeat([]float64{10}, 8), slices.Repeat([]float64{v}, 8))
		}},
		{"rose to this", "trend", 11.99, 12.01, func(t *Trial, v float64) {
			t.Work.Windows = slices.Concat(slices.Repeat([]float64{10}, 8), slices.Repeat([]float64{v}, 8))
		}},
		{"windows on either side", "trend", 6, 7, func(t *Trial, v float64) { // 13 at least and one
			t.Work.Windows = slices.Concat(slices.Repeat([]float64{10}, int(v)), slices.Repeat([]float64{20}, int(v)))
		}},
		{"no work at first", "trend", 0, 1, func(t *Trial, v float64) {
			t.Work.Windows = slices.Concat(slices.Repeat([]float64{v}, 8), slices.Repeat([]float64{20}, 8))
		}},
		{"a window that is no number", "trend", math.NaN(), 20, func(t *Trial, v float64) {
			t.Work.Windows = slices.Concat(slices.Repeat([]float64{10}, 8), slices.Repeat([]float64{20}, 8), []float64{v})
		}},
	} {
		trial := good()
		if x.set(&trial, x.passes); failing(trial)[x.gate] != "" {
			t.Errorf("%s: %v fails %s: %s", x.name, x.passes, x.gate, failing(trial)[x.gate])
		}
		trial = good()
		if x.set(&trial, x.fail); failing(trial)[x.gate] == "" {
			t.Errorf("%s: %v passes %s", x.name, x.fail, x.gate)
		}
	}
	// Many windows are averaged in groups before they are compared.
	many := slices.Concat(slices.Repeat([]float64{10, 30}, 30), slices.Repeat([]float64{35, 45, 40}, 10))
	trial := good()
	trial.Work.Windows = many // 90 in groups of 3
	if why := failing(trial)["trend"]; !strings.Contains(why, "+100 % after 67 % of the time") {
		t.Errorf("a step in many windows: %q", why)
	}
	for n, want := range map[int]int{13: 13, 32: 32, 33: 16, 64: 32, 65: 21} {
		if got := len(mergeWindows(make([]float64, n))); got != want {
			t.Errorf("%d windows become %d, want %d", n, got, want)
		}
	}
	if got := mergeWindows(slices.Repeat([]float64{1, 3}, 20)); got[0] != 2 || len(got) != 20 {
		t.Errorf("pairs become %v", got)
	}
}

// What a system does not count fails no gate: each reading is taken away alone.
func TestUnknownReadingsPass(t *testing.T) {
	for name, change := range map[string]func(*Trial){
		"no line":            func(t *Trial) { t.Line.Trial = nil },
		"nothing before":     func(t *Trial) { t.Line.Before = nil },
		"nothing after":      func(t *Trial) { t.Line.After = nil },
		"no CPU before":      func(t *Trial) { t.Line.Before.CPU = nil },
		"no CPU after":       func(t *Trial) { t.Line.After.CPU = nil },
		"no clock rate":      func(t *Trial) { t.Line.Before.FrequencyHz = nil },
		"no clock rate then": func(t *Trial) { t.Line.After.FrequencyHz = nil },
		"no scope":           func(t *Trial) { t.Line.Before.Scope = nil },
		"no scope then":      func(t *Trial) { t.Line.After.Scope = nil },
		"no swap":            func(t *Trial) { t.Line.Before.SwapIn, t.Line.After.SwapOut = nil, nil },
		"no disk":            func(t *Trial) { t.Line.Before.ReadBytes, t.Line.After.WriteBytes = nil, nil },
		"no forced bytes":    func(t *Trial) { t.Work.Forced = nil },
		"no generator":       func(t *Trial) { t.Work.Generator = nil },
		"no values":          func(t *Trial) { t.Work.Values = nil },
		"no work":            func(t *Trial) { t.Work = nil },
		"no path":            func(t *Trial) { t.Path = nil },
		"an idle path":       func(t *Trial) { t.Path.PerSecond = 0 },
		"no time":            func(t *Trial) { t.Work.ElapsedNS = 0 },
		"no windows":         func(t *Trial) { t.Work.Windows = nil },
		"no claim":           func(t *Trial) { t.Reported = nil },
		"no readings inside": func(t *Trial) { t.Work.Counters = nil },
		"one end of load":    func(t *Trial) { t.Line.GeneratorBefore = nil },
		"readings of two processes": func(t *Trial) {
			t.Line.Before.AtNS, t.Line.After.AtNS = 5, 5
			t.Line.After.WallNS = ns(9e18)
		},
		"a count that fell": func(t *Trial) { t.Line.After.SwapIn, t.Line.After.ThermalThrottles = f(1), f(0) },
		"no number":         func(t *Trial) { t.Line.After.ThermalThrottles = f(math.NaN()) },
	} {
		trial := good()
		change(&trial)
		if failed := failing(trial); len(failed) != 0 {
			t.Errorf("%s: %v", name, failed)
		}
	}
	trial := good()
	trial.Work.Errors = map[string]int64{}
	for i := range 7 {
		trial.Work.Errors[fmt.Sprint("class ", i)] = int64(i - 1)
	}
	if why := failing(trial)["errors"]; why != "class 0: -1, class 2: 1, class 3: 2, class 4: 3, class 5: 4" {
		t.Errorf("errors: %q", why)
	}
	trial = good()
	trial.Work.Check.Verified, trial.Work.Errors = false, map[string]int64{wire.DiskFull: 2}
	if failed := failing(trial); failed["answer"] != "" || failed["disk-full"] != "2 operations found no space" {
		t.Errorf("a full disk: %v", failed)
	}
}

// Stored and recomputed values are the same up to the last digits, and lists by their labels.
func TestDifferences(t *testing.T) {
	for _, x := range []struct{ stored, now, want string }{
		{`1`, `1`, ""}, {`1`, `1.0000000005`, ""}, {`1`, `1.000000002`, `: 1 1.000000002`}, {`-2e9`, `-2.0000000019e9`, ""},
		{`0`, `1e-30`, ": 0 1e-30"},
		{`1`, `"1"`, `: 1 "1"`}, {`"1"`, `1`, `: "1" 1`}, {`null`, `1`, ": null 1"}, {`true`, `false`, ": true false"},
		{`{}`, `[]`, ": {} []"}, {`[]`, `{}`, ": [] {}"},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, ""}, {`{"a":1}`, `{"a":1,"b":{"c":2}}`, `b: null {"c":2}`}, {`{"a":1,"b":3}`,
			`{"a":1}`, "b: 3 null"},
		{`[1,2]`, `[1,3]`, "[1]: 2 3"}, {`[1,2]`, `[1]`, ".length: 2 1"}, {`{"x":[1]}`, `{"x":[1,5]}`, "x.length: 1 2"},
		{`[{"name":"a","v":1},{"name":"b","v":2}]`, `[{"name":"b","v":3}]`, `[b].v: 2 3; [a]: {"name":"a","v":1} null`},
		{`[{"name":"b"}]`, `[{"name":"a"},{"name":"b"}]`, `[a]: null {"name":"a"}`},
		{`[{"name":"a"},{"name":"b"}]`, `[{"name":"b"},{"name":"a"}]`, ` order: ["a","b"] ["b","a"]`},
		{`[{"name":"a"},{"name":"a"}]`, `[{"name":"a"}]`, ".length: 2 1"}, {`[{"x":1}]`, `[{"x":2}]`, "[0].x: 1 2"},
		{`[{"block":1,"position":2,"v":1}]`, `[{"block":1,"position":2,"v":2}]`, "[block 1, position 2].v: 1 2"},
	} {
		d := differ{}
		stored, _ := decodeAny([]byte(x.stored))
		now, _ := decodeAny([]byte(x.now))
		d.compare("", stored, now, "", "")
		var got []string
		for _, f := range d.differences {
			got = append(got, f.path+": "+f.stored+" "+f.recomputed)
		}
		if strings.Join(got, "; ") != x.want {
			t.Errorf("%s and %s: %q, want %q", x.stored, x.now, strings.Join(got, "; "), x.want)
		}
	}
	// Each difference belongs to the contender and the cell around it.
	d := differ{}
	stored, _ := decodeAny([]byte(`{"contender":"x","cell":"k","list":[{"contender":"y","v":1},` +
		`{"contender":"z"}],"n":[1,2,3]}`))
	now, _ := decodeAny([]byte(`{"contender":"x","cell":"k","list":[{"contender":"y","v":2}],"n":[1,2,4]}`))
	d.compare("", stored, now, "", "")
	var got []string
	for _, f := range d.differences {
		got = append(got, f.path+" of "+f.contender+" on "+f.cell)
	}
	if want := "list[y].v of y on k; list[z] of z on k; n[2] of x on k"; strings.Join(got, "; ") != want ||
		d.numbers != 4 {
		t.Errorf("%q, %d numbers; want %q", strings.Join(got, "; "), d.numbers, want)
	}
	d = differ{}
	for range maxDifferences + 3 {
		d.add("x", 1, 2, "", "")
	}
	if len(d.differences) != 10000 || d.more != 3 {
		t.Errorf("%d differences and %d more", len(d.differences), d.more)
	}
	if s := shorten(strings.Repeat("x", 198)); len(s) != 200 || strings.HasSuffix(s, "…") {
		t.Errorf("200 bytes become %d", len(s))
	}
	if s := shorten(strings.Repeat("x", 199)); s != `"`+strings.Repeat("x", 199)+"…" {
		t.Errorf("201 bytes become %q", s)
	}
	list, _ := decodeAny([]byte(`["a","",["b",1,"c"]]`))
	if n := texts(list); n != 3 {
		t.Errorf("%d texts", n)
	}
	if texts("") != 0 || texts("a") != 1 || texts(nil) != 0 {
		t.Error("texts")
	}
	// Results of other rules may have other words, but not more of them; newer fields may be absent.
	for _, x := range []struct {
		stored string
		rules  int64
		want   int
	}{
		{`{"warnings":["a"],"reason":"b","v":1,"beyond_margin":true}`, 9, 0},
		{`{"warnings":["a","b"],"reason":"b","v":1,"beyond_margin":true}`, 9, 2},
		{`{"warnings":["a"],"reason":"","v":1,"beyond_margin":true}`, 9, 1}, {`{"warnings":["a"],"reason":"b","v":1}`, 6, 1},
		{`{"warnings":["a"],"reason":"b","v":1}`, 5, 0}, {`{"warnings":["a"],"reason":"b","v":2}`, 5, 1},
	} {
		d := differ{reworded: true, rules: x.rules}
		stored, _ := decodeAny([]byte(x.stored))
		now, _ := decodeAny([]byte(`{"warnings":["A"],"reason":"B","v":1,"beyond_margin":true}`))
		if d.compare("", stored, now, "", ""); len(d.differences) != x.want {
			t.Errorf("%s by rules %d: %+v", x.stored, x.rules, d.differences)
		}
	}
}

// What the lab file gives to one contender and not to the baseline is meant to differ.
func TestDeclaredDifferences(t *testing.T) {
	volume := func(path, backing, compression string) manifest.Volume {
		return manifest.Volume{Path: path, Backing: backing, Properties: map[string]string{"compression": compression}}
	}
	base := plan.Contender{Contender: manifest.Contender{CPUs: 2, Memory: 1 << 30, Tuning: map[string]string{"a": "1",
		"b": "2"},
		Volumes: []manifest.Volume{volume("/x", "zfs", "on"), volume("/y", "dir", "")}}}
	for want, change := range map[string]func(c *plan.Contender){
		"": func(c *plan.Contender) {},
		"cpu.count limit.cgroup.cpu limit.cgroup.cpuset": func(c *plan.Contender) { c.CPUs = 1 },
		"limit.cgroup.cpu":           func(c *plan.Contender) { c.Quota = .5 },
		"limit.cgroup.memory memory": func(c *plan.Contender) { c.Memory = 1 },
		"sysctl.a sysctl.b":          func(c *plan.Contender) { c.Tuning = map[string]string{"a": "9"} },
		"sysctl.c": func(c *plan.Contender) {
			c.Tuning = map[string]string{"a": "1", "b": "2",
				"c": "3"}
		},
		"volume./x.compression": func(c *plan.Contender) {
			c.Volumes = []manifest.Volume{volume("/x", "zfs", "off"),
				base.Volumes[1]}
		},
		"fs./y host-cache./y volume./y": func(c *plan.Contender) {
			c.Volumes = []manifest.Volume{base.Volumes[0],
				volume("/y", "ext4", "")}
		},
		"fs./y fs./z host-cache./y host-cache./z volume./y volume./z": func(c *plan.Contender) {
			c.Volumes = []manifest.Volume{base.Volumes[0], volume("/z", "dir", "")}
		},
		"fs./x host-cache./x volume./x volume./x.compression": func(c *plan.Contender) {
			c.Volumes = base.Volumes[1:]
		},
	} {
		c := base
		change(&c)
		got := declared(c, base)
		slices.Sort(got)
		if s := strings.Join(slices.Compact(got), " "); s != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}

// A quota and limits of I/O that one contender has are enforced on all, or are a difference.
func TestHeldLimits(t *testing.T) {
	with := func(quota float64, io manifest.IO) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Driver: "d", Quota: quota, IO: io}}
	}
	if quota, io := limitsAsked(&plan.Plan{Contenders: []plan.Contender{with(0, manifest.IO{}), with(.5,
		manifest.IO{})}}); !quota || io {
		t.Errorf("asked: %v, %v", quota, io)
	}
	if quota, io := limitsAsked(&plan.Plan{Contenders: []plan.Contender{with(0, manifest.IO{Write: 1}), with(0,
		manifest.IO{})}}); quota || !io {
		t.Errorf("asked: %v, %v", quota, io)
	}
	if got := enforcedLimits(with(.5, manifest.IO{Read: 1, Write: 1}), facts.Limits{}, true, true); len(got) != 2 ||
		got["enforced.quota"] != "no: the driver d holds none" || got["enforced.io"] != "no: the driver d holds none" {
		t.Errorf("%v", got)
	}
	if got := enforcedLimits(with(0, manifest.IO{}), facts.Limits{}, true, true); got["enforced.quota"] != "yes" ||
		got["enforced.io"] != "yes" {
		t.Errorf("%v", got)
	}
	if got := enforcedLimits(with(0, manifest.IO{}), facts.Limits{}, false, false); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := enforcedLimits(with(0, manifest.IO{Write: 1}), facts.Limits{}, false, true); got["enforced.io"] == "yes" {
		t.Errorf("%v", got)
	}
}

// The facts of programs are bounded: they may be a stranger's.
func TestFactsOfProgramsAreBounded(t *testing.T) {
	facts := map[string]string{"version": "1", strings.Repeat("n", 61): "x", strings.Repeat("n", 62): "x", "../up": "x",
		"long": strings.Repeat("v", 2048), "longer": strings.Repeat("v", 2049), workload.Caveat: "beware"}
	blob := func(facts map[string]string) workload.Raw {
		text, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		return workload.Raw{workload.Facts: text}
	}
	p := programs{}
	if caveat := p.note("w", "c", blob(facts)); caveat != "beware" {
		t.Errorf("caveat %q", caveat)
	}
	p.note("w", "c", blob(map[string]string{"version": "2"}))
	into := map[string]map[string]string{"c": {}}
	p.addFacts(into)
	if len(into["c"]) != 4 || into["c"]["program.w.version"] != "1 | 2" {
		t.Errorf("%d facts, version %q", len(into["c"]), into["c"]["program.w.version"])
	}
	for n, want := range map[int]int{64: 64, 65: 0} {
		many := map[string]string{}
		for i := range n {
			many[fmt.Sprint("f", i)] = "x"
		}
		p := programs{}
		p.note("w", "c", blob(many))
		if got := len(p["c"]); got != want {
			t.Errorf("of %d facts %d are kept, want %d", n, got, want)
		}
	}
	programs{"gone": {"f": {"x": true}}}.addFacts(into)
	if len(into) != 1 {
		t.Errorf("a contender that never came up has facts: %v", into)
	}
}

// What stands in the way of a metric of energy, by contender.
func TestNoEnergy(t *testing.T) {
	line := func(contender string, before, after *float64) store.Line {
		return store.Line{Type: store.LineTrial, Contender: contender, Trial: &store.Trial{
			Before: &facts.Counters{Joules: before}, After: &facts.Counters{Joules: after}}}
	}
	c := func(name, host string) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Host: host}}
	}
	s := &story{plan: &plan.Plan{Contenders: []plan.Contender{c("a", ""), c("b", "box"), c("d", ""), c("e", ""), c("g",
		"")},
		Hosts: map[string]manifest.Host{"box": {Meter: []string{"read"}}}}}
	s.lines = []store.Line{line("a", f(1), f(2)), line("b", nil, f(2)), line("d", f(1), nil), {Type: store.LineBlock,
		Contender: "e"},
		{Type: store.LineTrial, Contender: "g", Trial: &store.Trial{Before: &facts.Counters{}}}}
	got := s.noEnergy()
	if len(got) != 3 || !strings.Contains(got["a"], "less energy than the counter on local can resolve") ||
		got["b"] != "the meter of box gave no reading" || !strings.HasPrefix(got["d"], "local has no energy counter") {
		t.Errorf("%v", got)
	}
	if got := s.noGeneratorEnergy(); len(got) != 0 {
		t.Errorf("of no generator: %v", got)
	}
}

// The bracket of the lines is used where nobody read the host's own clock.
func TestTimeOfLines(t *testing.T) {
	trial := good()
	trial.Line.After.AtNS = 0
	trial.Line.After.WallNS, trial.Line.After.RawNS = nil, nil
	trial.Line.End = trial.Line.Start.Add(800 * time.Millisecond)
	if why := failing(trial)["clock"]; why != "0.900 s passed inside, 0.800 s outside" {
		t.Errorf("%q", why)
	}
}

// Numbers that cannot be recomputed: changed files are the reason, or another parser, or nothing known.
func TestUnreadNumbers(t *testing.T) {
	for _, x := range []struct {
		found  []Finding
		parser bool
		want   Kind // of the finding that is added; "" for a note
	}{
		{nil, false, Results}, {nil, true, Parser}, {[]Finding{{Kind: NotAsPlanned}}, false, Results},
		{[]Finding{{Kind: NotAsPlanned}, {Kind: Tampered}}, true, ""},
	} {
		v := verifier{}
		v.Findings = x.found
		if x.parser {
			v.parsers = map[[2]string]bool{{"crun", "fast"}: true}
		}
		v.cannotRecompute(fmt.Errorf("it is gone"))
		added := v.Findings[len(x.found):]
		if x.want == "" && (len(added) != 0 || len(v.Notes) != 1) ||
			x.want != "" && (len(added) != 1 || added[0].Kind != x.want || len(v.Notes) != 0) {
			t.Errorf("after %+v: %+v, notes %q", x.found, added, v.Notes)
		}
	}
}

// The timers of TCP that a trial may wait for: a delayed acknowledgment always, and the time
// between two requests of a connection if it is from 2 to 40 ms.
func TestTimersOfTCP(t *testing.T) {
	for _, x := range []struct {
		rate, connections, keepalive string
		least, most                  time.Duration // of the second one; 0: there is none
	}{
		{"2000/s", "50", "true", 12500 * time.Microsecond, 31250 * time.Microsecond}, {"2000/s", "50", "false", 0, 0},
		{"1000/s", "2", "true", time.Millisecond, 2500 * time.Microsecond}, {"1000/s", "1", "true", 0, 0},
		{"1000/s", "40", "true", 20 * time.Millisecond, 50 * time.Millisecond}, {"1000/s", "41", "true", 0, 0},
	} {
		got := waits(Trial{Work: &wire.Result{Params: param.Values{"rate": x.rate, "connections": x.connections,
			"keepalive": x.keepalive}}})
		if got[0].least != 36*time.Millisecond || got[0].most != 50*time.Millisecond {
			t.Errorf("a delayed acknowledgment: %+v", got[0])
		}
		if (len(got) == 2) != (x.most > 0) || len(got) == 2 && (got[1].least != x.least || got[1].most != x.most) {
			t.Errorf("%+v: %+v", x, got[1:])
		}
	}
}

// Numbers are the same if they differ by no more than rounding, however they are written.
func TestSame(t *testing.T) {
	for _, tt := range []struct {
		a, b json.Number
		want bool
	}{{"1", "1.0", true}, {"0", "0.0", true}, {"0", "-0", true}, {"1", "-1", false}, {"0", "1e-300", false},
		{"1", "1.001", false}, {"x", "1", false}, {"1", "x", false}, {"x", "x", true}} {
		if got := same(tt.a, tt.b); got != tt.want {
			t.Errorf("%s and %s are the same: %t", tt.a, tt.b, got)
		}
	}
}
