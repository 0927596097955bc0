package agent

import (
	"context"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
)

// A command that spins beside three loops on its CPU waits for most of the time, and the
// result says so; without the flag it says nothing.
func TestExecCountsWaits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux counts")
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skip("needs taskset: apt-get install util-linux")
	}
	for range 3 {
		c := exec.Command("taskset", "-c", "0", "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	run := func(rounds int, waited *waitCounter) *float64 {
		t.Helper()
		cmd := exec.Command("taskset", "-c", "0", "sh", "-c", "i=0; while [ $i -lt $0 ]; do i=$((i+1)); done",
			strconv.Itoa(rounds))
		res, err := execute(context.Background(), cmd, 0, 0, func() {}, waited)
		if err != nil || res.Code != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		return res.WaitedSeconds
	}
	if got := run(200_000, nil); got != nil {
		t.Errorf("without the flag: %g s", *got)
	}
	var waited []float64
	for _, rounds := range []int{200_000, 2_000_000, 20_000_000} { // a fast CPU needs more for some waits
		got := run(rounds, &waitCounter{})
		if got == nil {
			t.Skip("the kernel does not count waits (schedstat)")
		}
		if waited = append(waited, *got); *got > 0.02 {
			return
		}
	}
	t.Errorf("beside three loops the command waited %g s", waited)
}
