package labs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// The larger examples, everything once by their profile ci, one after the
// other: eight minutes or so on two quiet CPUs. Whatever is not
// said to be allowed to be missing gives figures on every contender, nothing is
// decided by one block, and the folder holds.
func TestLabs(t *testing.T) {
	e2e.NeedsRoot(t)
	for _, tt := range []struct {
		// The names are short, as sockets lie below a folder that bears them.
		name, lab string
		// mayLack tells whether a cell may be missing here, because what it
		// needs is not to be had everywhere.
		mayLack func(m analysis.Missing) bool
	}{
		// gVisor is built by hand and not packaged; on a busy host a trial of
		// some milliseconds may not be long enough to verify itself.
		{"technologies", "technologies", func(m analysis.Missing) bool {
			return m.Contender == "gvisor" || strings.Contains(m.Reason, "twice the work")
		}},
		{"storage", "storage-compute", nil},
		// zfs-fuse has not all properties of OpenZFS.
		{"zfs", "storage-compute/zfs.yaml", func(m analysis.Missing) bool { return m.Contender == "sync-disabled" }},
		{"system", "whole-system", tooFastForBonnie},
		{"machine", "whole-system/machine.yaml", tooFastForBonnie},
		{"cms", "cms", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := e2e.New(t)
			lab, err := filepath.Abs(filepath.Join("../../../../examples", filepath.FromSlash(tt.lab)))
			if err != nil {
				t.Fatal(err)
			}
			r, code := h.Example(t, lab, "--profile", "ci", "--seed", "3")
			for _, m := range r.Missing {
				if strings.Contains(m.Reason, "apt-get install") {
					t.Skipf("%s on %s: %s", m.Cell, m.Contender, m.Reason)
				}
				if m.Reason == "" || tt.mayLack == nil || !tt.mayLack(m) {
					t.Errorf("missing: %s on %s: %s", m.Cell, m.Contender, m.Reason)
				}
			}
			if want := map[bool]int{true: 0, false: 4}[len(r.Missing) == 0]; code != want || r.Blocks == 0 {
				t.Errorf("exit code %d after %d blocks with %d cells missing", code, r.Blocks, len(r.Missing))
			}
			lacks := func(contender, cell string) bool {
				return slices.ContainsFunc(r.Missing, func(m analysis.Missing) bool {
					return m.Contender == contender && m.Cell == cell
				})
			}
			for _, c := range r.Contenders {
				for _, cell := range r.Cells {
					if !lacks(c.Name, cell.Name) && !slices.ContainsFunc(r.Summaries, func(s analysis.Summary) bool {
						return s.Contender == c.Name && s.Cell == cell.Name && s.N > 0
					}) {
						t.Errorf("%s on %s has neither a figure nor a reason", cell.Name, c.Name)
					}
				}
			}
			for _, c := range r.Comparisons {
				if c.Verdict != "" && c.Verdict != analysis.Inconclusive {
					t.Errorf("%s on %s is %s after one block", c.Contender, c.Cell, c.Verdict)
				}
			}
			h.Holds(t, r.Folder)
			h.LeavesNothing(t)
		})
	}
}

// tooFastForBonnie reports whether bonnie++ printed no rate because a phase took
// less than half a second, the least that it measures. A fast disk does that.
func tooFastForBonnie(m analysis.Missing) bool {
	return m.Cell == "bonnie" && strings.Contains(m.Reason, "did not measure")
}
