package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/cgroup"
	"bakeoff/reach/conn/local"
)

// A generator's host that a quota holds back makes the server look slow; its
// counters tell, and no comparison is believed. The quota is so small that the generator reaches it
// also on a busy machine.
func TestGeneratorOnAnotherHostThatIsHeldBack(t *testing.T) {
	t.Parallel()
	h, s, lab, dir := farHome(t, 2)
	layout, err := cgroup.Detect(t.Context(), local.Conn{})
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	g, err := layout.Create(t.Context(), local.Conn{}, fmt.Sprintf("held-%d", os.Getpid()), cgroup.Limits{Quota: 0.05})
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	t.Cleanup(func() {
		s.Stop()
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if why := g.Limits().NotEnforced["quota"]; why != "" {
		t.Skipf("needs a quota of CPU time: %s", why)
	}
	if err := g.Add(t.Context(), s.PID()); err != nil {
		t.Fatal(err)
	}
	near, far := link(t)
	write(t, lab, strings.NewReplacer("DIR", dir, "NEAR", near, "FAR", far).Replace(generatorLab))
	out, errs, code := h.Bakeoff(t, 4*time.Minute, "run", lab, "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	seen := 0
	for _, c := range r.Comparisons {
		if c.Metric != "throughput" {
			continue
		}
		seen++
		told := false
		for _, gate := range c.Gates {
			told = told || gate.Name == "throttled" &&
				strings.Contains(gate.Reason, "on the generator's host a quota held it back for ")
		}
		if !told {
			t.Errorf("%s at %s: gates %+v", c.Contender, c.Cell, c.Gates)
		}
	}
	if seen == 0 {
		t.Error("nothing was compared")
	}
	h.LeavesNothing(t)
}
