package trial

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/measure/execution"
	command "bakeoff/measure/workload/command/runner"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// TestMain lets the test binary be the agent of bare environments.
func TestMain(m *testing.M) { workloadtest.Main(m) }

// bare makes environments that are a directory of this machine. It has the name of
// the driver host, and needs neither root nor control groups.
type bare struct {
	shelf
	t *testing.T
}

func (b *bare) Doc() driver.Doc { return driver.Doc{Name: "host", Summary: "a directory"} }

func (b *bare) Check(context.Context, conn.Conn, param.Values) driver.Availability {
	return driver.Availability{OK: true}
}

func (b *bare) Create(context.Context, conn.Conn, driver.Spec) (driver.Instance, error) {
	return workloadtest.Local(b.t).Subject, nil
}

// The examples of variants run real commands: each contender its own, in the
// environments of one driver, and the folders verify.
func TestExamplesOfVariants(t *testing.T) {
	for _, program := range []string{"sh", "seq", "awk", "gzip", "wc", "sha256sum", "sha512sum", "b2sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install coreutils gzip mawk", program)
		}
	}
	for name, comparisons := range map[string]int{"commands": 2, "sweep": 8} {
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join("../../examples", name, "bakeoff.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{t: t, base: t.TempDir(), shelf: &shelf{name: "shelf"}, dice: &dice{}, lab: src}
			b.drivers = []driver.Driver{&bare{t: t}}
			workloads := []execution.Runner{command.New()}
			cat := preflight.CatalogueOf(b.drivers, workloads)
			lab, err := manifest.Parse("bakeoff.yaml", src, cat, "ci")
			if err != nil {
				t.Fatal(err)
			}
			if b.plan, err = plan.Expand(lab, cat, 1, "test"); err != nil {
				t.Fatal(err)
			}
			o, done := b.options(t.Context())
			defer done()
			o.Workloads = workloads
			out, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range out.Results.Missing {
				t.Errorf("%s at %s: %s", m.Contender, m.Cell, m.Reason)
			}
			primary := 0
			for _, c := range out.Results.Comparisons {
				if !c.Primary {
					continue
				}
				primary++
				if len(c.Factors) != 1 || c.Factors[0].Name != "params.argv" || len(c.Confounders) != 0 {
					t.Errorf("%s: factors %v, confounders %v", c.Contender, c.Factors, c.Confounders)
				}
			}
			if primary != comparisons || out.Results.Blocks != 2 {
				t.Errorf("%d comparisons, %d blocks", primary, out.Results.Blocks)
			}
			if name == "sweep" {
				smaller(t, out.Results)
			}
			r, err := evidence.Verify(o.Run, execution.Parsers(workloads), &cat)
			if err != nil || !r.OK() || len(r.Notes) > 0 {
				t.Errorf("verify: %v, %v, %v", err, r.Findings, r.Notes)
			}
		})
	}
}

// smaller checks that a higher level of gzip gave a smaller file: each contender
// ran with its own.
func smaller(t *testing.T, r analysis.Results) {
	t.Helper()
	last, n := 0.0, 0
	for _, c := range r.Contenders {
		for _, s := range r.Summaries {
			if s.Contender != c.Name || s.Metric != "cost" || c.TwinOf != "" {
				continue
			}
			if n++; n > 1 && !(*s.Median < last) {
				t.Errorf("%s: %v bytes after %v", c.Name, *s.Median, last)
			}
			last = *s.Median
		}
	}
	if n != 5 {
		t.Errorf("%d levels", n)
	}
}
