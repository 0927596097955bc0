package examples

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// The first command's example, everything once: on every technology, from
// images to the page. It decides nothing, so noise decides nothing here.
func TestQuickExample(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	lab, err := filepath.Abs("../../../../examples/quick")
	if err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, lab, "--profile", "ci", "--seed", "3")
	for _, m := range r.Missing {
		if strings.Contains(m.Reason, "apt-get install") {
			t.Skipf("%s on %s: %s", m.Cell, m.Contender, m.Reason)
		}
		t.Errorf("missing: %s on %s: %s", m.Cell, m.Contender, m.Reason)
	}
	if code != 0 || r.Blocks == 0 || r.Twin == nil || len(r.Comparisons) == 0 {
		t.Errorf("exit code %d, %d blocks, twin %v, %d comparisons", code, r.Blocks, r.Twin != nil, len(r.Comparisons))
	}
	for _, c := range r.Comparisons {
		if c.Verdict != "" && c.Verdict != analysis.Inconclusive {
			t.Errorf("%s on %s is %s after two blocks", c.Contender, c.Cell, c.Verdict)
		}
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// A program that does not exist, a disk that is full, a kernel that panics:
// each is a failed or missing cell with its reason, and the rest is intact.
func TestWhatGoesWrongIsTold(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	lab, err := filepath.Abs("../../../../examples/failures")
	if err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, lab, "--seed", "5")
	if code != 4 || r.Blocks != 2 {
		t.Errorf("exit code %d after %d blocks, want 4 after both", code, r.Blocks)
	}
	reason := func(contender, cell string) string {
		for _, m := range r.Missing {
			if m.Contender == contender && m.Cell == cell {
				return m.Reason
			}
		}
		return ""
	}
	for _, x := range []struct{ contender, cell, reason string }{
		{"host", "only-here", ""},
		{"chroot", "only-here", "mmdebstrap"},
		{"full-disk", "only-here", "mmdebstrap"},
		{"full-disk", "write", "no space"},
	} {
		if got := reason(x.contender, x.cell); !strings.Contains(got, x.reason) || (got == "") != (x.reason == "") {
			t.Errorf("%s on %s: %q does not say %q", x.cell, x.contender, got, x.reason)
		}
	}
	if got := reason("panics", "syscall"); !strings.Contains(got, "panic") && !strings.Contains(got, "apt-get install") {
		t.Errorf("the kernel that panics: %q", got)
	}
	for _, who := range []string{"host", "chroot", "full-disk"} {
		i := slices.IndexFunc(r.Summaries, func(s analysis.Summary) bool {
			return s.Contender == who && s.Cell == "syscall" && s.Metric == "throughput"
		})
		if i < 0 || r.Summaries[i].N != 4 {
			t.Errorf("the syscalls of %s are not intact", who)
		}
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// Mail is copied into real file systems under every compression.
func TestCompressionExample(t *testing.T) {
	e2e.NeedsRoot(t)
	for _, p := range []string{"zfs-fuse", "mkfs.btrfs"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s: apt-get install zfs-fuse btrfs-progs", p)
		}
	}
	h := e2e.New(t)
	lab, err := filepath.Abs("../../../../examples/compression")
	if err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, lab, "--profile", "ci", "--seed", "3")
	if code != 0 || len(r.Missing) != 0 {
		t.Errorf("exit code %d, missing %v", code, r.Missing)
	}
	// The size of a file is not noise.
	took := map[string]float64{}
	for _, s := range r.Summaries {
		if s.Cell == "one-writer" && s.Metric == "ratio" && s.Median != nil {
			took[s.Contender] = *s.Median
		}
	}
	if !(took["zfs-off"] < took["lzjb"] && took["lzjb"] < took["gzip-6"] && took["btrfs-off"] < took["btrfs-zlib-9"]) {
		t.Errorf("ratios %v", took)
	}
	h.LeavesNothing(t)
}
