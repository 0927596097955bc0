package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// home is a place with the two programs built as make does, and state and
// cache of its own.
type home struct {
	dir string
	env []string
}

// newHome builds the programs. Images take a minute to make, so tests of root
// share the machine's own cache, or the one that BAKEOFF_CACHE names.
func newHome(t *testing.T) home {
	t.Helper()
	h := home{dir: t.TempDir()}
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		c := exec.Command("go", "build", "-o", filepath.Join(h.dir, name), "bakeoff/cmd/"+name)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	cache := os.Getenv("BAKEOFF_CACHE")
	switch {
	case cache != "":
	case os.Getuid() == 0:
		cache = "/var/cache/bakeoff"
	default:
		cache = filepath.Join(h.dir, "cache")
	}
	h.env = append(os.Environ(), "BAKEOFF_STATE="+filepath.Join(h.dir, "state"), "BAKEOFF_CACHE="+cache, "NO_COLOR=1")
	return h
}

// bakeoff executes the program and returns its output and exit code.
func (h home) bakeoff(t *testing.T, limit time.Duration, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(h.dir, "bakeoff"), args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	c.Env, c.Dir = h.env, h.dir
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("bakeoff %s did not end within %v\n%s%s", strings.Join(args, " "), limit, out.String(), errs.String())
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// leavesNothing asserts that nothing is left behind.
func (h home) leavesNothing(t *testing.T) {
	t.Helper()
	out, errs, code := h.bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	if code != 0 || !strings.Contains(out, "nothing was left behind") {
		t.Errorf("clean --dry-run: exit code %d\n%s%s", code, out, errs)
	}
}

// hostLab compares the host with itself: it needs neither root nor a tool.
const hostLab = `schema: bakeoff/lab/v1
name: self
contenders:
  - {name: host, driver: host}
  - {name: again, driver: host}
baseline: host
cells:
  - {name: sha, workload: crypto, params: {algorithm: sha256, block: 16KiB, time: 20ms}, primary: true}
design: {looks: [LOOKS], alphas: [0.05], budget: 5m}
`

func (h home) lab(t *testing.T, looks string) string {
	t.Helper()
	path := filepath.Join(h.dir, "bakeoff.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(hostLab, "LOOKS", looks, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A run gives results and a page, holds, and stops to hold after one digit
// was changed; then the number is named.
func TestARunHoldsUntilADigitIsChanged(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := newHome(t)
	out, errs, code := h.bakeoff(t, 3*time.Minute, "run", h.lab(t, "3"), "--json", "--seed", "7")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	var r ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Schema != "bakeoff/results/v1" || r.Seed != 7 || len(r.Comparisons) == 0 || r.Twin == nil {
		t.Errorf("results: %s", out)
	}
	page, err := os.ReadFile(filepath.Join(h.dir, r.Report))
	if err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("page: %v, %d bytes", err, len(page))
	}
	h.leavesNothing(t)
	if out, errs, code := h.bakeoff(t, 3*time.Minute, "verify", r.Folder); code != 0 {
		t.Fatalf("verify: exit code %d\n%s%s", code, out, errs)
	}

	file := changeADigit(t, filepath.Join(h.dir, r.Folder, store.RawDir))
	out, _, code = h.bakeoff(t, 3*time.Minute, "verify", r.Folder, "--json")
	var v evidence.Report
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code != 1 || len(v.Findings) == 0 || v.Findings[0].Kind != evidence.Tampered {
		t.Errorf("verify after a change of %s: exit code %d\n%s", file, code, out)
	}
	named := slices.ContainsFunc(v.Findings, func(f evidence.Finding) bool {
		return strings.Contains(f.Where, filepath.Base(filepath.Dir(file))) && len(f.Numbers) > 0
	})
	if !named {
		t.Errorf("%s is not named with its numbers:\n%s", file, out)
	}
	h.refusesToGoOn(t, filepath.Join(h.dir, r.Folder))
}

// refusesToGoOn asserts that a run that was tampered with is not gone on with,
// and that its journal stays what it is.
func (h home) refusesToGoOn(t *testing.T, folder string) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(folder, store.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.bakeoff(t, 3*time.Minute, "run", "--resume", folder)
	if code != 2 || !strings.Contains(errs, "tampered") || !strings.Contains(errs, "bakeoff verify tells more") {
		t.Errorf("resume of a run that was tampered with: exit code %d\n%s%s", code, out, errs)
	}
	if after, err := os.ReadFile(filepath.Join(folder, store.JournalFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the refusal was written into the journal: %d bytes before, %d after, %v", len(before), len(after), err)
	}
}

// changeADigit changes one digit of the first raw output of a workload.
func changeADigit(t *testing.T, raw string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(raw, "*", "work.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no raw output in %s: %v", raw, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte(`"value":`))
	i := at + bytes.IndexAny(text[at:], "123456789")
	text[i] = '1' + (text[i]-'1'+1)%9
	if err := os.WriteFile(files[0], text, 0o644); err != nil {
		t.Fatal(err)
	}
	return files[0]
}

// Killed with -9 and resumed: the same schedule, no trial lost or doubled,
// nothing left behind.
func TestKilledAndResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := newHome(t)
	c := exec.Command(filepath.Join(h.dir, "bakeoff"), "run", h.lab(t, "6"), "--seed", "7")
	c.Env, c.Dir = h.env, h.dir
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	journal := waitForTrials(t, h.dir, 20)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	before := trials(t, journal)
	folder := filepath.Dir(journal)
	h.reportsWhatIsDone(t, folder)
	h.refusesAnotherLab(t, folder)

	// Killed once more: what was reported before is not held against it.
	c = exec.Command(filepath.Join(h.dir, "bakeoff"), "run", "--resume", folder)
	c.Env, c.Dir = h.env, h.dir
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	waitForTrials(t, h.dir, len(before)+2)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	before = trials(t, journal)
	h.holds(t, folder)
	h.reportsWhatIsDone(t, folder)

	out, errs, code := h.bakeoff(t, 3*time.Minute, "run", "--resume", folder, "--json")
	if code != 0 {
		t.Fatalf("resume: exit code %d\n%s%s", code, out, errs)
	}
	after := trials(t, journal)
	if !slices.Equal(after[:len(before)], before) {
		t.Errorf("the journal before the kill is not the beginning of the one after")
	}
	seen := map[string]bool{}
	for _, line := range after {
		if seen[line] {
			t.Errorf("trial %s is there twice", line)
		}
		seen[line] = true
	}
	h.holds(t, folder)
	h.leavesNothing(t)
}

// What a run measures with is not taken for what was left behind.
func TestInUseIsNotLeftBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := newHome(t)
	c := exec.Command(filepath.Join(h.dir, "bakeoff"), "run", h.lab(t, "500"), "--seed", "7")
	c.Env, c.Dir = h.env, h.dir
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait() // its code is not asked for
		h.leavesNothing(t)
	}()
	folder := filepath.Dir(waitForTrials(t, h.dir, 1))
	if out, errs, code := h.bakeoff(t, 3*time.Minute, "report", folder); code != 1 || !strings.Contains(errs, "is going on") {
		t.Errorf("report of a run that is going on: exit code %d\n%s%s", code, out, errs)
	}
	pid := c.Process.Pid
	out, errs, code := h.bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	if code != 1 || out != "" || !strings.Contains(errs, fmt.Sprintf("process %d measures on this host", pid)) {
		t.Errorf("clean --dry-run while a run is going on: exit code %d\n%s%s", code, out, errs)
	}
	out, errs, code = h.bakeoff(t, 3*time.Minute, "doctor")
	if code != 0 || strings.Contains(out, "bakeoff clean removes it") ||
		!strings.Contains(out, fmt.Sprintf("process %d measures on this machine now", pid)) {
		t.Errorf("doctor while a run is going on: exit code %d\n%s%s", code, out, errs)
	}
}

