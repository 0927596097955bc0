package cgroup

import (
	"os"
	"testing"

	"bakeoff/fault"
)

// A container engine removes a group of its own as soon as the last process is
// dead, perhaps while it is being thawed.
func TestThawWhatIsGone(t *testing.T) {
	g := real(t, ours+"-gone", Limits{})
	for _, d := range g.Dirs() {
		if err := os.Remove(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Thaw(t.Context()); err != nil {
		t.Errorf("thaw: %v", err)
	}
	if err := g.Freeze(t.Context()); !fault.Is(err, fault.NotFound) {
		t.Errorf("freeze: %v; there is nothing to freeze", err)
	}
	if err := g.Kill(t.Context()); err != nil {
		t.Errorf("kill: %v", err)
	}
}
