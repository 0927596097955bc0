package runner

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/ab"
	toolall "bakeoff/measure/tool/all"
	"bakeoff/measure/tool/bonnie"
	"bakeoff/measure/tool/fio"
	"bakeoff/measure/tool/h2load"
	"bakeoff/measure/tool/hey"
	"bakeoff/measure/tool/openssl"
	"bakeoff/measure/tool/pgbench"
	"bakeoff/measure/tool/siege"
	"bakeoff/measure/tool/sysbench"
	"bakeoff/measure/tool/wrk"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/external"
	"bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
	"bakeoff/reach/system/systemtest"
	"bakeoff/reach/wire"
)

func TestMain(m *testing.M) { workloadtest.Main(m, load.Loop()) }

// needs skips a test that starts a tool's real program where there is none.
func needs(t *testing.T, x tool.Tool) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the real " + x.Doc().Name)
	}
	patterns := []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}
	for _, dir := range append(patterns, x.Doc().Dirs...) {
		if found, _ := filepath.Glob(dir + "/" + x.Doc().Program); len(found) > 0 {
			return
		}
	}
	if _, err := exec.LookPath(x.Doc().Program); err != nil {
		t.Skipf("needs %s: apt-get install %s", x.Doc().Program, strings.Join(x.Doc().Packages["debian"], " "))
	}
}

// The real programs do their work, and what they print is understood.
func TestSysbench(t *testing.T) {
	needs(t, sysbench.New())
	workloadtest.Run(t, New(sysbench.New()), workloadtest.Options{
		Partial: true, Cells: []param.Values{{"test": "memory", "block": "1KiB", "threads": "2"}},
	})
}

func TestOpenSSL(t *testing.T) {
	needs(t, openssl.New())
	workloadtest.Run(t, New(openssl.New()), workloadtest.Options{
		Partial: true, Cells: []param.Values{{"algorithm": "aes-256-gcm", "block": "16B", "multi": "2"}},
	})
}

// A small file on a machine with more memory: the figures are of its cache,
// which the facts of the trial say.
func TestBonnie(t *testing.T) {
	needs(t, bonnie.New())
	target, w := workloadtest.Local(t), New(bonnie.New())
	p := param.Defaults(w.Doc().Params)
	p["size"], p["ram"], p["files"], p["characters"] = "64MiB", "32MiB", "1", "false"
	if err := w.Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	raw, err := w.Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	// bonnie++ may find it too fast to measure; then there is no figure, and no failure.
	if values, err := w.Parse(raw, p); err != nil {
		t.Errorf("%v, %v", values, err)
	}
	p["size"], p["ram"] = "64MiB", "64MiB"
	if err := w.Prepare(t.Context(), target, p); !fault.Is(err, fault.Invalid) {
		t.Errorf("a file that memory can hold: %v", err)
	}
}

func TestFio(t *testing.T) {
	needs(t, fio.New())
	workloadtest.Run(t, New(fio.New()), workloadtest.Options{
		Partial: true, Common: param.Values{"size": "4MiB", "time": "100ms"},
		Cells: []param.Values{{"block": "1MiB", "fsync": "2"}, {"pattern": "write"}},
	})
}

// web is this machine as an environment on the loopback network, and as the
// other end. What nginx it starts is ended with the test.
func web(t *testing.T) execution.Target {
	t.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		if _, err := os.Stat("/usr/sbin/nginx"); err != nil {
			t.Skip("needs nginx: apt-get install nginx")
		}
	}
	target := workloadtest.Local(t)
	scratch := target.Subject.Info().Scratch
	target.Peer, target.PeerAgent, target.PeerDir = local.Conn{}, target.Subject.Info().Agent, t.TempDir()
	target.Addr = workloadtest.Loopback()
	t.Cleanup(func() {
		workloadtest.Stop(t, syscall.SIGTERM, scratch+"/http-*/nginx.pid")
	})
	return target
}

func TestWrk(t *testing.T) {
	needs(t, wrk.New())
	workloadtest.Run(t, New(wrk.New()), workloadtest.Options{
		Target: web, Partial: true, Common: param.Values{"time": "1s", "connections": "10"},
		Cells: []param.Values{{"tls": "true", "threads": "2"}},
	})
}

