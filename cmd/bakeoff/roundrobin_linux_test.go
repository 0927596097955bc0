package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoThreadKeepsFIFO starts this test with SCHED_FIFO, as `chrt -f` would start bakeoff.
func TestNoThreadKeepsFIFO(t *testing.T) {
	const child = "BAKEOFF_TEST_FIFO"
	if os.Getenv(child) != "" {
		if !leaveFIFO() || leaveFIFO() {
			t.Error("the class was not left at once")
		}
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil || a.Policy != unix.SCHED_RR || a.Priority != 1 {
			t.Errorf("the class is %+v, %v; want SCHED_RR with priority 1", a, err)
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("chrt", "-f", "1", self, "-test.run", "^TestNoThreadKeepsFIFO$")
	c.Env = append(os.Environ(), child+"=1")
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "Operation not permitted") {
		t.Skip("this process may not use real-time priority")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
