package offline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	bootall "bakeoff/measure/boot/all"
)

// Files that hold no boot are refused with what they are.
func TestOtherKindsOfFilesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"\x1f\x8b\x08\x00":                  "a compressed file",
		"\xfd7zXZ\x00":                      "a compressed file",
		"\x28\xb5\x2f\xfd":                  "a compressed file",
		"\x7fELF\x02":                       "a program or a kernel",
		"Startup finished in 1.2s (kernel)": "an output of systemd-analyze",
		"1min 2.345s a.service\n":           "an output of systemd-analyze",
		" 200ms dev-vda1.device\n":          "an output of systemd-analyze",
		"512us foo.timer\n100us bar.path\n": "an output of systemd-analyze",
		"The time after the unit is active or started is printed after": "an output of systemd-analyze",
		"Bootup is not yet finished (org.freedesktop.systemd1.Manager.FinishTimestampMonotonic=0).\n": "an output of " +
			"systemd-analyze",
		"Manager: systemd 252 (252.22-1~deb12u1)\nTimestamp firmware: 9.1s\n":     "an output of systemd-analyze",
		`[{"name":"a.service","activated":1,"activating":0}]`:                     "the JSON of systemd-analyze plot",
		"<?xml version=\"1.0\"?>\n<!DOCTYPE svg PUBLIC \"x\">\n<svg><!-- systemd": "the picture of systemd-analyze plot",
		"# tracer: nop\n": "a trace of another tracer",
		"# tracer: function\n 1.0: do_one_initcall <-kernel_init\n": "a trace of another tracer",
		"CPU     ID  FUNCTION\n":                                    "an output of DTrace",
		"version = bootchart 0.8\n":                                 "a log of bootchart",
		"schema: bakeoff/lab/v1\n":                                  "a lab file",
		`{"schema":"bakeoff/x/v1"}`:                                 "a file of bakeoff that holds no boot",
		`{"results":[{"command":"a","mean":1,"times":[1,2]}]}`:      "an output of hyperfine --export-json FILE",
		"hello\n": "",
	} {
		if len(bootall.Recognize([]byte(text))) > 0 {
			t.Errorf("%q is taken for a boot", text)
		}
		if kind, fix := otherKind([]byte(text)); kind != want || (fix == "") != (want == "") {
			t.Errorf("%q is %q (%s), want %q", text, kind, fix, want)
		}
	}
}

// No source of boots claims the output of a benchmark.
func TestOutputsOfBenchmarksAreNoBoots(t *testing.T) {
	paths, err := filepath.Glob("../../../judge/format/*/testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples (%v)", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(data).Files {
			if found := bootall.Recognize(f.Data); len(found) > 0 {
				t.Errorf("%s: %s is taken for a boot by %s", path, f.Name, found[0].Doc().Name)
			}
		}
	}
}