func TestAb(t *testing.T) {
	needs(t, ab.New())
	workloadtest.Run(t, New(ab.New()), workloadtest.Options{
		Target: web, Partial: true, Common: param.Values{"time": "1s", "connections": "5"},
		Cells: []param.Values{{"tls": "true", "keepalive": "false"}},
	})
}

func TestHey(t *testing.T) {
	needs(t, hey.New())
	workloadtest.Run(t, New(hey.New()), workloadtest.Options{
		Target: web, Partial: true, Common: param.Values{"time": "1s", "connections": "5"},
		Cells: []param.Values{{"tls": "true", "keepalive": "false"}},
	})
}

func TestH2load(t *testing.T) {
	needs(t, h2load.New())
	workloadtest.Run(t, New(h2load.New()), workloadtest.Options{
		Target: web, Partial: true, Common: param.Values{"time": "1s", "connections": "5"},
		Cells: []param.Values{{"protocol": "http/2"}, {"protocol": "http/2", "tls": "true", "streams": "2"}},
	})
}

// hung reports whether siege hung at its end (package siege says why): it was
// killed then, and the block is void.
func hung(err error) bool {
	return fault.Is(err, fault.Lab) && strings.Contains(err.Error(), "siege, outside the environment, did not end")
}

func TestSiege(t *testing.T) {
	needs(t, siege.New())
	workloadtest.Run(t, New(siege.New()), workloadtest.Options{
		Target: web, Partial: true, Common: param.Values{"time": "1s", "connections": "5"},
		Cells: []param.Values{{"keepalive": "false"}},
		Void:  hung,
	})
}

// A page that is gone fails the check before the next trial, and a trial in
// which it goes has no figure.
func TestPageThatIsGone(t *testing.T) {
	needs(t, wrk.New())
	target, w := web(t), New(wrk.New())
	p := param.Defaults(w.Doc().Params)
	p["time"], p["connections"] = "1s", "2"
	if err := w.Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob(target.Subject.Info().Scratch + "/http-*/www/index.html")
	if len(pages) != 1 || os.Remove(pages[0]) != nil {
		t.Fatalf("pages %q", pages)
	}
	if err := w.Reset(t.Context(), target, p); !fault.Is(err, fault.Subject) {
		t.Errorf("Reset: %v", err)
	}
	raw, err := w.Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	if values, err := w.Parse(raw, p); !fault.Is(err, fault.Subject) {
		t.Errorf("404s give %v, %v", values, err)
	}
}

// A real PostgreSQL in the volume, as nobody's root, with what makes it
// durable recorded.
func TestPgbench(t *testing.T) {
	needs(t, pgbench.New())
	var targets []execution.Target
	workloadtest.Run(t, New(pgbench.New()), workloadtest.Options{
		Partial: true, Common: param.Values{"scale": "3", "time": "1s"},
		Cells: []param.Values{{"connect": "true", "transactions": "20", "fsync": "off", "wal-level": "minimal"}},
		Target: func(t *testing.T) execution.Target {
			target := short(t)
			targets = append(targets, target)
			return target
		},
	})
	for i, want := range []map[string]string{
		{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "wal_level": "replica"},
		{"fsync": "off", "wal_level": "minimal"},
	} {
		var k known
		if err := json.Unmarshal([]byte(targets[i].State["tool.pgbench"]), &k); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if k.Facts[name] != value || k.Facts["server_version"] == "" {
				t.Errorf("%s is %q, want %q; server %q", name, k.Facts[name], value, k.Facts["server_version"])
			}
		}
	}
}

// short is a target with a scratch directory that a socket's path has room
// for. What PostgreSQL it starts is ended with the test.
func short(t *testing.T) execution.Target {
	t.Helper()
	target := workloadtest.Local(t)
	dir, err := os.MkdirTemp("", "bo")
	if err != nil {
		t.Fatal(err)
	}
	instance := target.Subject.(*workloadtest.Instance)
	instance.Information.Scratch = dir
	t.Cleanup(func() {
		workloadtest.Stop(t, syscall.SIGTERM, instance.Information.Volumes["/data"]+"/*/postgresql-*/data/postmaster.pid")
		os.RemoveAll(dir)
	})
	return target
}

