package runner

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool/siege"
	"bakeoff/measure/tool/wrk"
	"bakeoff/measure/workload"
	external "bakeoff/measure/workload/external/runner"
	"bakeoff/measure/workload/http"
	httppath "bakeoff/measure/workload/http/path"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// spent is the CPU time of the server alone, in seconds: what others do on the
// machine must not decide a test.
func spent(t *testing.T, target execution.Target) float64 {
	t.Helper()
	files, _ := filepath.Glob(target.Subject.Info().Scratch + "/http-*/nginx.pid")
	if len(files) != 1 {
		t.Fatalf("servers: %q", files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	master := strings.TrimSpace(string(b))
	children, err := os.ReadFile("/proc/" + master + "/task/" + master + "/children")
	if err != nil {
		t.Skipf("needs /proc/PID/task/PID/children: %v", err)
	}
	sum := 0.0
	for _, pid := range append(strings.Fields(string(children)), master) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		sum += (user + system) / 100
	}
	return sum
}

// inTheMiddle runs a trial, and calls happens when the server has done more than
// a warm-up is: 30 ms of work are many hundreds of requests.
func inTheMiddle(t *testing.T, target execution.Target, p param.Values, happens func()) (raw workload.Raw, err error) {
	t.Helper()
	before, ended := spent(t, target), make(chan struct{})
	go func() {
		defer close(ended)
		raw, err = New().Run(t.Context(), target, p)
	}()
	for spent(t, target) < before+0.03 {
		select {
		case <-ended:
			t.Fatalf("the trial ended (%v) before the server had done 30 ms of work", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	happens()
	<-ended
	return raw, err
}

// trialOf runs one trial of the server and returns what the gates see of it,
// with the server's own CPU time as that of the environment's one CPU.
func trialOf(t *testing.T, target execution.Target, p param.Values) evidence.Trial {
	t.Helper()
	return trialBy(t, New(), target, p, 0)
}

// trialBy is trialOf for any workload whose server is nginx. Neighbors use a share of the
// environment's one CPU.
func trialBy(t *testing.T, w execution.Runner, target execution.Target, p param.Values,
	neighbors float64) evidence.Trial {
	t.Helper()
	if err := w.Reset(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	before, after := probe.ReadHost(nil), facts.Counters{}
	cpu, from := spent(t, target), time.Now()
	raw, err := w.Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	after = probe.ReadHost(nil)
	used, elapsed := spent(t, target)-cpu, time.Since(from)
	busy, none := used+neighbors*elapsed.Seconds(), 0.0
	before.CPU, after.CPU = &facts.CPU{}, &facts.CPU{User: busy, Idle: max(0, elapsed.Seconds()-busy)}
	before.Scope, after.Scope = &facts.Scope{CPUSeconds: &none}, &facts.Scope{CPUSeconds: &used}
	line := store.Line{Trial: &store.Trial{Start: from, End: from.Add(elapsed), Before: &before, After: &after}}
	return evidence.TrialOf(w, plan.Cell{Cell: manifest.Cell{Params: p}}, line, raw)
}

// failing returns the reasons of the gates that a trial fails.
func failing(trial evidence.Trial) map[string]string {
	out := map[string]string{}
	for _, g := range evidence.Gates() {
		if why := g.Failed(trial); why != "" {
			out[g.Name] = why
		}
	}
	return out
}

// across is a server and its load in networks of their own, joined by a cable
// that carries so many bits a second from the server; "" for any.
func across(t *testing.T, rate string) execution.Target {
	t.Helper()
	target := bare(t)
	names, addrs := namespaces(t)
	if rate != "" {
		out, err := exec.Command("tc", "-n", names[0], "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst",
			"5kb", "latency", "100ms").CombinedOutput()
		if err != nil {
			t.Skipf("needs tc (apt-get install iproute2) and a kernel with tbf: %v: %s", err, out)
		}
	}
	target.Subject = &workloadtest.Instance{
		Conn:        local.Conn{Netns: names[0]},
		Information: driver.Info{Scratch: target.Subject.Info().Scratch, Agent: target.Subject.Info().Agent},
	}
	target.Peer, target.Addr = local.Conn{Netns: names[1]}, addrs[0]
	return target
}

func cellOf(set param.Values) param.Values {
	p := param.Defaults(New().Doc().Params)
	p["timeout"] = "10s"
	for name, text := range set {
		p[name] = text
	}
	return p
}

// costly makes the server of target a stand-in that spends about 0.7 ms of CPU time on an
// answer: it can fill a link of 20 Mbit/s with pages of 4 KiB, but not one of 200 Mbit/s.
func costly(t *testing.T, target execution.Target) execution.Target {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, bin+"/nginx"); err != nil {
		t.Fatal(err)
	}
	answer, fastest := make([]byte, 4200), time.Hour
	for range 100 {
		from := time.Now()
		sha256.Sum256(answer)
		fastest = min(fastest, time.Since(from))
	}
	in := target.Subject.(*workloadtest.Instance)
	target.Subject = set{in, conn.Prefix(in.Conn, "env", "PATH="+bin+":"+os.Getenv("PATH"), plain+"=1",
		spends+"="+strconv.Itoa(int(700*time.Microsecond/max(fastest, 1))))}
	return target
}

// The articles' load generators and the native one before a server that a link of 20
// Mbit/s leaves half idle: the comparison is withheld, also beside a neighbor that keeps
// the server's whole CPU busy. Ten times the link leaves the server's CPU as the bound.
func TestEveryGeneratorOnAFullLinkIsGated(t *testing.T) {
	if testing.Short() {
		t.Skip("loads a link for some seconds")
	}
	for _, w := range []execution.Runner{New(), external.New(wrk.New()), external.New(siege.New())} {
		for rate, full := range map[string]bool{"20mbit": true, "200mbit": false} {
			t.Run(w.Doc().Name+"/"+rate, func(t *testing.T) { gatedBy(t, w, rate, full) })
		}
	}
}

// gatedBy runs trials before the costly server until one is gated as it should be. It fails
// if one is not although the machine had time, and skips if others always had the CPUs.
func gatedBy(t *testing.T, w execution.Runner, rate string, full bool) {
	t.Helper()
	if name := w.Doc().Name; name != "http" {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: apt-get install %s", name, name)
		}
	}
	p := param.Defaults(w.Doc().Params)
	p["time"], p["connections"] = "1s", "8"
	target, neighbors, quiet := costly(t, across(t, rate)), 0.0, false
	if full {
		neighbors = .6
	}
	const attempts = 5
	for i := range attempts {
		target.State = map[string]string{} // the path is measured again
		before := probe.ReadHost(nil).CPU
		if err := w.Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		trial := trialBy(t, w, target, p, neighbors)
		after, gates := probe.ReadHost(nil).CPU, failing(trial)
		idle := (after.Idle - before.Idle) / (after.Idle - before.Idle + after.Busy() - before.Busy())
		t.Logf("path %+v, machine %.0f %% idle: %v", *trial.Path, 100*idle, gates)
		counted := trial.Path.ReceivedPerSecond >= 1e6 && trial.Path.Interface == "eth0"
		if counted && strings.Contains(gates["path"], "that the network path carries") == full {
			return
		}
		quiet = quiet || idle > .25
		if i+1 < attempts {
			continue // others may have had the CPU, or the whole machine may have paused
		}
		if !quiet {
			t.Skipf("other programs had the CPUs: gates %v, path %+v", gates, *trial.Path)
		}
		t.Fatalf("gates %v, path %+v", gates, *trial.Path)
	}
}

// A link of 20 Mbit/s in front of a server that has nothing to do: what is
// measured is the link, as with seven systems behind one of 2.5 Gbit/s.
func TestALinkAtItsCeilingIsGated(t *testing.T) {
	target := across(t, "20mbit")
	p, quiet := cellOf(param.Values{"time": "2s"}), false
	const attempts = 5
	for i := range attempts {
		target.State = map[string]string{} // the path is measured again
		before := probe.ReadHost(nil).CPU
		if err := New().Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		trial := trialOf(t, target, p)
		after, gates := probe.ReadHost(nil).CPU, failing(trial)
		idle := (after.Idle - before.Idle) / (after.Idle - before.Idle + after.Busy() - before.Busy())
		t.Logf("path %+v, trial %.0f requests/s, %.0f %% idle: %v", *trial.Path, trial.Work.Work/2, 100*idle, gates)
		// 20 Mbit/s are 2.5 MB/s with all heads of packets.
		b := trial.Path.BytesPerSecond
		carries, gated := b >= 1.5e6 && b <= 3.5e6, strings.Contains(gates["path"], "that the network path carries")
		quiet = quiet || idle >= .25
		switch {
		case carries && gated:
			return
		case i+1 < attempts:
			continue // others may have had the CPU that one of the two measurements needed
		case !quiet:
			t.Skipf("other programs had the CPUs: gates %v, path %+v", gates, *trial.Path)
		case !carries:
			t.Errorf("the path carries %.3g B/s (%s)", b, trial.Path.Reason)
		}
		if !gated {
			t.Errorf("gates: %v", gates)
		}
		return
	}
}

// Cells that ask in the same way have one path, measured once: figures of two
// measurements would differ. Those that ask otherwise have another.
func TestCellsShareAPath(t *testing.T) {
	target := bare(t)
	target.Shared = map[string]string{}
	path := func(set param.Values) workload.Path {
		target.State = map[string]string{}
		set["time"] = "100ms"
		if err := New().Prepare(t.Context(), target, cellOf(set)); err != nil {
			t.Fatal(err)
		}
		var out workload.Path
		raw := workload.Raw{}
		httppath.Keep(target, raw)
		if err := json.Unmarshal(raw[workload.PathBlob], &out); err != nil || out.Reason != "" || out.PerSecond <= 0 {
			t.Fatalf("%v: %+v, %v", set, out, err)
		}
		return out
	}
	// What is shared are the measured paths: two of them may have the same figures.
	measured := func(want int) {
		t.Helper()
		if n := len(target.Shared); n != want {
			t.Errorf("%d paths were measured, want %d: %v", n, want, target.Shared)
		}
	}
	first := path(param.Values{"connections": "10"})
	measured(1)
	if again := path(param.Values{"connections": "10", "tls": "true", "rate": "100/s"}); again != first {
		t.Errorf("%+v, and then %+v", first, again)
	}
	measured(1)
	if more := path(param.Values{"connections": "50"}); more.Connections != 50 {
		t.Errorf("another number of connections has the path %+v", more)
	}
	measured(2)
	path(param.Values{"connections": "10", "page": "64KiB"})
	measured(3)
	path(param.Values{"connections": "10", "protocol": http.Two})
	measured(4)
}

// Without the link a rate far below what the path carries is not a ceiling, on any machine.
func TestAnOpenPathIsNotGated(t *testing.T) {
	target := across(t, "")
	p := cellOf(param.Values{"time": "500ms", "rate": "50/s"})
	for try := 1; ; try++ {
		target.State = map[string]string{} // the path is measured again
		if err := New().Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		trial := trialOf(t, target, p)
		t.Logf("path %+v, trial %.0f requests/s: %v", *trial.Path, trial.Work.Work*2, failing(trial))
		if trial.Path.Interface != "eth0" {
			t.Fatalf("path: %+v", trial.Path)
		}
		why := failing(trial)["path"]
		if trial.Path.PerSecond > 500 && trial.Work.Work > 0 && why == "" {
			return
		}
		if try == 5 { // others may have had the CPU that one of the two measurements needed before
			t.Fatalf("path: %+v, %v responses; gated because %q", trial.Path, trial.Work.Work, why)
		}
	}
}

// A missing page is answered fast, but is not throughput.
func TestErrorsAreNoThroughput(t *testing.T) {
	p := cellOf(param.Values{"time": "300ms", "connections": "5"})
	target := bare(t)
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob(target.Subject.Info().Scratch + "/http-*/www/index.html")
	if len(pages) != 1 {
		t.Fatalf("pages: %q", pages)
	}
	// It goes missing in mid-trial, as with a deployment under load.
	p["time"] = "2s"
	from := time.Now()
	raw, err := inTheMiddle(t, target, p, func() { os.Rename(pages[0], pages[0]+".gone") })
	if err != nil {
		t.Fatal(err)
	}
	trial := evidence.TrialOf(New(), plan.Cell{}, store.Line{Trial: &store.Trial{Start: from, End: time.Now()}}, raw)
	if why := failing(trial)["errors"]; !strings.Contains(why, "status 404: ") {
		t.Errorf("gates: %v", failing(trial))
	}
}

// A page that is as long as the right one and another, sent with status 200: an
// error page that calls itself none. Nothing that came was what was asked for.
func TestAnAnswerThatIsAnotherIsGated(t *testing.T) {
	target, p, page := prepared(t, param.Values{"time": "300ms"})
	right, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	wrong := []byte(strings.Repeat("Back soon. ", len(right)/11+1))[:len(right)]
	if err := os.WriteFile(page, wrong, 0o644); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	raw, err := New().Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	trial := evidence.TrialOf(New(), plan.Cell{}, store.Line{Trial: &store.Trial{Start: from, End: time.Now()}}, raw)
	if got := failing(trial); got["answer"] != "the answer was not verified" ||
		!strings.Contains(got["errors"], "wrong body: ") {
		t.Errorf("gates: %v", got)
	}
}

// burn keeps a CPU busy with four loops until the test ends. They run when it
// returns.
func burn(t *testing.T, cpu int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var burning sync.WaitGroup
	t.Cleanup(burning.Wait)
	t.Cleanup(cancel)
	for range 4 {
		began, says := io.Pipe()
		burning.Go(func() {
			argv := []string{"sh", "-c", "echo; while :; do :; done"}
			_, err := local.Conn{CPUs: []int{cpu}}.Exec(ctx, conn.Cmd{Argv: argv, Stdout: says})
			says.CloseWithError(err)
		})
		if _, err := began.Read(make([]byte, 1)); err != nil {
			t.Fatalf("a busy loop did not start: %v", err)
		}
	}
}

// A generator whose CPU others hold sends its requests late, and what it calls
// latency is its own.
func TestALateGeneratorIsGated(t *testing.T) {
	target := bare(t)
	// Behind others of higher rank it waits, whatever the kernel thinks of short
	// work.
	target.Peer = conn.Prefix(local.Conn{CPUs: []int{0}}, "nice", "-n", "10")
	// With connections for all that piles up nothing waits for one.
	p := cellOf(param.Values{"time": "1s", "rate": "500/s", "connections": "400", "timeout": "30s",
		"priority": http.Ordinary})
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	burn(t, 0)
	// Waiting comes in bursts, and the server may have waited as well.
	var seen []map[string]string
	for range 6 {
		from := time.Now()
		raw, err := New().Run(t.Context(), target, p)
		if err != nil {
			t.Fatal(err)
		}
		trial := evidence.TrialOf(New(), plan.Cell{}, store.Line{Trial: &store.Trial{Start: from, End: time.Now()}}, raw)
		seen = append(seen, failing(trial))
		if strings.Contains(failing(trial)["lateness"], "the generator sent") {
			return
		}
	}
	t.Errorf("gates: %v", seen)
}
