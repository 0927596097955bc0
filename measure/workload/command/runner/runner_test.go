package runner

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/command"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/wire"
)

func TestMain(m *testing.M) { workloadtest.Main(m) }

func sh(script string) string { return "/bin/sh\n-c\n" + script }

// busy is a command that takes some CPU time.
var busy = sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo took $i steps")

func TestSuite(t *testing.T) {
	workloadtest.Run(t, New(), workloadtest.Options{
		Common: param.Values{"argv": busy},
		Cells: []param.Values{{"score": "last-line", "cost": "regexp:took ([0-9]+)", "exit": "any"},
			{"argv": sh("exit 3"), "exit": "3"}},
		Partial: true,
	})
}

// trial does what the runner does with one trial.
func trial(t *testing.T, set param.Values) ([]sampleValue, execution.Target, error) {
	t.Helper()
	p := param.Defaults(New().Doc().Params)
	for k, v := range set {
		p[k] = v
	}
	ctx, target := context.Background(), workloadtest.Local(t)
	if err := New().Prepare(ctx, target, p); err != nil {
		return nil, target, err
	}
	if err := New().Reset(ctx, target, p); err != nil {
		return nil, target, err
	}
	raw, err := New().Run(ctx, target, p)
	if err != nil {
		return nil, target, err
	}
	values, err := New().Parse(raw, p)
	var out []sampleValue
	for _, v := range values {
		out = append(out, sampleValue{v.Metric, v.Value})
	}
	return out, target, err
}

type sampleValue struct {
	metric string
	value  float64
}

func find(values []sampleValue, metric string) float64 {
	for _, v := range values {
		if v.metric == metric {
			return v.value
		}
	}
	return math.NaN()
}

