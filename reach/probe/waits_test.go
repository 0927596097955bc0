package probe

import (
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestParseWait(t *testing.T) {
	for text, want := range map[string]uint64{"12 3400 5\n": 3400, "0 0 0\n": 0} {
		if got, ok := parseWait(text); !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "12 3400\n", "12 -1 5\n", "a b c\n"} {
		if got, ok := parseWait(text); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// Two busy loops on one CPU wait for each other about half of the time; what is read grows.
func TestWaitsOfABusyProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux counts")
	}
	var loops []*exec.Cmd
	for range 2 {
		c := exec.Command("taskset", "-c", "0", "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Skipf("needs taskset: apt-get install util-linux: %v", err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill() // it ends with the test at the latest
			_ = c.Wait()
		})
		loops = append(loops, c)
	}
	w := Waits{}
	for deadline := time.Now().Add(20 * time.Second); w.Seconds() < 0.05; time.Sleep(10 * time.Millisecond) {
		if !w.Read(loops[1].Process.Pid) {
			t.Skip("the kernel does not count waits (schedstat)")
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %g s beside another busy loop", w.Seconds())
		}
	}
}