// example is a tool for tests: a shell that does as its script says.
type example struct {
	script, missing string
	web             bool // it makes load for a web server
}

var throughput = sample.Metric{Name: "throughput", Unit: "op/s", Better: sample.Higher, Primary: true,
	Scale: sample.Ratio, Doc: "x"}

func (e example) Doc() tool.Doc {
	program := "sh"
	if e.missing != "" {
		program = e.missing
	}
	return tool.Doc{
		Name: "example", Program: program, VersionArgs: []string{"-c", "echo v1"},
		Packages: map[string][]string{"debian": {"dash"}},
		Params:   []param.Spec{{Name: "n", Kind: param.Int, Default: "5"}},
		Metrics:  []sample.Metric{throughput}, Parser: 1, State: "carried", Cache: "warm",
		Server: map[bool]tool.Server{true: tool.Web}[e.web],
		Time:   func(param.Values) time.Duration { return time.Second },
	}
}

func (e example) Command(p param.Values, at tool.Place) (tool.Command, error) {
	if p.Int("n") == 13 {
		return tool.Command{}, fault.New(fault.Invalid, "n: 13 brings no luck")
	}
	return tool.Command{Argv: []string{"sh", "-c", e.script}, Env: []string{"N=" + p.Text("n")},
		Files: map[string]string{"input": "7"}, Keep: map[string]string{"log": "log.*", "none": "nothing"}}, nil
}

func (example) Version(out []byte) (map[string]string, error) {
	return map[string]string{"version": strings.TrimSpace(string(out))}, nil
}

func (example) Notes(p param.Values, at tool.Place) map[string]string {
	return map[string]string{"n": p.Text("n")}
}

func (e example) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	v, err := labeled.Text(out.Stdout).Number("rate", "")
	if err == nil && v > 0 {
		r.Add(e.Doc(), "throughput", v)
	}
	r.Work, r.Threads = v, 1
	r.Count("lost", int64(len(out.Files["log"])))
	return r, err
}

// newer is the example with a program of another version.
type newer struct{ example }

func (newer) Version([]byte) (map[string]string, error) {
	return map[string]string{"version": "v2"}, nil
}

// A program is looked for once in an environment; what is said of a cell stays
// that cell's.
func TestAToolIsFoundOnceInAnEnvironment(t *testing.T) {
	target := workloadtest.Local(t)
	shared := map[string]string{}
	for i, c := range []struct {
		tool       tool.Tool
		n, version string
		shared     map[string]string
	}{
		{example{}, "5", "v1", shared},
		{newer{}, "6", "v1", shared},              // it is not asked again
		{newer{}, "7", "v2", map[string]string{}}, // in another environment it is
		{newer{}, "8", "v2", nil},
	} {
		target.State, target.Shared = map[string]string{}, c.shared
		if err := New(c.tool).Prepare(t.Context(), target, param.Values{"n": c.n}); err != nil {
			t.Fatal(err)
		}
		var k known
		if err := json.Unmarshal([]byte(target.State["tool.example"]), &k); err != nil {
			t.Fatal(err)
		}
		if k.Facts["version"] != c.version || k.Facts["n"] != c.n || !strings.HasPrefix(k.Program, "/") {
			t.Errorf("%d: %+v, want version %s and n %s", i, k, c.version, c.n)
		}
	}
}

// versioned is the example with a version and what is known of versions.
type versioned struct {
	example
	doc     tool.Doc
	version string
}

func (v versioned) Doc() tool.Doc {
	d := v.example.Doc()
	d.Tried, d.Least = v.doc.Tried, v.doc.Least
	return d
}

func (v versioned) Version([]byte) (map[string]string, error) {
	return map[string]string{"version": v.version}, nil
}

