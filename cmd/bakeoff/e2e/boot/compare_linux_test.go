package boot

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
)

// compared is what boot compare --json prints.
type compared struct {
	Unit          string
	Deterministic bool
	Length        difference
	Spans         []difference
}

type difference struct {
	Path       []string
	A, B       float64
	Difference float64
	Exact      bool
}

// name is the last label of a path.
func (d difference) name() string {
	if len(d.Path) == 0 {
		return ""
	}
	return d.Path[len(d.Path)-1]
}

// recorded records boots on the instruction clock with boot record, and compares two of the
// contenders.
func recorded(t *testing.T, h e2e.Home, a, b string, args ...string) compared {
	t.Helper()
	all := append([]string{"boot", "record", "--memory", "256MiB", "--boots", "2",
		"--option", "clock=instructions", "--option", "boot-timeout=5m", "--json"}, args...)
	out, errs, code := h.Bakeoff(t, limit, all...)
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("boot record: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	folder := r.Folder
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(h.Dir, folder)
	}
	out, errs, code = h.Bakeoff(t, limit, "boot", "compare", folder, a, b, "--json")
	var c compared
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 {
		t.Fatalf("boot compare: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	if c.Unit != "instruction" || !c.Deterministic || !c.Length.Exact {
		t.Errorf("in %s; deterministic %v; %+v", c.Unit, c.Deterministic, c.Length)
	}
	for _, d := range c.Spans[:min(len(c.Spans), 8)] {
		t.Logf("%+.0f instructions: %s", d.Difference, strings.Join(d.Path, " › "))
	}
	t.Logf("the boots: %.0f and %.0f instructions, difference %+.0f", c.Length.A, c.Length.B, c.Length.Difference)
	pages, _ := filepath.Glob(filepath.Join(folder, "report", "boot-*.html"))
	if len(pages) < 3 {
		t.Errorf("pages about boots: %q", pages)
	}
	h.Holds(t, folder)
	return c
}

// quick makes boots short: no self-tests, an ELF kernel and no ACPI.
var quick = []string{"--option", "kernel-form=elf", "--option", "acpi=off"}

// An init that burns a known number of instructions is found, named, and sized within 1 %.
// So the clock goes on after the first userland instruction, up to a mark of the guest.
func TestCompareNamesAProgram(t *testing.T) {
	needs(t)
	h := e2e.New(t)
	const burnt = 20_000_000
	for name, n := range map[string]uint64{"before": 1, "after": 1 + burnt/2} {
		if err := os.WriteFile(filepath.Join(h.Dir, name), bootdisk.Burn(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := image.Store{Dir: filepath.Join(h.Variable("BAKEOFF_CACHE"), "image"), Host: local.Conn{}}
	img, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm", Disk: true, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	c := recorded(t, h, "microvm", "microvm-after", append(quick, "microvm", "--option", "kernel="+img.Kernel,
		"--option", "append=cryptomgr.notests acpi=off",
		"--option", "ready=mark:"+bootdisk.Burnt, "--option", "initrd="+filepath.Join(h.Dir, "before"),
		"--variant", "after:initrd="+filepath.Join(h.Dir, "after"))...)
	if len(c.Spans) == 0 || c.Spans[0].name() != "/init up to the report burnt" || !within(c.Spans[0].Difference, burnt) {
		t.Fatalf("the largest difference is %+v, and /init burns %d instructions more", c.Spans, burnt)
	}
	if !within(c.Length.Difference, burnt) {
		t.Errorf("the boots differ by %.0f instructions, of which %d were burnt", c.Length.Difference, burnt)
	}
	if len(c.Spans) > 1 && math.Abs(c.Spans[1].Difference) > burnt/100 {
		t.Errorf("something else differs: %+v", c.Spans[1])
	}
	h.LeavesNothing(t)
}

// within reports whether a difference is known to 1 %.
func within(got, want float64) bool { return math.Abs(got-want) <= want/100 }

// A kernel argument that turns the self-tests on is found by the initcalls that run them, or
// wait for them.
// Their differences add up to what the argument costs a kernel that records nothing,
// within 1 %.
func TestCompareNamesTheSelfTests(t *testing.T) {
	needs(t)
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		t.Skip("takes minutes under emulation: set BAKEOFF_TEST_LONG=1")
	}
	h := e2e.New(t)
	plain := recordedPlain(t, h)
	c := recorded(t, h, "microvm", "microvm-tests", append(quick, "microvm:debian:bookworm", "--option",
		"append=cryptomgr.notests acpi=off", "--variant", "tests:append=cryptomgr.notests=0 acpi=off")...)
	// Some run the tests, and the others wait for what is tested first, or for the CPU.
	sum := 0.0
	for _, d := range c.Spans {
		if slices.ContainsFunc(d.Path, func(name string) bool {
			return slices.Contains([]string{"crypto_algapi_init", "crypto_kdf108_init", "load_system_certificate_list",
				"sched_clock_init_late", "init_encrypted"}, name)
		}) {
			sum += d.Difference
		}
	}
	if len(c.Spans) == 0 || !strings.HasPrefix(c.Spans[0].name(), "crypto_") {
		t.Errorf("the largest difference is not a self-test: %+v", c.Spans[0])
	}
	if !within(sum, plain) || !within(c.Length.Difference, plain) {
		t.Errorf("the self-tests took %.0f instructions, all %.0f; without a recording the argument costs %.0f", sum,
			c.Length.Difference, plain)
	}
	h.LeavesNothing(t)
}

// recordedPlain is what the argument costs a kernel that records nothing.
func recordedPlain(t *testing.T, h e2e.Home) float64 {
	t.Helper()
	lab := filepath.Join(h.Dir, "plain.yaml")
	text := `schema: bakeoff/lab/v1
name: plain
defaults: {cpus: 1, memory: 256MiB, image: "debian:bookworm"}
contenders:
  - {name: without, driver: qemu, clock: instructions, kernel-form: elf, acpi: "off",
     append: "cryptomgr.notests acpi=off", boot-timeout: 5m}
  - {name: with, driver: qemu, clock: instructions, kernel-form: elf, acpi: "off",
     append: "cryptomgr.notests=0 acpi=off", boot-timeout: 5m}
baseline: without
cells: [{name: boot, workload: boot, primary: [instructions]}]
design: {instances: run, mirror: false, looks: [2]}
`
	if err := os.WriteFile(lab, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, lab)
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, c := range r.Comparisons {
		if c.Metric == "instructions" && c.Exact != nil {
			t.Logf("without a recording the self-tests cost %+v", *c.Exact)
			return float64(c.Exact.Difference)
		}
	}
	t.Fatalf("no exact difference: %+v", r.Comparisons)
	return 0
}
