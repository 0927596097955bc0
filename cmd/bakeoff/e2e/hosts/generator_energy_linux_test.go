package hosts

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// meteredLab has load from another host, and a meter on either: each counts so
// many joules from one reading to the next, and so for every trial.
const meteredLab = `schema: bakeoff/lab/v1
name: load
hosts:
  local: {uplink: NEAR, meter: [METER, FILES/near, "7"]}
  client: {ssh: box, dir: DIR, uplink: FAR, meter: [METER, FILES/far, "3"]}
generator: client
contenders:
  - {name: a, driver: host}
  - {name: b, driver: host}
baseline: a
cells: [{name: web, workload: http, params: {time: 1s}, primary: [throughput]}]
design: {blocks: 2, mirror: false}
`

// countingMeter is a meter whose reading grows by its second argument.
const countingMeter = `#!/bin/sh
n=$(($(cat "$1") + $2))
echo $n >"$1"
echo $n
`

// metered is a home with two hosts and a meter on each, the lab of it, and the
// folder in which the meters have their readings. relink makes the link of the hosts again.
func metered(t *testing.T) (h e2e.Home, lab, files string, relink func()) {
	t.Helper()
	h, _, lab, dir := farHome(t, 2)
	near, far := link(t)
	files = t.TempDir()
	meter := filepath.Join(files, "meter")
	write(t, meter, countingMeter)
	if err := os.Chmod(meter, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(files, "near"), "1000\n")
	write(t, filepath.Join(files, "far"), "500000\n")
	names := strings.NewReplacer("DIR", dir, "NEAR", near, "FAR", far, "METER", meter, "FILES", files)
	write(t, lab, names.Replace(meteredLab))
	return h, lab, files, func() { connect(t, near, far) }
}

