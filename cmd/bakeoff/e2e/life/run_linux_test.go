package life

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
)

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

// selfLab writes it, with the blocks after which it is looked at.
func selfLab(t *testing.T, h e2e.Home, looks string) string {
	t.Helper()
	path := filepath.Join(h.Dir, "bakeoff.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(hostLab, "LOOKS", looks, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// heldLab is selfLab with a program that waits once the journal has as many trials
// as the file says that hold writes, until release removes it. So a run cannot end
// before a test has interrupted it, however late that is.
func heldLab(t *testing.T, h e2e.Home) (lab string, hold func(trials int), release func()) {
	t.Helper()
	lab = selfLab(t, h, "6")
	program, number := filepath.Join(h.Dir, "held"), filepath.Join(h.Dir, "hold")
	text, err := os.ReadFile(lab)
	if err != nil {
		t.Fatal(err)
	}
	text, found := replaceLine(text, "  - {name: sha,",
		"  - {name: sha, workload: command, params: {argv: [sh, "+program+"], estimate: 5ms}, primary: true}")
	if !found {
		t.Fatalf("%s has no cell sha", lab)
	}
	script := "cd " + h.Dir + "\nwhile n=$(cat hold 2>/dev/null) && " +
		"[ \"$(grep -c '\"type\":\"trial\"' runs/*/" + store.JournalFile + ")\" -ge \"$n\" ]; do sleep .02; done\n"
	for file, text := range map[string][]byte{lab: text, program: []byte(script)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hold = func(trials int) {
		if err := os.WriteFile(number+".new", fmt.Append(nil, trials), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(number+".new", number); err != nil {
			t.Fatal(err)
		}
	}
	release = func() {
		if err := os.Remove(number); err != nil {
			t.Fatal(err)
		}
	}
	return lab, hold, release
}

// replaceLine replaces the line that begins so.
func replaceLine(text []byte, begin, line string) (out []byte, found bool) {
	lines := strings.Split(string(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, begin) {
			lines[i], found = line, true
		}
	}
	return []byte(strings.Join(lines, "\n")), found
}

// A run gives results and a page, holds, and stops to hold after one digit
// was changed; then the number is named.
func TestARunHoldsUntilADigitIsChanged(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := e2e.New(t)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", selfLab(t, h, "3"), "--json", "--seed", "7")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Schema != "bakeoff/results/v1" || r.Seed != 7 || len(r.Comparisons) == 0 || r.Twin == nil {
		t.Errorf("results: %s", out)
	}
	page, err := os.ReadFile(filepath.Join(h.Dir, r.Report))
	if err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("page: %v, %d bytes", err, len(page))
	}
	h.LeavesNothing(t)
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "verify", r.Folder); code != 0 {
		t.Fatalf("verify: exit code %d\n%s%s", code, out, errs)
	}

	file := changeADigit(t, filepath.Join(h.Dir, r.Folder, store.RawDir))
	out, _, code = h.Bakeoff(t, 3*time.Minute, "verify", r.Folder, "--json")
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
	refusesToGoOn(t, h, filepath.Join(h.Dir, r.Folder))
}

// refusesToGoOn asserts that a run that was tampered with is not gone on with,
// and that its journal stays what it is.
func refusesToGoOn(t *testing.T, h e2e.Home, folder string) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(folder, store.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", "--resume", folder)
	if code != 2 || !strings.Contains(errs, "tampered") || !strings.Contains(errs, "run bakeoff verify for the details") {
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
	h := e2e.New(t)
	lab, hold, release := heldLab(t, h)
	hold(20)
	c := h.Command("run", lab, "--seed", "7")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	journal := e2e.WaitForTrials(t, h.Dir, 20)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	before := e2e.Trials(t, journal)
	folder := filepath.Dir(journal)
	reportsWhatIsDone(t, h, folder)
	refusesAnotherLab(t, h, folder)

	// Killed again: earlier reports do not count against it.
	hold(len(before) + 2)
	c = h.Command("run", "--resume", folder)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	e2e.WaitForTrials(t, h.Dir, len(before)+2)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	before = e2e.Trials(t, journal)
	h.Holds(t, folder)
	reportsWhatIsDone(t, h, folder)

	release()
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", "--resume", folder, "--json")
	if code != 0 {
		t.Fatalf("resume: exit code %d\n%s%s", code, out, errs)
	}
	after := e2e.Trials(t, journal)
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
	h.Holds(t, folder)
	h.LeavesNothing(t)
}

// What a run measures with is not taken for what was left behind.
func TestInUseIsNotLeftBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := e2e.New(t)
	// Between two blocks nothing is in use, so the run stays in its second trial.
	lab, hold, _ := heldLab(t, h)
	hold(1)
	c := h.Command("run", lab, "--seed", "7")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait() // its code is not asked for
		h.LeavesNothing(t)
	}()
	folder := filepath.Dir(e2e.WaitForTrials(t, h.Dir, 1))
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "report", folder)
	if code != 1 || !strings.Contains(errs, "is still active") {
		t.Errorf("report of a run that is going on: exit code %d\n%s%s", code, out, errs)
	}
	pid := c.Process.Pid
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	if code != 0 || errs != "" || !strings.Contains(out, "no leftovers found") || !strings.Contains(out, "in use: ") {
		t.Errorf("clean --dry-run while a run is going on: exit code %d\n%s%s", code, out, errs)
	}
	measures := fmt.Sprintf("process %d measures on this host", pid)
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "clean")
	if code != 1 || out != "" || !strings.Contains(errs, measures) {
		t.Errorf("clean while a run is going on: exit code %d\n%s%s", code, out, errs)
	}
	other := h
	other.Env = append(slices.Clone(h.Env), "BAKEOFF_STATE="+t.TempDir())
	out, errs, code = other.Bakeoff(t, 3*time.Minute, "run", lab, "--seed", "8")
	if code != 1 || !strings.Contains(errs, measures) {
		t.Errorf("a run with a state folder of its own, at the same time: exit code %d\n%s%s", code, out, errs)
	}
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "doctor")
	if code != 0 || strings.Contains(out, "run bakeoff clean to remove it") ||
		!strings.Contains(out, fmt.Sprintf("process %d is measuring on this machine", pid)) {
		t.Errorf("doctor while a run is going on: exit code %d\n%s%s", code, out, errs)
	}
}

