package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// generatorLab has the load for what is here come from another host.
const generatorLab = `schema: bakeoff/lab/v1
name: load
hosts:
  local: {uplink: NEAR}
  client: {ssh: box, dir: DIR, uplink: FAR}
generator: client
contenders:
  - {name: a, driver: host}
  - {name: b, driver: host}
baseline: a
cells: [{name: web, workload: http, params: {time: 1s}, primary: [throughput]}]
design: {blocks: 1, mirror: false}
`

// Two hosts that are connected by a link of their own: one serves, the other
// makes the load. The link is in their networks as long as the run lasts, and a
// link that something else may use is refused and left alone.
func TestGeneratorOnAnotherHost(t *testing.T) {
	t.Parallel()
	h, _, lab, dir := farHome(t, 2)
	near, far := link(t)
	write(t, lab, strings.NewReplacer("DIR", dir, "NEAR", near, "FAR", far).Replace(generatorLab))
	ip(t, "addr", "add", "203.0.113.7/24", "dev", far)
	_, errs, code := h.Bakeoff(t, 2*time.Minute, "run", lab)
	if code == 0 || !strings.Contains(errs, "has the address 203.0.113.7/24") {
		t.Errorf("an interface that is in use: exit code %d\n%s", code, errs)
	}
	if !strings.Contains(ip(t, "-o", "addr", "show", "dev", far), "203.0.113.7/24") {
		t.Error("it was not left alone")
	}
	h.LeavesNothing(t)
	ip(t, "addr", "flush", "dev", far)

	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", lab, "--json")
	if code != 0 {
		t.Fatalf("run: exit code %d\n%s%s", code, out, errs)
	}
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	values := 0
	for _, s := range r.Summaries {
		if s.Metric == "throughput" && s.N > 0 && s.Median != nil && *s.Median > 0 {
			values++
		}
	}
	if values != 3 || len(r.Missing) > 0 {
		t.Errorf("%d of 3 have a throughput; missing: %+v", values, r.Missing)
	}
	for _, c := range r.Comparisons {
		for _, g := range c.Gates {
			if g.Name == "throttled" && !strings.Contains(g.Reason, "the hardware throttled") { // that is heat
				t.Errorf("%s of %s: no quota held anything back, and %s", c.Metric, c.Contender, g.Reason)
			}
		}
	}
	journal, err := os.ReadFile(filepath.Join(h.Dir, r.Folder, "journal.ndjson"))
	if err != nil || strings.Count(string(journal), "from host client over "+far+" and "+near) != 3 {
		t.Errorf("the journal does not say of all three where the load came from: %v\n%s", err, journal)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// link makes the link between the two hosts and returns its ends: that of this
// machine, and that of the other.
func link(t *testing.T) (near, far string) {
	t.Helper()
	n := links.Add(1)
	near, far = fmt.Sprintf("bo%da%d", os.Getpid(), n), fmt.Sprintf("bo%db%d", os.Getpid(), n)
	connect(t, near, far)
	return near, far
}

// links counts the links that the tests have made: each has names of its own.
var links atomic.Int64

// connect makes a link with these ends.
func connect(t *testing.T, near, far string) {
	t.Helper()
	ip(t, "link", "add", near, "type", "veth", "peer", "name", far)
	t.Cleanup(func() { exec.Command("ip", "link", "delete", near).Run() })
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
