package labs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// The larger examples, once each by their profile ci, one after the other. Every
// cell gives figures on every contender, except where mayLack allows it to be
// missing; nothing is decided by one block, and the folder holds.
//
// Emulated machines take most of the time, so the whole system runs in containers only.
// The tests of the driver qemu write to a disk of each controller and format, and those
// of the workload cms make the same site.
// BAKEOFF_TEST_LONG runs the others, too.
func TestLabs(t *testing.T) {
	e2e.NeedsRoot(t)
	for _, tt := range []struct {
		// The names are short, as sockets lie below a folder that bears them.
		name, lab string
		long      bool // only BAKEOFF_TEST_LONG runs it
		// mayLack tells whether a cell may be missing here, because what it
		// needs is not to be had everywhere.
		mayLack func(m analysis.Missing) bool
	}{
		// gVisor is built by hand and not packaged; on a busy host a trial of
		// some milliseconds may not be long enough to verify itself.
		{"technologies", "technologies", false, func(m analysis.Missing) bool {
			return m.Contender == "gvisor" || strings.Contains(m.Reason, "twice the work")
		}},
		{"storage", "storage-compute", true, nil},
		// The tests of each workload and tool measure CPU and memory in containers.
		{"cpu", "cpu-memory", true, nil},
		// zfs-fuse has not all properties of OpenZFS. The example compression runs on it, too.
		{"zfs", "storage-compute/zfs.yaml", true, func(m analysis.Missing) bool { return m.Contender == "sync-disabled" }},
		{"system", "whole-system", false, tooFastForBonnie},
		// The tests of each tool run in containers.
		{"machine", "whole-system/machine.yaml", true, tooFastForBonnie},
		{"cms", "cms", true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := e2e.New(t)
			lab, err := filepath.Abs(filepath.Join("../../../../examples", filepath.FromSlash(tt.lab)))
			if err != nil {
				t.Fatal(err)
			}
			if tt.long && os.Getenv("BAKEOFF_TEST_LONG") == "" {
				t.Skip("takes most of a minute: set BAKEOFF_TEST_LONG=1")
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