// Both ends of an experiment are metered, each by its own host's meter: in the
// run folder, in its results, in what other programs get of them, and on the
// page. A run that was killed goes on so, and holds.
func TestGeneratorOnAnotherHostIsMetered(t *testing.T) {
	t.Parallel()
	h, lab, _, relink := metered(t)
	folder := killedAfter(t, h, lab, 2)
	cleaned(t, h)
	relink() // the kernel gives a real one back, and ends a virtual one
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", "--resume", folder, "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("resume: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	folder = filepath.Join(h.Dir, r.Folder)
	n := bothEndsCounted(t, folder)
	if n < 6 {
		t.Errorf("%d trials have counters of both ends, and two blocks have 6", n)
	}
	costsOfBothEnds(t, r.Results, folder)
	if len(r.Unavailable) > 0 {
		t.Errorf("unavailable: %+v", r.Unavailable)
	}
	h.Holds(t, r.Folder)
	page, err := os.ReadFile(filepath.Join(h.Dir, r.Report))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"generator-joules-per-request", "joules-per-request", "Counters of client, the load generator", ">power</th>",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	analysed(t, h, r)
	tamper(t, h, folder, r.Folder)
	h.LeavesNothing(t)
}

// killedAfter starts a run and kills it when it has so many trials.
func killedAfter(t *testing.T, h e2e.Home, lab string, trials int) (folder string) {
	t.Helper()
	c := h.Command("run", lab, "--seed", "7")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	journal := e2e.WaitForTrials(t, h.Dir, trials)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	if folder, err := filepath.Rel(h.Dir, filepath.Dir(journal)); err == nil {
		return folder
	}
	return filepath.Dir(journal)
}

// cleaned removes what a killed run left on both hosts.
func cleaned(t *testing.T, h e2e.Home) {
	t.Helper()
	out, errs, code := cleanUntilDone(t, h)
	if code != 0 || !strings.Contains(out, "on host client") {
		t.Fatalf("clean: exit code %d\n%s%s", code, out, errs)
	}
}

// bothEndsCounted asserts what both meters said in every trial of a run folder
// that has an end, in the journal and in the raw output, and counts them.
func bothEndsCounted(t *testing.T, folder string) (n int) {
	t.Helper()
	for _, l := range e2e.Journal(t, filepath.Join(folder, store.JournalFile)) {
		if l.Type != store.LineTrial || l.Status != store.OK {
			continue
		}
		n++
		after := l.GeneratorAfter
		if l.GeneratorBefore == nil || after == nil || after.CPU == nil || after.ContextSwitches == nil {
			t.Fatalf("%d/%d: the line lacks counters of the generator's host", l.Block, l.Position)
		}
		dir := filepath.Join(folder, store.RawDir, fmt.Sprintf("%d-%d-%s-%s", l.Block, l.Position, l.Contender, l.Cell))
		for blob, want := range map[string]struct {
			line   wire.Span
			joules float64
		}{
			workload.Host:          {wire.Span{Before: *l.Before, After: *l.After}, 7},
			workload.GeneratorHost: {wire.Span{Before: *l.GeneratorBefore, After: *l.GeneratorAfter}, 3},
		} {
			var raw wire.Span
			readJSON(t, filepath.Join(dir, blob), &raw)
			if in, kept := spentIn(want.line), spentIn(raw); in != want.joules || kept != want.joules {
				t.Errorf("%s of %d/%d: %g J in the line, %g J in the file; the meter counted %g J",
					blob, l.Block, l.Position, in, kept, want.joules)
			}
		}
	}
	return n
}

// spentIn is the energy of a span, NaN where there is none.
func spentIn(s wire.Span) float64 {
	if j := s.After.Since(s.Before).Joules; j != nil {
		return *j
	}
	return math.NaN()
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// costsOfBothEnds asserts that each sample of either end is what its meter
// counted, for the requests of its trial.
func costsOfBothEnds(t *testing.T, r analysis.Results, folder string) {
	t.Helper()
	spent := map[string]float64{"joules-per-request": 7, "generator-joules-per-request": 3}
	seen := map[string]int{}
	for _, s := range r.Summaries {
		joules, ok := spent[s.Metric]
		if !ok {
			continue
		}
		for _, x := range s.Samples {
			seen[s.Metric]++
			var work wire.Result
			trial := fmt.Sprintf("%d-%d-%s-%s", x.Block, x.Position, s.Contender, s.Cell)
			readJSON(t, filepath.Join(folder, store.RawDir, trial, workload.Work), &work)
			requests := 0.0
			for _, v := range work.Values {
				if v.Metric == "requests" {
					requests = v.Value
				}
			}
			if want := joules / requests; !(math.Abs(x.Value-want) <= 1e-9*want) {
				t.Errorf("%s of %s: %g, and %g J for %g requests are %g", s.Metric, s.Contender, x.Value, joules, requests, want)
			}
		}
	}
	if seen["joules-per-request"] < 6 || seen["joules-per-request"] != seen["generator-joules-per-request"] {
		t.Errorf("%v samples, and each of at least 6 trials has one of either end", seen)
	}
	for _, c := range r.Comparisons {
		if strings.HasPrefix(c.Metric, "generator-") && (c.Primary || c.Verdict != "") {
			t.Errorf("%s of %s has the verdict %q", c.Metric, c.Contender, c.Verdict)
		}
	}
}

// analysed asserts that the samples of both ends come through export into the
// analysis of numbers out of any program.
func analysed(t *testing.T, h e2e.Home, r e2e.Ran) {
	t.Helper()
	table, errs, code := h.Bakeoff(t, 3*time.Minute, "export", r.Folder)
	if code != 0 {
		t.Fatalf("export: exit code %d\n%s", code, errs)
	}
	head, rows, _ := strings.Cut(table, "\n")
	for row := range strings.Lines(rows) {
		if strings.Contains(row, "joules-per-request") {
			head += "\n" + strings.TrimSpace(row)
		}
	}
	write(t, filepath.Join(h.Dir, "numbers.csv"), head+"\n")
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "analyse", "numbers.csv", "--baseline", "a", "--json")
	if code != 0 {
		t.Fatalf("analyse: exit code %d\n%s", code, errs)
	}
	want, got := medians(t, r.Results), map[string]float64{}
	for _, text := range strings.Split(strings.TrimSpace(out), "\n") {
		var again analysis.Results
		if err := json.Unmarshal([]byte(text), &again); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for key, v := range medians(t, again) {
			got[key] = v
		}
	}
	for key, v := range want {
		if math.Abs(got[key]-v) > 1e-9*v {
			t.Errorf("analyse has %g for %s, the run %g", got[key], key, v)
		}
	}
	if len(want) != 6 {
		t.Errorf("%d medians of energy, and three contenders have one of either end", len(want))
	}
}

// medians are those of energy, by contender and metric.
func medians(t *testing.T, r analysis.Results) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, s := range r.Summaries {
		if strings.Contains(s.Metric, "joules-per-request") && s.Median != nil {
			out[s.Contender+" "+s.Metric] = *s.Median
		}
	}
	return out
}

