package life

import (
	"os"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// The suite runs in the program itself, without a compiler: the host proves
// itself, and is proven from then on.
func TestProveHost(t *testing.T) {
	if testing.Short() {
		t.Skip("makes real environments: not with -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	h := e2e.New(t)
	run := func(args ...string) string {
		out, errs, code := h.Bakeoff(t, 10*time.Minute, args...)
		if code != 0 {
			t.Fatalf("bakeoff %q: exit code %d\n%s%s", args, code, out, errs)
		}
		return out + errs
	}
	out := run("doctor", "--prove", "host")
	if !strings.Contains(out, "host is proven on linux") || !strings.Contains(out, " 0 failed") {
		t.Errorf("%s", out)
	}
	if out := run("list", "drivers", "host"); !strings.Contains(out, "proven here") {
		t.Errorf("%s", out)
	}
}