// reportsWhatIsDone asserts that a run that was killed can be reported, and
// holds with what was written.
func reportsWhatIsDone(t *testing.T, h e2e.Home, folder string) {
	t.Helper()
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "report", folder); code != 0 {
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
	h.Holds(t, folder)
}

// refusesAnotherLab asserts that a run is not gone on with by a lab file that
// is not the one it began with, as if nothing had been changed.
func refusesAnotherLab(t *testing.T, h e2e.Home, folder string) {
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
	other := bytes.Replace(lab, []byte("budget: 5m"), []byte("budget: 6m"), 1)
	if err := os.WriteFile(path, other, 0o644); err != nil || bytes.Equal(other, lab) {
		t.Fatalf("the lab file was not changed: %v", err)
	}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", "--resume", folder)
	if code != 2 || !strings.Contains(errs, "changed since this run started") {
		t.Errorf("resume with another lab file: exit code %d\n%s%s", code, out, errs)
	}
}

// When nobody reads what a run prints, it ends as by Ctrl-C: what it made is
// gone, what it found is kept.
func TestNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := e2e.New(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := h.Command("run", selfLab(t, h, "500"), "--seed", "7")
	c.Stdout = write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := read.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	e2e.WaitForTrials(t, h.Dir, 1) // the first lines may come before there is a folder for a page
	read.Close()                   // as head -1 does
	time.AfterFunc(3*time.Minute, func() { c.Process.Kill() })
	_ = c.Wait() // its code tells
	if code := c.ProcessState.ExitCode(); code != 141 {
		t.Errorf("exit code %d, want 141", code)
	}
	h.LeavesNothing(t)
	found, err := filepath.Glob(filepath.Join(h.Dir, "runs", "*", filepath.FromSlash(store.ReportFile)))
	if err != nil || len(found) != 1 {
		t.Errorf("pages of what there is: %v, %v", found, err)
	}
}

// A run whose folder is taken away says so, and leaves nothing.
func TestTheFolderIsTakenAway(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := e2e.New(t)
	lab, hold, release := heldLab(t, h)
	hold(7)
	c := h.Command("run", lab, "--seed", "7")
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	e2e.WaitForTrials(t, h.Dir, 7)
	if err := os.Rename(filepath.Join(h.Dir, "runs"), filepath.Join(h.Dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	release()
	time.AfterFunc(3*time.Minute, func() { c.Process.Kill() })
	_ = c.Wait() // its code tells
	code := c.ProcessState.ExitCode()
	if code != 1 || !strings.Contains(errs.String(), "was moved or removed") {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
	h.LeavesNothing(t)
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
			// A test that nohup started would pass SIGHUP on as ignored, and a
			// run respects that. A signal that is caught has its default again.
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, tt.signal)
			defer signal.Stop(caught)
			h := e2e.New(t)
			// What is worse or not in a part of a run asks for nothing yet.
			lab, hold, release := heldLab(t, h)
			hold(20)
			c := h.Command("run", lab, "--seed", "7", "--fail-on", "inconclusive")
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Dir(e2e.WaitForTrials(t, h.Dir, 20))
			if err := c.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(3*time.Minute, func() { c.Process.Kill() })
			_ = c.Wait() // its code tells
			relative, err := filepath.Rel(h.Dir, folder)
			if err != nil {
				t.Fatal(err)
			}
			want := "interrupted; run bakeoff run --resume " + relative + " to continue"
			if code := c.ProcessState.ExitCode(); code != tt.want || !strings.Contains(errs.String(), want) {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.want, out.String(), errs.String())
			}
			if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(store.ReportFile))); err != nil {
				t.Errorf("there is no page of what there is: %v", err)
			}
			h.LeavesNothing(t)
			release()
			if out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", "--resume", relative); code != 0 {
				t.Errorf("resume: exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}