// Before the first trial, a version that cannot be read is refused, and one that was not
// tried is told.
func TestVersionsAreCheckedBeforeTheFirstTrial(t *testing.T) {
	known := tool.Doc{Tried: []string{"1.0", "1.2"}, Least: "0.9"}
	for version, want := range map[string]string{"1.1.5": "", "2.0.1": "warning: ", "0.9.1": "warning: ",
		"0.8": "refused"} {
		var warnings []string
		target := workloadtest.Local(t)
		target.Warn = func(text string) { warnings = append(warnings, text) }
		err := New(versioned{doc: known, version: version}).Prepare(t.Context(), target, param.Values{"n": "1"})
		switch said := strings.Join(warnings, ""); {
		case want == "refused":
			if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "0.8 is too old") {
				t.Errorf("%s: %v", version, err)
			}
		case err != nil, want == "" && said != "", !strings.HasPrefix(said, want),
			want != "" && !strings.Contains(said, version):
			t.Errorf("%s: %q, %v", version, said, err)
		}
	}
}

// trial does what the runner does with one trial.
func trial(t *testing.T, x tool.Tool, set param.Values) (workload.Raw, []sample.Value, error) {
	t.Helper()
	w, p, target := New(x), param.Defaults(x.Doc().Params), workloadtest.Local(t)
	for k, v := range set {
		p[k] = v
	}
	ctx := context.Background()
	if err := w.Prepare(ctx, target, p); err != nil {
		return nil, nil, err
	}
	if err := w.Reset(ctx, target, p); err != nil {
		return nil, nil, err
	}
	// Twice, so that what one trial leaves could disturb the next.
	if raw, err := w.Run(ctx, target, p); err != nil {
		return raw, nil, err
	}
	raw, err := w.Run(ctx, target, p)
	if err != nil {
		return raw, nil, err
	}
	values, err := w.Parse(raw, p)
	return raw, values, err
}

// A program finds its files and a home of its own, and what it leaves in the
// files that are kept is this trial's alone.
func TestRunsWhereItMayWrite(t *testing.T) {
	raw, values, err := trial(t,
		example{script: `echo "rate $N$(cat input)"; [ "$HOME" = "$PWD" ] && printf a >log.1 && printf b >log.$$`}, nil)
	if err != nil || len(values) != 1 || values[0].Value != 57 {
		t.Fatalf("values %v, error %v", values, err)
	}
	if string(raw["log"]) != "ab" || raw["none"] != nil {
		t.Errorf("kept %q and %q", raw["log"], raw["none"])
	}
	var facts map[string]string
	if err := json.Unmarshal(raw[workload.Facts], &facts); err != nil || facts["version"] != "v1" ||
		facts["n"] != "5" || len(facts["sha256"]) != 64 {
		t.Errorf("facts %v, error %v", facts, err)
	}
	said, ok := New(example{}).(workload.Diagnoser).Diagnose(raw, nil)
	if !ok || said.Errors["lost"] != 2 || said.Generator == nil ||
		!(said.Generator.Utilisation >= 0 && said.Generator.Utilisation <= 1) {
		t.Errorf("diagnostics %+v, %v", said, ok)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	for name, c := range map[string]struct {
		tool example
		set  param.Values
		kind fault.Kind
		says string
	}{
		"not installed": {example{missing: "no-such-program"}, nil, fault.Subject, "no-such-program is not installed"},
		"refused":       {example{}, param.Values{"n": "13"}, fault.Invalid, "13 brings no luck"},
		"exit code": {example{script: "echo no luck >&2; exit 3"}, nil, fault.Subject,
			"sh failed with exit code 3: no luck"},
		"signal":       {example{script: "kill -SEGV $$"}, nil, fault.Subject, "segmentation fault"},
		"unreadable":   {example{script: "echo nothing"}, nil, fault.Lab, "no line begins with \"rate\""},
		"not measured": {example{script: "echo rate 0"}, nil, fault.Subject, "did not measure throughput"},
		"floods":       {example{script: "head -c 2000000 /dev/zero"}, nil, fault.Subject, "more than 1 MiB"},
	} {
		_, values, err := trial(t, c.tool, c.set)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v error %v, want %v and %q", name, values, fault.Of(err), err, c.kind, c.says)
		}
	}
}

