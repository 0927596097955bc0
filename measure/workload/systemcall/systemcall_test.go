package systemcall

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{Common: param.Values{"time": "50ms"}})
}

// Every call reaches the kernel, as a tracer sees it: none was cached.
func TestCallsReachTheKernel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("strace is of Linux")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace: apt-get install strace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := t.TempDir() + "/log"
	cmd := exec.Command(strace, "-f", "-c", "-U", "calls,name", "-e", "trace=getppid", "-o", log, self, "work",
		"syscall", "--json", "time=20ms")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Skipf("strace does not work here: %v", err)
	}
	_, work, _ := strings.Cut(out.String(), `"work":`)
	work, _, _ = strings.Cut(work, ",")
	did, err := strconv.ParseFloat(work, 64)
	if err != nil {
		t.Fatalf("the result has no work: %s", out.String())
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == "getppid" {
			if seen, err := strconv.ParseFloat(f[0], 64); err != nil || seen < did {
				t.Errorf("%g calls were counted, %g seen by strace", did, seen)
			}
			return
		}
	}
	t.Errorf("strace saw no getppid: %s", b)
}
