package trial

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
)

// A subject that never comes up is a result; it does not eat the budget.
func TestASubjectThatDoesNotComeUp(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n  - {name: panics, driver: second}\n", "looks: [8], alphas: [.05]")
	tries := 0
	b.drivers[2].(*shelf).fail = func(driver.Spec) error {
		tries++
		return fault.New(fault.Subject, "Kernel panic - not syncing: VFS")
	}
	out, _ := b.run(t.Context())
	if tries != maxFailedCreations {
		t.Errorf("%d attempts, want %d", tries, maxFailedCreations)
	}
	i := slices.IndexFunc(out.Results.Missing, func(m analysisMissing) bool { return m.Contender == "panics" })
	if i < 0 || !strings.Contains(out.Results.Missing[i].Reason, "Kernel panic") {
		t.Errorf("missing %+v, want the panic", out.Results.Missing)
	}
	if out.Results.Blocks != 8 {
		t.Errorf("%d blocks count, want all 8: a subject's failure voids nothing", out.Results.Blocks)
	}
}

// A contender that the laboratory cannot create voids two blocks, and the others go on.
func TestATechnologyThatDoesNotWorkHere(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n  - {name: broken, driver: second}\n", "looks: [8], alphas: [.05]")
	tries := 0
	b.drivers[2].(*shelf).fail = func(driver.Spec) error {
		tries++
		return fault.New(fault.Lab, "its program ended with exit code 1")
	}
	out, _ := b.run(t.Context())
	i := slices.IndexFunc(out.Results.Missing, func(m analysisMissing) bool { return m.Contender == "broken" })
	if tries != maxFailedCreations || i < 0 || !out.Results.Missing[i].Gone ||
		!strings.Contains(out.Results.Missing[i].Reason, "exit code 1") {
		t.Errorf("%d attempts, want %d; missing %+v, want the reason", tries, maxFailedCreations, out.Results.Missing)
	}
	if out.Results.Blocks != 8 || out.Results.Void != maxFailedCreations {
		t.Errorf("%d blocks count and %d are void, want 8 and %d", out.Results.Blocks, out.Results.Void, maxFailedCreations)
	}
}

// A baseline that never comes up ends the run, with the reason: a block without
// it compares nothing.
func TestABaselineThatDoesNotComeUpEndsTheRun(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: second}\n", "looks: [8], alphas: [.05]")
	b.shelf.fail = func(driver.Spec) error {
		return fault.New(fault.Subject, "Kernel panic - not syncing: VFS")
	}
	o, done := b.options(t.Context())
	defer done()
	_, err := Run(t.Context(), o)
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "cannot run: did not start in 2 of "+
		"2 attempts: Kernel panic") {
		t.Errorf("it ended with: %v", err)
	}
}
