package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	dir := t.TempDir()
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		c := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, name), "bakeoff/cmd/"+name)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run := func(args ...string) string {
		c := exec.CommandContext(t.Context(), filepath.Join(dir, "bakeoff"), args...)
		c.Env = append(os.Environ(), "BAKEOFF_STATE="+filepath.Join(dir, "state"), "NO_COLOR=1", "PATH="+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("bakeoff %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	out := run("doctor", "--prove", "host")
	if !strings.Contains(out, "host is proven on linux") || !strings.Contains(out, " 0 failed") {
		t.Errorf("%s", out)
	}
	if out := run("list", "drivers", "host"); !strings.Contains(out, "proven here") {
		t.Errorf("%s", out)
	}
}
