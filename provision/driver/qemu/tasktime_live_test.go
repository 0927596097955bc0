//go:build linux

package qemu

import (
	"encoding/json"
	"math"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/reach/wire"
)

// Debian's kernel has /proc/schedstat and its guests have no control groups of
// version 1. What it says of a busy command is what the command's own account
// says, in nanoseconds; the rest is the agent's and the kernel's.
func TestSchedstatOfAGuest(t *testing.T) {
	in := create(t, specOf(t, param.Values{"machine": "microvm"}))
	t.Logf("/proc/schedstat:\n%s", output(t, in, "cat", "/proc/schedstat"))
	const work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	// A host that keeps the guest from its CPU for a while makes what ran there then seem busy.
	for try := 1; ; try++ {
		var r wire.ExecResult
		text := output(t, in, in.Info().Agent, "exec", "--json", "--", "/bin/sh", "-c", work)
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		busy, source, ok := r.Counters.After.Since(r.Counters.Before).Busy()
		if !ok || source != facts.SourceSchedstat {
			t.Fatalf("busy for %g s by %q (%v)", busy, source, ok)
		}
		own := r.Usage.CPUSeconds()
		t.Logf("busy for %.6f s by %s, of which the command had %.6f s", busy, source, own)
		if busy >= own && math.Abs(busy-own) <= 0.15*own {
			return
		}
		if try == 10 {
			t.Fatalf("busy for %.6f s by %s, and the command alone had %.6f s", busy, source, own)
		}
	}
}