// A full disk fails the gate disk-full, and not the environment. bonnie++ and PostgreSQL do
// not name the cause if the last write was short, as on btrfs.
func TestAFullDiskIsGated(t *testing.T) {
	for script, want := range map[string]string{
		"head -c 9 /dev/zero >/dev/full":                          "the disk was full",
		`echo "Can't write block.: Invalid argument" >&2; exit 1`: "a write was shorter than asked for",
		`echo 'ERROR:  could not extend file "base/5/16405": wrote only 4096 of 8192 bytes at block 1613' >&2; exit 2`: "" +
			"a write was shorter than asked for",
		`printf "Can't write block.: No space left on device\nBonnie: drastic I/O error (re write(2)): Invalid argument\n" ` +
			`>&2; exit 1`: "the disk was full while a file was rewritten",
		`echo "Bonnie: drastic I/O error (re write(2)): Input/output error" >&2; exit 1`: "",
		`echo "Can't write block.: Input/output error" >&2; exit 1`:                      "",
		"exit 1": "",
	} {
		raw, _, err := trial(t, example{script: "LC_ALL=C; " + script}, nil)
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
		d, ok := New(example{}).(workload.Diagnoser).Diagnose(raw, nil)
		if ok != (want != "") || d.Errors[wire.DiskFull] != map[bool]int64{true: 1}[ok] {
			t.Errorf("%s: %+v, %v", script, d, ok)
		}
	}
}

// A program that had to be killed at its limit has failed: inside, the
// environment did; a generator outside is to blame itself, so the block is void.
func TestProgramThatNeverEnds(t *testing.T) {
	for _, c := range []struct {
		tool tool.Tool
		kind fault.Kind
	}{{sysbench.New(), fault.Subject}, {siege.New(), fault.Lab}, {wrk.New(), fault.Lab}} {
		d, e := c.tool.Doc(), external.New(c.tool)
		p := param.Defaults(d.Params)
		killed := wire.ExecResult{Schema: wire.ExecSchema, Argv: []string{d.Program}, Signal: "killed", Code: 137,
			ElapsedNS: int64(e.Limit(p)) + 1}
		for after, want := range map[int64]struct {
			kind fault.Kind
			says string
		}{killed.ElapsedNS: {c.kind, "did not end within"},
			killed.ElapsedNS / 2: {fault.Subject, "failed with signal: killed"}} {
			killed.ElapsedNS = after
			b, err := json.Marshal(killed)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Parse(workload.Raw{workload.ExecBlob: b}, p)
			if ofSiege := d.Name == "siege" && after > int64(e.Limit(p)); hung(err) != ofSiege {
				t.Errorf("%s, killed after %d ns: hung is %v: %v", d.Name, after, !ofSiege, err)
			}
			if !fault.Is(err, want.kind) || !strings.Contains(err.Error(), want.says) {
				t.Errorf("%s, killed after %d ns: %v error %v, want %v and %q", d.Name, after, fault.Of(err), err, want.kind,
					want.says)
			}
		}
	}
}

// A program that a system lacks is offered by that system's package manager.
func TestOffersToInstall(t *testing.T) {
	for what, tt := range map[string]struct {
		kernel, release, says string
	}{
		"debian":  {"Linux", "ID=debian\n", "apt-get install -y --no-install-recommends sysbench"},
		"ubuntu":  {"Linux", "ID=ubuntu\nID_LIKE=debian\n", "apt-get install -y --no-install-recommends sysbench"},
		"alpine":  {"Linux", "ID=alpine\n", "apk add sysbench"},
		"freebsd": {"FreeBSD", "", "pkg install -y sysbench"},
		"openbsd": {"OpenBSD", "", "no package of it for openbsd"},
		"plan9":   {"Plan9", "", "does not know the package manager of this system (Plan9 )"},
	} {
		m := &systemtest.Machine{Says: map[string]systemtest.Answer{"uname -s": {Stdout: tt.kernel},
			"uname -v": {Stdout: "1"}}, Files: map[string]string{}}
		if tt.release != "" {
			m.Files["/etc/os-release"] = tt.release
		}
		s := &site{tool: sysbench.New(), conn: m}
		err := s.absentError(t.Context())
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "sysbench is not installed") ||
			!strings.Contains(fault.Fix(err), tt.says) {
			t.Errorf("%s: %v; %s", what, err, fault.Fix(err))
		}
	}
}

