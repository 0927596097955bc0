package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/measure/boot"
	"bakeoff/reach/conn/sshtest"
)

// boot record --host reads what a running machine recorded about its last boot, over SSH,
// and boot show draws it. --plan connects to nothing.
func TestRecordOfARunningMachine(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root: the log of the kernel")
	}
	if out, err := exec.Command("dmesg").Output(); err != nil || !strings.Contains(string(out), "] ") {
		t.Skip("the log of this machine's kernel cannot be read, or has no times")
	}
	s := sshtest.Start(t)
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "boot", "record", "--host", "nobody@nowhere.invalid", "--plan")
	if code != 0 || out != "" || !strings.Contains(errs, "changes nothing else") {
		t.Errorf("--plan: exit code %d\n%s%s", code, out, errs)
	}
	file := filepath.Join(h.Dir, "live.json")
	if out, errs, code = h.Bakeoff(t, 3*time.Minute, "boot", "record", "--host", "box", "--to", file); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := boot.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%d spans and %d marks on %d clocks", errs, len(r.Spans), len(r.Marks), len(r.Clocks))
	if r.System != "linux" || len(r.Spans) == 0 {
		t.Errorf("system %q, %d spans", r.System, len(r.Spans))
	}
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "boot", "show", file)
	if code != 0 || !strings.Contains(out, "own time") {
		t.Errorf("show: exit code %d\n%s%s", code, out, errs)
	}
	h.LeavesNothing(t)
}