// tamper changes a joule of the generator's, which verify tells.
func tamper(t *testing.T, h e2e.Home, folder, name string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, store.RawDir, "*", workload.GeneratorHost))
	if err != nil || len(found) == 0 {
		t.Fatalf("no file of the generator's counters: %v", err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	write(t, found[0], strings.Replace(string(b), `"joules":500`, `"joules":400`, 1))
	out, _, code := h.Bakeoff(t, 3*time.Minute, "verify", name)
	if code == 0 || !strings.Contains(out, workload.GeneratorHost) {
		t.Errorf("a changed joule: exit code %d\n%s", code, out)
	}
	write(t, found[0], string(b))
}

// A meter of the generator's host that fails is told once and with its host, as
// the subject's is, and takes nothing else away.
func TestGeneratorOnAnotherHostWithAMeterThatFails(t *testing.T) {
	t.Parallel()
	h, lab, _, _ := metered(t)
	text, err := os.ReadFile(lab)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(text), "client: {")
	broken := string(text[:i]) + strings.Replace(string(text[i:]), `, "3"]`, `]`, 1)
	write(t, lab, strings.Replace(broken, "blocks: 2", "blocks: 1", 1))
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", lab, "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	if strings.Count(errs, "energy of client is unavailable: the meter ") != 1 ||
		strings.Contains(errs, "energy of local") {
		t.Errorf("it is reported as:\n%s", errs)
	}
	for _, s := range r.Summaries {
		if s.Metric == "generator-joules-per-request" {
			t.Errorf("%s has %g J/request of a meter that failed", s.Contender, *s.Median)
		}
	}
	if got := medians(t, r.Results); len(got) != 3 {
		t.Errorf("the subject's energy is %v, and its meter counts", got)
	}
	told := 0
	for _, u := range r.Unavailable {
		if u.Metric == "generator-joules-per-request" && u.Reason == "the meter of client gave no reading" {
			told++
		}
	}
	if told != 3 || told != len(r.Unavailable) {
		t.Errorf("unavailable: %+v", r.Unavailable)
	}
	page, err := os.ReadFile(filepath.Join(h.Dir, r.Report))
	if err != nil || !strings.Contains(string(page), "the meter of client gave no reading") {
		t.Errorf("the page does not say why: %v", err)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// What counts the energy of either end is said before anything runs, and no
// meter is executed for it.
func TestGeneratorOnAnotherHostIsSaidToBeMetered(t *testing.T) {
	t.Parallel()
	h, lab, files, _ := metered(t)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", lab, "--json")
	var v struct {
		Energy []struct {
			Host   string
			Ends   []string
			Source *string
		}
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		t.Fatalf("plan: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	metered := func(i int, host, end string) bool {
		e := v.Energy[i]
		return e.Host == host && e.Source != nil && *e.Source == "meter" && e.Ends[0] == end
	}
	if len(v.Energy) != 2 || !metered(0, "client", "generator") || !metered(1, "local", "contenders") {
		t.Errorf("plan --json: %+v", v.Energy)
	}
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "plan", lab)
	for _, want := range []string{
		"Energy of client (load generator): by its meter /", "Energy of local (contenders): by its meter /",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("plan: exit code %d, and it lacks %q:\n%s%s", code, want, out, errs)
		}
	}
	text, err := os.ReadFile(lab)
	if err != nil {
		t.Fatal(err)
	}
	for end, want := range map[string]string{"near": "1000\n", "far": "500000\n"} {
		if got, err := os.ReadFile(filepath.Join(files, end)); err != nil || string(got) != want {
			t.Errorf("the meter %s was executed: it stands at %q (%v), and began at %q", end, got, err, want)
		}
	}
	write(t, lab, strings.ReplaceAll(string(text), "/meter, ", "/no-meter, "))
	out, errs, code = h.Bakeoff(t, 2*time.Minute, "doctor", "--hosts", lab, "--json")
	type finding struct{ Name, State, Text string }
	var d struct {
		Machine []finding
		Hosts   []struct{ Machine []finding }
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 || len(d.Hosts) != 1 {
		t.Fatalf("doctor: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	for end, found := range map[string][]finding{"local": d.Machine, "client": d.Hosts[0].Machine} {
		i := slices.IndexFunc(found, func(f finding) bool { return f.Name == "energy" })
		if i < 0 || found[i].State != "missing" || !strings.Contains(found[i].Text, "/no-meter does not exist there") ||
			strings.Contains(found[i].Text, "this host is the load generator") != (end == "client") {
			t.Errorf("doctor of %s: %+v", end, found)
		}
	}
	h.LeavesNothing(t)
}