// reportsWhatIsDone asserts that a run that was killed can be reported, and
// holds with what was written.
func (h home) reportsWhatIsDone(t *testing.T, folder string) {
	t.Helper()
	if out, errs, code := h.bakeoff(t, 3*time.Minute, "report", folder); code != 0 {
		t.Errorf("report: exit code %d\n%s%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(folder, store.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var r analysis.Results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Blocks == 0 || r.Ended != "" || len(r.Summaries) == 0 {
		t.Errorf("results of a killed run: %d blocks, ended %q, %d summaries", r.Blocks, r.Ended, len(r.Summaries))
	}
	h.holds(t, folder)
}

// holds asserts that a run holds.
func (h home) holds(t *testing.T, folder string) {
	t.Helper()
	if out, errs, code := h.bakeoff(t, 3*time.Minute, "verify", folder); code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", code, out, errs)
	}
}

// refusesAnotherLab asserts that a run is not gone on with by a lab file that
// is not the one it began with, as if nothing had been changed.
func (h home) refusesAnotherLab(t *testing.T, folder string) {
	t.Helper()
	path := filepath.Join(folder, store.LabFile)
	lab, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(path, lab, 0o644); err != nil {
			t.Fatal(err)
		}
	}()
	if err := os.WriteFile(path, bytes.Replace(lab, []byte("20ms"), []byte("30ms"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.bakeoff(t, 3*time.Minute, "run", "--resume", folder)
	if code != 2 || !strings.Contains(errs, "was changed since the run began") {
		t.Errorf("resume with another lab file: exit code %d\n%s%s", code, out, errs)
	}
}

// When nobody reads what a run prints, it ends as by Ctrl-C: what it made is
// gone, what it found is kept.
func TestNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := newHome(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(h.dir, "bakeoff"), "run", h.lab(t, "6"), "--seed", "7")
	c.Env, c.Dir, c.Stdout = h.env, h.dir, write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := read.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	read.Close() // as head -1 does
	time.AfterFunc(3*time.Minute, func() { c.Process.Kill() })
	_ = c.Wait() // its code tells
	if code := c.ProcessState.ExitCode(); code != 141 {
		t.Errorf("exit code %d, want 141", code)
	}
	h.leavesNothing(t)
	found, err := filepath.Glob(filepath.Join(h.dir, "runs", "*", filepath.FromSlash(store.ReportFile)))
	if err != nil || len(found) != 1 {
		t.Errorf("pages of what there is: %v, %v", found, err)
	}
}

// A run whose folder is taken away says so, and leaves nothing.
func TestTheFolderIsTakenAway(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := newHome(t)
	c := exec.Command(filepath.Join(h.dir, "bakeoff"), "run", h.lab(t, "6"), "--seed", "7")
	c.Env, c.Dir = h.env, h.dir
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	waitForTrials(t, h.dir, 7)
	if err := os.Rename(filepath.Join(h.dir, "runs"), filepath.Join(h.dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(3*time.Minute, func() { c.Process.Kill() })
	_ = c.Wait() // its code tells
	if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), "is gone: somebody moved or removed it") {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
	h.leavesNothing(t)
}

// Interrupted, a run reports what there is and is not done: its exit code is
// what shells expect, it says how to go on, and that goes on.
func TestInterruptedAndResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	for _, tt := range []struct {
		signal syscall.Signal
		want   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			h := newHome(t)
			// What is worse or not in a part of a run asks for nothing yet.
			c := exec.Command(filepath.Join(h.dir, "bakeoff"), "run", h.lab(t, "6"), "--seed", "7", "--fail-on", "inconclusive")
			c.Env, c.Dir = h.env, h.dir
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Dir(waitForTrials(t, h.dir, 20))
			if err := c.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(3*time.Minute, func() { c.Process.Kill() })
			_ = c.Wait() // its code tells
			relative, err := filepath.Rel(h.dir, folder)
			if err != nil {
				t.Fatal(err)
			}
			if code := c.ProcessState.ExitCode(); code != tt.want || !strings.Contains(errs.String(), "interrupted; bakeoff run --resume "+relative+" goes on with it") {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.want, out.String(), errs.String())
			}
			if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(store.ReportFile))); err != nil {
				t.Errorf("there is no page of what there is: %v", err)
			}
			h.leavesNothing(t)
			if out, errs, code := h.bakeoff(t, 3*time.Minute, "run", "--resume", relative); code != 0 {
				t.Errorf("resume: exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// waitForTrials waits until a journal below dir has n trials.
func waitForTrials(t *testing.T, dir string, n int) string {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "*", store.JournalFile))
		if len(found) == 1 && len(trials(t, found[0])) >= n {
			return found[0]
		}
	}
	t.Fatalf("no %d trials within three minutes", n)
	return ""
}

// trials lists the trials of a journal by block, position, contender, cell.
func trials(t *testing.T, journal string) []string {
	t.Helper()
	f, err := os.Open(journal)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, _, err := store.ReadJournal(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range lines {
		if l.Type == store.LineTrial {
			out = append(out, store.RawName(plan.Slot{Block: l.Block, Position: l.Position, Contender: l.Contender, Cell: l.Cell}))
		}
	}
	return out
}