func TestMeasures(t *testing.T) {
	values, _, err := trial(t, param.Values{
		"argv":  sh(`sleep 0.05; echo '{"progress":1}'; echo "{\"runs\":[{\"rate\":12.5}],\"took\":\"$X\"}"`),
		"env":   "X=3e-3",
		"score": "json:$.runs[-1].rate", "cost": `json:$["took"]`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if w := find(values, "wall"); !(w >= 0.05 && w < 60) {
		t.Errorf("wall is %g s", w)
	}
	if m := find(values, "memory"); !(m > 100<<10 && m < 1<<30) {
		t.Errorf("memory is %g B", m)
	}
	if s, c := find(values, "score"), find(values, "cost"); s != 12.5 || c != 0.003 {
		t.Errorf("score %g, cost %g", s, c)
	}
}

// A repeated command has the median time of all executions but the first, and the CPU time
// of one.
func TestRepeated(t *testing.T) {
	raw := func(runs ...int64) workload.Raw {
		var all int64
		for _, ns := range runs {
			all += ns
		}
		b, err := json.Marshal(wire.ExecResult{Schema: wire.ExecSchema, Argv: []string{"a"}, ElapsedNS: all + 1, RunsNS: runs,
			Usage: facts.Usage{UserSeconds: 0.0123, SystemSeconds: 0.0321}})
		if err != nil {
			t.Fatal(err)
		}
		return workload.Raw{workload.ExecBlob: b}
	}
	p := param.Defaults(New().Doc().Params)
	p["argv"], p["repeat"] = "a", "25ms"
	for _, c := range []struct {
		runs []int64
		wall float64
	}{
		{[]int64{9e6, 3e6, 5e6, 4e6}, .004}, {[]int64{9e6, 3e6, 5e6}, .004}, {[]int64{9e6, 3e6}, .003},
		{[]int64{9e6}, .009},
	} {
		values, err := New().Parse(raw(c.runs...), p)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, v := range values {
			got[v.Metric] = v.Value
		}
		if cpu := 0.0444 / float64(len(c.runs)); math.Abs(got["wall"]-c.wall) > 1e-12 || math.Abs(got["cpu"]-cpu) > 1e-12 {
			t.Errorf("%v: wall %g, cpu %g; want %g, %g", c.runs, got["wall"], got["cpu"], c.wall, cpu)
		}
	}
	for warmup, want := range map[string]float64{"0": .0055, "1": .005, "2": .0045, "3": .004, "4": .004} {
		p["warmup"] = warmup
		values, err := New().Parse(raw(9e6, 8e6, 6e6, 5e6, 4e6, 3e6), p)
		if err != nil || values[0].Metric != "wall" || math.Abs(values[0].Value-want) > 1e-12 {
			t.Errorf("warmup %s: %v, want %g; %v", warmup, values, want, err)
		}
	}
	delete(p, "warmup")
	if _, _, err := trial(t, param.Values{"argv": "true", "warmup": "2"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("warmup without repeat: %v", err)
	}
	if _, err := New().Parse(raw(), p); err == nil || !strings.Contains(err.Error(), "was not repeated") {
		t.Errorf("one execution passes for several: %v", err)
	}
	p["repeat"] = ""
	if _, err := New().Parse(raw(1e6, 1e6), p); err == nil || !strings.Contains(err.Error(), "was repeated") {
		t.Errorf("several executions pass for one: %v", err)
	}
	for _, name := range []string{"reset", "cleanup", "score", "cost", "seconds"} {
		_, _, err := trial(t, param.Values{"argv": "true", "repeat": "25ms", name: "last-line"})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "repeat cannot be combined with "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	values, _, err := trial(t, param.Values{"argv": busy, "repeat": "50ms"})
	if err != nil || !(find(values, "wall") > 0) {
		t.Errorf("%v, %v", values, err)
	}
}

// Prepare, reset, command and cleanup run in their order, in one directory.
func TestStages(t *testing.T) {
	add := func(word string) string { return sh("echo " + word + " >> log") }
	_, target, err := trial(t, param.Values{
		"prepare": add("prepare"), "reset": add("reset"), "argv": add("run"), "cleanup": add("cleanup"), "dir": "/data",
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(target.Subject.Info().Volumes["/data"], "log"))
	if err != nil || strings.Join(strings.Fields(string(b)), " ") != "prepare reset run cleanup" {
		t.Errorf("log is %q (%v)", b, err)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	for name, c := range map[string]struct {
		set  param.Values
		kind fault.Kind
		says string
	}{
		"exit code": {param.Values{"argv": sh("echo no luck >&2; exit 3")}, fault.Subject,
			"exit code 3 instead of 0: no luck"},
		"two lines": {param.Values{
			"argv": sh("echo no space >&2; echo in between >&2; echo tar: previous errors >&2; exit 2")}, fault.Subject,
			"instead of 0: no space … tar: previous errors"},
		"signal":     {param.Values{"argv": sh("kill -SEGV $$"), "exit": "any"}, fault.Subject, "segmentation fault"},
		"timeout":    {param.Values{"argv": "sleep\n60", "timeout": "1s"}, fault.Subject, "killed"},
		"no program": {param.Values{"argv": "/does/not/exist"}, fault.Subject, "cannot be started"},
		"preparation": {param.Values{"argv": "true", "prepare": sh("echo disk full >&2; exit 1")}, fault.Subject,
			"prepare: \"/bin/sh\" failed with exit code 1: disk full"},
		"reset":   {param.Values{"argv": "true", "reset": "false"}, fault.Subject, "reset"},
		"cleanup": {param.Values{"argv": "true", "cleanup": "false"}, fault.Subject, "cleanup"},
		"no number": {param.Values{"argv": "echo\nnone", "score": "last-line"}, fault.Subject,
			"score: no number in the last line"},
		"zero": {param.Values{"argv": "echo\n0", "score": "last-line"}, fault.Subject, "is not positive"},
		"floods": {param.Values{"argv": sh("head -c 2000000 /dev/zero"), "cost": "last-line"}, fault.Subject,
			"more than 1 MiB"},
		"no volume":    {param.Values{"argv": "true", "dir": "/other"}, fault.Unsupported, "no volume /other"},
		"no command":   {param.Values{}, fault.Invalid, "argv must not be empty"},
		"bad exit":     {param.Values{"argv": "true", "exit": "ok"}, fault.Invalid, "exit must be a number"},
		"bad variable": {param.Values{"argv": "true", "env": "=1"}, fault.Invalid, "NAME=VALUE"},
		"bad extraction": {param.Values{"argv": "true", "cost": "first-line"}, fault.Invalid, "cost: invalid " +
			"value \"first-line\""},
	} {
		values, _, err := trial(t, c.set)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v error %v, want %v and %q", name, values, fault.Of(err), err, c.kind, c.says)
		}
	}
}

// A command that failed is cleaned up after, too.
func TestCleansUpAfterFailure(t *testing.T) {
	p := param.Defaults(New().Doc().Params)
	p["argv"], p["cleanup"], p["dir"] = "/does/not/exist", "touch\ncleaned", "/data"
	target := workloadtest.Local(t)
	if _, err := New().Run(context.Background(), target, p); !fault.Is(err, fault.Subject) {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(target.Subject.Info().Volumes["/data"], "cleaned")); err != nil {
		t.Errorf("nothing was cleaned: %v", err)
	}
}

func result(argv string, cpu float64) wire.ExecResult {
	return wire.ExecResult{Schema: wire.ExecSchema, Argv: []string{argv}, ElapsedNS: 1e9,
		Usage: facts.Usage{UserSeconds: cpu}, Stdout: []byte("7\n")}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func span(busy float64) wire.Span {
	return wire.Span{Before: facts.Counters{CPU: &facts.CPU{}}, After: facts.Counters{CPU: &facts.CPU{User: busy}}}
}

var params1 = param.Values{"argv": "x", "exit": "0", "score": "last-line"}

// The host's CPU time is the command's in the share that it had beside its
// cleanup; without a host it is absent.
func TestHostCost(t *testing.T) {
	raw := workload.Raw{workload.ExecBlob: encoded(t, result("x", 3.0003)),
		command.CleanupBlob: encoded(t, result("rm", 1.0001)), workload.Host: encoded(t, span(8))}
	got, err := New().Parse(raw, params1)
	if err != nil {
		t.Fatal(err)
	}
	last := got[len(got)-1]
	if last.Metric != "cpu-per-op" || math.Abs(last.Value-6) > 1e-9 {
		t.Errorf("cost is %+v, want 6 s", last)
	}
	delete(raw, workload.Host)
	got, err = New().Parse(raw, params1)
	if err != nil || got[len(got)-1].Metric != "score" {
		t.Errorf("without a host: %v, %v", got, err)
	}
}

// gVisor counts in ticks, of which it finds half: what it says of the command is
// not told, nor what the command had of a trial with a cleanup. The host's time
// of a trial without one is all the command's, however little that found.
func TestTicksOfTheEnvironmentAreNotTold(t *testing.T) {
	values := func(raw workload.Raw) map[string]float64 {
		got, err := New().Parse(raw, params1)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, v := range got {
			out[v.Metric] = v.Value
		}
		return out
	}
	for _, cpu := range []float64{0, 0.07} {
		raw := workload.Raw{workload.ExecBlob: encoded(t, result("x", cpu)), workload.Host: encoded(t, span(0.2))}
		got := values(raw)
		if _, ok := got["cpu"]; ok || got["cpu-per-op"] != 0.2 {
			t.Errorf("%g s in ticks: %v", cpu, got)
		}
		raw[command.CleanupBlob] = encoded(t, result("rm", 0.02))
		if got = values(raw); got["cpu-per-op"] != 0 || got["wall"] != 1 {
			t.Errorf("%g s in ticks, with a cleanup: %v", cpu, got)
		}
	}
}

// FuzzParse gives any bytes: what comes is positive and declared.
func FuzzParse(f *testing.F) {
	good := encoded(f, result("x", 1))
	f.Add(good, encoded(f, span(1)), good)
	f.Add(good[:len(good)/2], []byte("{}"), []byte(""))
	f.Add([]byte(`{"schema":"bakeoff/exec/v1","argv":["x"],"elapsed_ns":-1}`), []byte("null"), good)
	f.Add(good, encoded(f, span(1e308)), encoded(f, result("y", -2)))
	f.Fuzz(func(t *testing.T, exec, host, cleanup []byte) {
		got, err := New().Parse(workload.Raw{workload.ExecBlob: exec, workload.Host: host, command.CleanupBlob: cleanup},
			params1)
		if err != nil {
			return
		}
		doc := New().Doc()
		for _, v := range got {
			m, ok := doc.Metric(v.Metric)
			if !ok || m.Unit != v.Unit || !(v.Value > 0) || math.IsInf(v.Value, 0) {
				t.Errorf("gave %+v", v)
			}
		}
	})
}

// plan looks for the program of cleanup, unless an earlier command may create it.
func TestCleanupIsFoundBeforeTheFirstTrial(t *testing.T) {
	for _, c := range []struct {
		p    param.Values
		want string
	}{
		{param.Values{"argv": "test", "cleanup": "rmm\nx"}, "argv test, cleanup rmm"},
		{param.Values{"argv": "./test", "cleanup": "rmm\nx"}, "cleanup rmm"},
		{param.Values{"argv": "test", "cleanup": "./clean"}, "argv test"},
		{param.Values{"argv": "test", "cleanup": "clean", "prepare": "make\ninstall"}, "prepare make"},
		{param.Values{"argv": "test", "cleanup": "clean", "reset": "make"}, "reset make"},
		{param.Values{"argv": "test", "cleanup": "clean", "env": "PATH=/x"}, ""},
	} {
		var got []string
		for _, f := range New().(Runner).Files(c.p) {
			got = append(got, f.Param+" "+f.Path)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%v: %q, want %q", c.p, text, c.want)
		}
	}
}

// A command may run in any folder of its environment, and plan looks for the folder.
func TestWorkdir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := trial(t, param.Values{"argv": "test\n-e\nhere", "workdir": dir}); err != nil {
		t.Error(err)
	}
	got := New().(Runner).Files(param.Values{"argv": "test", "workdir": dir})
	want := []execution.File{{Param: "argv", Path: "test"}, {Param: "workdir", Path: dir, Folder: true}}
	if !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if got := New().(Runner).Files(param.Values{"argv": "test", "env": "PATH=/x", "workdir": dir}); len(got) != 1 {
		t.Errorf("files %v with a PATH", got)
	}
	for _, p := range []param.Values{{"argv": "true", "exit": "0", "workdir": "relative"},
		{"argv": "true", "exit": "0", "workdir": "/a", "dir": "/b"}} {
		err := New().(Runner).Check(p)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "workdir must be an absolute path") {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// A command without argv is the program of the image, in the folder of the image. A
// command that the lab file names replaces the whole program.
func TestStartsAsTheImageSays(t *testing.T) {
	target, folder, other := workloadtest.Local(t), t.TempDir(), t.TempDir()
	target.Start = driver.Start{Dir: folder, Argv: []string{"/bin/sh", "-c", "pwd > here", "name"}}
	for i, c := range []struct {
		set  param.Values
		file string
	}{
		{param.Values{}, folder + "/here"},
		{param.Values{"argv": sh("pwd > named")}, folder + "/named"},
		{param.Values{"workdir": other}, other + "/here"},
		{param.Values{"dir": "/data"}, target.Subject.Info().Volumes["/data"] + "/here"},
	} {
		p := param.Defaults(New().Doc().Params)
		maps.Copy(p, c.set)
		if err := New().Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		raw, err := New().Run(t.Context(), target, p)
		if err == nil {
			_, err = New().Parse(raw, p)
		}
		b, rerr := os.ReadFile(c.file)
		if err != nil || rerr != nil || strings.TrimSpace(string(b)) != filepath.Dir(c.file) {
			t.Errorf("%d: %v, %v, %q in %s", i, err, rerr, b, c.file)
		}
	}
}

// The programs of an image with a user run as that user, in a folder that is theirs.
func TestStartsAsTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: only root can become another user")
	}
	target := workloadtest.Local(t)
	target.Start = driver.Start{User: "4242:4343"}
	for dir := target.Subject.Info().Scratch; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := param.Defaults(New().Doc().Params)
	p["argv"] = sh("id -u > own && id -g >> own && id -G >> own && echo $HOME >> own")
	raw, err := New().Run(t.Context(), target, p)
	if err == nil {
		_, err = New().Parse(raw, p)
	}
	b, rerr := os.ReadFile(filepath.Join(target.Subject.Info().Scratch, "own"))
	if want := "4242\n4343\n4343\n"; err != nil || rerr != nil || !strings.HasPrefix(string(b), want) {
		t.Errorf("%v, %v, %q, want %q", err, rerr, b, want)
	}
	target.Start.User = "no-such-user"
	if _, err := New().Run(t.Context(), target, p); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), `user "no-such-user": /etc/passwd has no such user`) {
		t.Errorf("a user that does not exist: %v", err)
	}
}

// The trial says which files its command starts, or why that is not known. Cells of an
// environment with the same program hash it once.
func TestExecutable(t *testing.T) {
	const builds = "echo '#!/bin/sh' > tool; echo 'exit 0' >> tool; chmod +x tool"
	target := workloadtest.Local(t)
	target.Shared = map[string]string{}
	facts := func(set param.Values) map[string]string {
		p := param.Defaults(New().Doc().Params)
		maps.Copy(p, set)
		if err := New().Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		raw, err := New().Run(t.Context(), target, p)
		if err != nil && !fault.Is(err, fault.Subject) {
			t.Fatal(err)
		}
		var out map[string]string
		if err := json.Unmarshal(raw[workload.Facts], &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	f := facts(param.Values{"argv": sh("exit 0")})
	if f["path"] == "" || !strings.HasPrefix(f["executable"], "/bin/sh: sha256:") {
		t.Errorf("sh: %v", f)
	}
	f = facts(param.Values{"argv": "./tool", "prepare": sh(builds)})
	if f["path"] != "./tool" || !strings.HasSuffix(f["executable"], " (17 B)") ||
		!strings.HasPrefix(f["interpreter.path"], "/bin/sh") || !strings.HasPrefix(f["interpreter"], "/bin/sh: sha256:") {
		t.Errorf("a script that prepare wrote: %v", f)
	}
	f = facts(param.Values{"argv": "no-such-program"})
	want := map[string]string{"executable": "unavailable: no-such-program: PATH has no program of this name"}
	if !maps.Equal(f, want) {
		t.Errorf("no program: %v, want %v", f, want)
	}
	if n := len(target.Shared); n != 3 {
		t.Errorf("%d programs were hashed: %v", n, target.Shared)
	}
	facts(param.Values{"argv": sh("exit 1")})
	if n := len(target.Shared); n != 3 {
		t.Errorf("another cell with the same program: %d were hashed", n)
	}
}
