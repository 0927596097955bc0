package examples

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// The example site under the technologies that are here, by both generators,
// over HTTP, HTTPS and HTTP/2: every cell of the host and of a chroot gives figures, and
// TLS in the kernel is had or refused with its reason.
func TestStaticWebExample(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	lab, err := filepath.Abs("../../../../examples/static-web")
	if err != nil {
		t.Fatal(err)
	}
	cells := []string{"http-50", "http-site", "http-open", "h2-50", "ecdsa-ktls", "wrk-10"}
	args := []string{lab, "--profile", "ci", "--seed", "7"}
	for _, c := range cells {
		args = append(args, "--only", c)
	}
	r, code := h.Example(t, args...)
	for _, m := range r.Missing {
		switch {
		case strings.Contains(m.Reason, "apt-get install"):
			t.Skipf("%s on %s: %s", m.Cell, m.Contender, m.Reason)
		case m.Cell == "ecdsa-ktls" && strings.Contains(m.Reason,
			"ktls: "), m.Contender == "gvisor", m.Contender == "microvm":
		default:
			t.Errorf("missing: %s on %s: %s", m.Cell, m.Contender, m.Reason)
		}
	}
	if code != 0 && code != 4 || r.Blocks == 0 {
		t.Errorf("exit code %d, %d blocks", code, r.Blocks)
	}
	for _, contender := range []string{"host", "chroot"} {
		for _, cell := range cells {
			i := slices.IndexFunc(r.Summaries, func(s analysis.Summary) bool {
				return s.Contender == contender && s.Cell == cell && s.Metric == "throughput"
			})
			if cell != "ecdsa-ktls" && (i < 0 || r.Summaries[i].N == 0) {
				t.Errorf("%s of the %s has no figure", cell, contender)
			}
		}
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// Two packaged web servers serve the same site to the same generator: every cell of
// both gives figures, and the server is the only factor.
func TestServersExample(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	lab, err := filepath.Abs("../../../../examples/servers")
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
	if code != 0 || r.Blocks != 1 {
		t.Errorf("exit code %d, %d blocks", code, r.Blocks)
	}
	for _, contender := range []string{"nginx", "lighttpd"} {
		for _, cell := range []string{"home", "site", "fixed-rate", "connect", "https"} {
			i := slices.IndexFunc(r.Summaries, func(s analysis.Summary) bool {
				return s.Contender == contender && s.Cell == cell && s.Metric == "throughput"
			})
			if i < 0 || r.Summaries[i].N != 1 {
				t.Errorf("%s of %s has no figure", cell, contender)
			}
		}
	}
	for _, c := range r.Comparisons {
		want := analysis.Factor{Name: "params.server", Baseline: "nginx", Contender: "lighttpd"}
		if len(c.Factors) != 1 || c.Factors[0] != want {
			t.Errorf("%s of %s: factors %v", c.Metric, c.Cell, c.Factors)
		}
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}
