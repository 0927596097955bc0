package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bakeoff/lab/store/storetest"
)

// storeCommand is a `bakeoff store` command on a store, as a process of its own.
func storeCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("bakeoff") // this program: TestMain put it there
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, append([]string{"store"}, args...)...)
	c.Env = append(os.Environ(), "BAKEOFF_STORE="+dir, "BAKEOFF_STATE="+filepath.Join(filepath.Dir(dir), "state"))
	return c
}

// said runs a command of a store, which must succeed.
func said(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	out, err := storeCommand(t, dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("store %q: %v\n%s", args, err, out)
	}
	return out
}

// storedRuns are the names of the runs that a store lists, in order.
func storedRuns(t *testing.T, dir string) (out []string) {
	t.Helper()
	var list struct {
		Runs []struct {
			Name string `json:"run"`
		}
	}
	if err := json.Unmarshal(said(t, dir, "list", "--json"), &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Runs {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return out
}

// prunedRuns is how many runs the store of the test has; all but one are older.
const prunedRuns = 8

// A prune that is killed at any moment loses no run that it keeps, and leaves a store that holds:
// the next prune finishes its work.
func TestPruneIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts programs: not with -short")
	}
	run, files, err := storetest.Files(nightlyRun)
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(t.TempDir(), "store")
	said(t, original, "init")
	var names []string
	for i := range prunedRuns {
		at := time.Date(2026, 1, 1+i, 2, 0, 0, 0, time.UTC)
		dir := filepath.Join(t.TempDir(), at.Format("20060102T150405Z")+run[len("20060102T150405Z"):])
		for name, text := range files {
			if name == "journal.ndjson" {
				if text, err = dated(text, at, map[string]string{"commit": fmt.Sprint(i)}); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		said(t, original, "add", dir)
		names = append(names, filepath.Base(dir))
	}
	if got := storedRuns(t, original); !slices.Equal(got, names) {
		t.Fatalf("the store has %q, want %q", got, names)
	}
	whole := pruneOnce(t, copyOf(t, original), nil)
	for range 2 { // others may have had the CPU
		whole = min(whole, pruneOnce(t, copyOf(t, original), nil))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	newest := names[prunedRuns-1]
	killed, half, torn := 0, 0, 0
	rounds := 10
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		rounds = 60
	}
	for i := range rounds {
		dir := copyOf(t, original)
		after := time.Duration(rng.Float64() * float64(whole) * 1.1)
		if pruneOnce(t, dir, &after) > 0 {
			killed++
		} else {
			whole = min(whole, after)
		}
		// The bundle whose turn it was may be without its row in the index. verify says so, and
		// what to do; nothing else is wrong, whatever the moment.
		if out, err := storeCommand(t, dir, "verify").CombinedOutput(); err != nil {
			if bytes.Count(out, []byte("the index lacks the run; run bakeoff store rebuild")) != 1 ||
				bytes.Count(out, []byte("does not hold")) != 1 || bytes.Contains(out, []byte(newest)) {
				t.Fatalf("round %d, killed after %v: %s", i, after, out)
			}
			said(t, dir, "rebuild")
			said(t, dir, "verify")
			torn++
		}
		left := storedRuns(t, dir)
		if !slices.Contains(left, newest) || slices.ContainsFunc(left, func(n string) bool {
			return !slices.Contains(names, n)
		}) {
			t.Fatalf("round %d, killed after %v: the store lists %q", i, after, left)
		}
		if len(left) > 1 && len(left) < prunedRuns {
			half++
		}
		said(t, dir, "prune", "--keep", "1", "--yes")
		said(t, dir, "verify")
		if got := storedRuns(t, dir); !slices.Equal(got, []string{newest}) {
			t.Fatalf("round %d: after another prune the store has %q", i, got)
		}
		if out := said(t, dir, "prune", "--dry-run"); !bytes.HasPrefix(out, []byte("0 runs and 0 leftover files")) {
			t.Fatalf("round %d: another prune leaves %s", i, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d were killed, %d of them among the runs, %d within one; a whole prune took %v", killed, rounds, half,
		torn, whole)
	if killed == 0 {
		t.Error("no prune was killed")
	}
}

// pruneOnce prunes a store and kills the process after a time; nil lets it end. It returns how
// long the process ran if it was killed, or if nobody should; 0 if it ended before.
func pruneOnce(t *testing.T, dir string, after *time.Duration) time.Duration {
	t.Helper()
	c := storeCommand(t, dir, "prune", "--keep", "1", "--yes")
	var out bytes.Buffer
	c.Stdout, c.Stderr = io.Discard, &out
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if after != nil {
		timer := time.AfterFunc(*after, func() { _ = c.Process.Kill() }) // it may have ended
		defer timer.Stop()
	}
	err := c.Wait()
	took := time.Since(began)
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil && after == nil:
		return took
	case err == nil:
		return 0
	case !failed || after == nil || exit.ExitCode() != -1:
		t.Fatalf("prune: %v\n%s", err, out.String())
	}
	return took
}

// copyOf copies a store.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
