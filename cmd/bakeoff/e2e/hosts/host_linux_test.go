package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/store"
	"bakeoff/reach/conn/sshtest"
)

// boxLab measures on a machine over SSH, beside this one: a loop, and a server
// with its load generator on a network of that machine's own.
const boxLab = `schema: bakeoff/lab/v1
name: far
hosts: {box: {ssh: box, dir: DIR, repair: [sh, -c, "echo repaired >>DIR/repairs"]}}
contenders:
  - {name: there, driver: host, host: box}
  - {name: again, driver: host, host: box}
  - {name: here, driver: host}
baseline: there
cells:
  - {name: sha, workload: crypto, params: {algorithm: sha256, block: 16KiB, time: 20ms}, primary: true}
  - {name: web, workload: http, params: {time: 500ms}}
design: {blocks: BLOCKS, budget: 5m}
`

// farHome is a home with a machine over SSH and a lab of so many blocks that uses it.
func farHome(t *testing.T, blocks int) (h e2e.Home, s *sshtest.Server, lab, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the driver host makes control groups")
	}
	for program, pkg := range map[string]string{"nginx": "nginx", "ip": "iproute2"} {
		if e2e.FindProgram(program) == "" {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	s = sshtest.Start(t)
	h = e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	dir = filepath.Join(t.TempDir(), "box")
	lab = filepath.Join(h.Dir, "far.yaml")
	text := strings.NewReplacer("DIR", dir, "BLOCKS", strconv.Itoa(blocks)).Replace(boxLab)
	if err := os.WriteFile(lab, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return h, s, lab, dir
}

// Real workloads run on a machine over SSH, in one run with those that run
// here. A connection that is lost in the middle voids its block and nothing
// else; afterwards nothing is left on either machine.
func TestRunOverSSH(t *testing.T) {
	t.Parallel()
	h, s, lab, dir := farHome(t, 2)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", lab, "--json")
	if code != 0 || strings.Count(out, `"ok":true`) != 3 {
		t.Fatalf("plan: exit code %d\n%s%s", code, out, errs)
	}

	c := h.Command("run", lab, "--seed", "7", "--json")
	var said, progress strings.Builder
	c.Stdout, c.Stderr = &said, &progress
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	journal := e2e.WaitForTrials(t, h.Dir, 10)
	if s.Cut() == 0 {
		t.Error("there was no connection to cut")
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("run: %v\n%s%s", err, said.String(), progress.String())
		}
	case <-time.After(10 * time.Minute):
		c.Process.Kill()
		<-ended
		t.Fatalf("the run did not end\n%s%s", said.String(), progress.String())
	}

	var r e2e.Ran
	if err := json.Unmarshal([]byte(said.String()), &r); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Summaries {
		if s.N == 0 || s.Failures > 0 {
			t.Errorf("%s of %s on %s: %d values, %d failures", s.Metric, s.Cell, s.Contender, s.N, s.Failures)
		}
	}
	if len(r.Missing) > 0 {
		t.Errorf("missing: %+v", r.Missing)
	}
	valid, void, reasons := blocks(t, journal)
	if valid != 2 || void != 1 {
		t.Errorf("%d blocks count and %d are void because of %q, want 2 and the one with the cut\n%s",
			valid, void, reasons, progress.String())
	}
	for _, comparison := range r.Comparisons {
		differ := false
		for _, f := range comparison.Confounders {
			differ = differ || f.Name == "host"
		}
		warned := strings.Contains(strings.Join(comparison.Warnings, "; "), "runs on host local and the baseline on box")
		if far := comparison.Contender == "here"; differ != far || warned != far {
			t.Errorf("%s: the host is a confounder: %v, and there is a warning: %v", comparison.Contender, differ, warned)
		}
	}
	repairs, err := os.ReadFile(filepath.Join(dir, "repairs"))
	if err != nil || strings.Count(string(repairs), "repaired") != valid+void {
		t.Errorf("repaired %q, %v; want once a block", repairs, err)
	}
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "verify", filepath.Dir(journal)); code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", code, out, errs)
	}
	h.LeavesNothing(t)
	for _, left := range []string{"state/env", "state/lease"} {
		if entries, err := os.ReadDir(filepath.Join(dir, left)); err != nil || len(entries) > 0 {
			t.Errorf("%s on the box holds %v, %v", left, entries, err)
		}
	}
}

// blocks counts those of a journal that count and those that are void, and says
// why the latter are.
func blocks(t *testing.T, journal string) (valid, void int, reasons []string) {
	t.Helper()
	for _, l := range e2e.Journal(t, journal) {
		switch {
		case l.Type == store.LineBlock && l.Status == store.OK:
			valid++
		case l.Type == store.LineBlock:
			void++
			reasons = append(reasons, l.Reason)
		}
	}
	return valid, void, reasons
}

// What a killed run left on another machine is found by clean, without the
// lab file.
func TestCleanOverSSH(t *testing.T) {
	t.Parallel()
	h, _, lab, dir := farHome(t, 26) // so that it does not end before it is killed
	cleanKilled(t, h, lab, dir)
}

// cleanKilled kills a run in its third trial, and checks that clean leaves nothing of it on
// either machine.
func cleanKilled(t *testing.T, h e2e.Home, lab, dir string) {
	t.Helper()
	c := h.Command("run", lab)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	e2e.WaitForTrials(t, h.Dir, 3)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	out, errs, code := cleanUntilDone(t, h)
	if code != 0 || !strings.Contains(out, "on host box") {
		t.Fatalf("clean: exit code %d\n%s%s", code, out, errs)
	}
	h.LeavesNothing(t)
	if entries, err := os.ReadDir(filepath.Join(dir, "state/env")); err != nil || len(entries) > 0 {
		t.Errorf("on the box: %v, %v", entries, err)
	}
}

// cleanUntilDone calls clean until it succeeds: the agent on the other machine ends
// when its connection does, a moment later, and clean may find one machine free before
// the other. It returns the output of all calls, and the errors of the last one.
func cleanUntilDone(t *testing.T, h e2e.Home) (out, errs string, code int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var said string
		said, errs, code = h.Bakeoff(t, 3*time.Minute, "clean")
		if out += said; code == 0 || time.Now().After(end) {
			return out, errs, code
		}
	}
}