// Every system that a tool has packages for is one whose package manager is
// known.
func TestPackagesAreOfKnownSystems(t *testing.T) {
	for _, x := range toolall.Tools() {
		for name := range x.Doc().Packages {
			if !slices.ContainsFunc(systemall.Systems(), func(s system.System) bool { return s.Doc().Name == name }) {
				t.Errorf("%s has packages for %q, which no system is called", x.Doc().Name, name)
			}
		}
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func result(stdout string) wire.ExecResult {
	return wire.ExecResult{Schema: wire.ExecSchema, Argv: []string{"/bin/sh"}, ElapsedNS: 1e9, Stdout: []byte(stdout)}
}

// The cost is the time of the host's CPUs for a unit of work, and is absent
// where the host told nothing.
func TestCost(t *testing.T) {
	w := New(example{})
	raw := workload.Raw{workload.ExecBlob: encoded(t, result("rate 4\n"))}
	if got, err := w.Parse(raw, nil); err != nil || len(got) != 1 {
		t.Errorf("without a host: %v, %v", got, err)
	}
	raw[workload.Host] = encoded(t, wire.Span{Before: facts.Counters{CPU: &facts.CPU{}},
		After: facts.Counters{CPU: &facts.CPU{User: 2}}})
	got, err := w.Parse(raw, nil)
	if err != nil || len(got) != 2 || got[1].Metric != "cpu-per-op" || got[1].Value != 0.5 {
		t.Errorf("with a host: %v, %v", got, err)
	}
}

// A generator of others on another host: what that host spent is no file of the
// tool's, and a metric of its own.
func TestEnergyOfAGeneratorElsewhere(t *testing.T) {
	i := slices.IndexFunc(toolall.Tools(), func(x tool.Tool) bool { return x.Doc().Server == tool.Web })
	if i < 0 {
		t.Fatal("no tool makes load")
	}
	if _, ok := New(toolall.Tools()[i]).Doc().Metric("generator-joules-per-op"); !ok {
		t.Errorf("%s does not tell what its host spends", toolall.Tools()[i].Doc().Name)
	}
	if _, ok := New(example{}).Doc().Metric("generator-joules-per-op"); ok {
		t.Error("a tool without another end tells what that spends")
	}
	before, after := 10., 14.
	raw := workload.Raw{workload.ExecBlob: encoded(t, result("rate 4\n")),
		workload.GeneratorHost: encoded(t, wire.Span{Before: facts.Counters{AtNS: 1, Joules: &before},
			After: facts.Counters{AtNS: 2, Joules: &after}})}
	got, err := New(example{web: true}).Parse(raw, nil)
	if err != nil || len(got) != 2 || got[1].Metric != "generator-joules-per-op" || got[1].Value != 1 {
		t.Errorf("%v, %v; 4 J for 4 operations is right", got, err)
	}
}

// FuzzParse gives any bytes: what comes is positive and declared.
func FuzzParse(f *testing.F) {
	good := encoded(f, result("rate 4\n"))
	f.Add(good, []byte(`{}`), []byte(`{"before":{"at_ns":1,"joules":1},"after":{"at_ns":2,"joules":3}}`),
		[]byte(`{"version":"1"}`))
	f.Add(good[:len(good)/2], []byte("null"), []byte("null"), []byte(""))
	f.Add(encoded(f, wire.ExecResult{Schema: wire.ExecSchema, Argv: []string{""}, ElapsedNS: 1}), []byte("{"),
		[]byte("{"), []byte("[]"))
	f.Fuzz(func(t *testing.T, exec, host, generator, facts []byte) {
		raw := workload.Raw{workload.ExecBlob: exec, workload.Host: host, workload.GeneratorHost: generator,
			workload.Facts: facts}
		w := New(example{web: true})
		w.(workload.Diagnoser).Diagnose(raw, nil)
		got, err := w.Parse(raw, nil)
		if err != nil {
			return
		}
		for _, v := range got {
			if m, ok := w.Doc().Metric(v.Metric); !ok || m.Unit != v.Unit || !(v.Value > 0) || math.IsInf(v.Value, 0) {
				t.Errorf("gave %+v", v)
			}
		}
	})
}
