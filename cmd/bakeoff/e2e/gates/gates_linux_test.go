package gates

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// Differences that are no single number, in whole runs of real trials. What is
// compared is CPU time, which neighbours on the machine do not change, and the
// effects are of several hundred percent.

// gateLab compares one program on a disk with the same on a tmpfs.
const gateLab = `schema: bakeoff/lab/v1
name: gates
contenders:
  - {name: memory, driver: host, volumes: {/data: {backing: tmpfs, size: 64MiB}}}
  - {name: disk, driver: host, volumes: {/data: {backing: dir, size: 64MiB}}}
baseline: memory
cells:
  - {name: program, workload: command, params: {argv: [sh, PROGRAM], prepare: [sh, PREPARE],
     dir: /data, estimate: 100ms}, primary: [cpu]}
design: {looks: [LOOK], alphas: [0.05], budget: 5m}
`

// gateRun runs the lab with a program and what prepares it, both shell scripts
// that may use $SHARED, a folder outside of all environments. during is called
// while it runs.
func gateRun(t *testing.T, look int, prepare, program string, during func(h e2e.Home, shared string)) e2e.Ran {
	t.Helper()
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	out, err := exec.Command("stat", "-f", "-c", "%T", t.TempDir()).Output()
	if err != nil || strings.TrimSpace(string(out)) == "tmpfs" {
		t.Skipf("needs a temporary directory on a disk (set TMPDIR), and stat: %s, %v", out, err)
	}
	h := e2e.New(t)
	shared := filepath.Join(h.Dir, "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	lab := gateLab
	for name, text := range map[string]string{"PREPARE": prepare, "PROGRAM": program} {
		file := filepath.Join(h.Dir, strings.ToLower(name))
		if err := os.WriteFile(file, []byte("set -e\nSHARED="+shared+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		lab = strings.ReplaceAll(lab, name, file)
	}
	file := filepath.Join(h.Dir, "bakeoff.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(lab, "LOOK", fmt.Sprint(look), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		during(h, shared)
	}()
	said, errs, code := h.Bakeoff(t, 10*time.Minute, "run", file, "--json", "--seed", "3")
	<-ended
	var r e2e.Ran
	if err := json.Unmarshal([]byte(said), &r); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, said, errs)
	}
	if r.Blocks != look || len(r.Comparisons) == 0 || r.Twin == nil {
		t.Fatalf("%d blocks, %d comparisons, twin %v", r.Blocks, len(r.Comparisons), r.Twin)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
	return r
}

// byCPU is the comparison of CPU time.
func byCPU(t *testing.T, cs []analysis.Comparison) analysis.Comparison {
	t.Helper()
	i := slices.IndexFunc(cs, func(c analysis.Comparison) bool { return c.Metric == "cpu" && c.Primary })
	if i < 0 {
		t.Fatal("CPU time was not compared")
	}
	t.Logf("%s: %v, %s, gates %v", cs[i].Contender, *cs[i].Ratio, cs[i].Verdict, cs[i].Gates)
	return cs[i]
}

// gatedBy asserts that a gate took the verdict away, for a reason that begins
// so.
func gatedBy(t *testing.T, c analysis.Comparison, gate, reason string) {
	t.Helper()
	said := func(g analysis.Gate) bool { return g.Name == gate && strings.HasPrefix(g.Reason, reason) }
	if c.Verdict != analysis.Inconclusive || !slices.ContainsFunc(c.Gates, said) {
		t.Errorf("%s, gates %+v; want inconclusive, and %s because %s", c.Verdict, c.Gates, gate, reason)
	}
}

// A program that keeps on a disk what it unpacked, and unpacks anew each time
// where it has none. The first trial in an environment pays for the later ones:
// by it the program is dearer on the disk, and by the last ones cheaper.
func TestOrderOfExecutionIsGated(t *testing.T) {
	r := gateRun(t, 8, "seq 200000 | gzip -1 >data.gz\n", `
if [ "$(stat -f -c %T .)" = tmpfs ]; then
  gzip -dc data.gz | tail -n 1
  exit
fi
if [ ! -e index ]; then
  gzip -dc data.gz | sort -n >sorted
  tail -n 1 sorted >index
fi
cat index
`, func(e2e.Home, string) {})
	gatedBy(t, byCPU(t, r.Comparisons), analysis.OrderGate, "the difference is +")
	byCPU(t, r.Twin.Comparisons)
}

// A log that others write, and that is eight times as long from the middle of
// the run on: who reads all of it is cheaper than who reads an index before,
// and dearer from then on.
func TestAChangeInTheMiddleIsGated(t *testing.T) {
	const before = 6
	r := gateRun(t, 2*before, `
[ -e $SHARED/log ] || { seq 200000 >$SHARED/index; seq 50000 >$SHARED/log.new; mv $SHARED/log.new $SHARED/log; }
`, `
if [ "$(stat -f -c %T .)" = tmpfs ]; then
  gzip -1 <$SHARED/log | wc -c
else
  gzip -1 <$SHARED/index | wc -c
fi
`, func(h e2e.Home, shared string) {
		longer := filepath.Join(shared, "longer") // written before, so that busy CPUs do not delay it
		err := exec.Command("sh", "-c", `seq 800000 >"$0"`, longer).Run()
		e2e.WaitForTrials(t, h.Dir, before*6)
		if err = errors.Join(err, os.Rename(longer, filepath.Join(shared, "log"))); err != nil {
			t.Error(err)
		}
	})
	gatedBy(t, byCPU(t, r.Comparisons), analysis.ChangeGate, "the difference is +")
	byCPU(t, r.Twin.Comparisons)
}
