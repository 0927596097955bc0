package boot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/driver/qemu/bootdisk"
)

// The example gives the same number of instructions in ten boots of each contender, of
// which five have a busy program on a CPU next to them: the figures of its README.
func TestExampleRepeatsExactly(t *testing.T) {
	needs(t)
	const blocks = 5 // of two boots of each contender
	h := e2e.New(t)
	text, err := os.ReadFile("../../../../examples/boot/bakeoff.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		t.Skip("boots 100 machines under emulation: set BAKEOFF_TEST_LONG=1")
	}
	lab := filepath.Join(h.Dir, "bakeoff.yaml")
	if err := os.WriteFile(lab, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := h.Command("run", "--profile", "full", "--json", lab)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	journal, quiet := halfWay(t, h.Dir, blocks, ended)
	stop := bootdisk.Hog(t, runtime.NumCPU()-1)
	defer stop()
	err = <-ended
	var r e2e.Ran
	if jerr := json.Unmarshal(out.Bytes(), &r); err != nil || jerr != nil {
		t.Fatalf("%v, %v\n%s%s", err, jerr, out.String(), errs.String())
	}
	t.Logf("a busy program ran from trial %d to trial %d", quiet+1, len(e2e.Trials(t, journal)))
	for _, k := range r.Contenders {
		var said string
		for _, s := range r.Summaries {
			if s.Contender == k.Name && s.Metric == "instructions" && s.Median != nil {
				said = fmt.Sprintf("%.0f instructions in %d trials, deterministic: %v", *s.Median, s.N, s.Deterministic)
				if s.N != 2*blocks || !s.Deterministic {
					t.Errorf("%s: %s", k.Name, said)
				}
			}
		}
		t.Logf("%s: %s", k.Name, said)
		if said == "" {
			t.Errorf("%s has no instructions", k.Name)
		}
	}
	for _, k := range r.Comparisons {
		if k.Metric == "instructions" && (k.Exact == nil || k.Exact.Trials != 4*blocks) {
			t.Errorf("%s is not exact: %+v", k.Contender, k.Exact)
		}
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// halfWay waits until half of the trials of a run of the example are in its journal, and
// returns the path of the journal and how many there are.
func halfWay(t *testing.T, dir string, blocks int, ended <-chan error) (journal string, trials int) {
	t.Helper()
	const contenders = 10 // with the twin
	for end := time.Now().Add(e2e.RunLimit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if len(ended) > 0 {
			t.Fatalf("the run ended early: %v", <-ended)
		}
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "journal.ndjson"))
		if len(found) == 1 {
			if n := len(e2e.Trials(t, found[0])); n >= contenders*blocks {
				return found[0], n
			}
		}
	}
	t.Fatalf("not half of the trials within %v", e2e.RunLimit)
	return "", 0
}
