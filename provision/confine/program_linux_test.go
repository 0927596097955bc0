package confine

import (
	"os"
	"path/filepath"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// On the controller's own machine a program that needs nothing of `enter` starts
// without an agent, and only if the setup succeeded.
func TestProgramWithoutAgent(t *testing.T) {
	run := func(g wire.Setup, argv ...string) error {
		e := &Env{Host: local.Conn{}, Spec: driver.Spec{Label: "x-none", Agent: "/nonexistent/agent"}}
		return e.SetUpThenRun(t.Context(), g, Program{Argv: argv})
	}
	made := filepath.Join(t.TempDir(), "made")
	if err := run(wire.Setup{Root: &wire.Root{At: "relative"}}, "touch", made); !fault.Is(err, fault.Invalid) {
		t.Errorf("after a failed setup: %v", err)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("the program started after a failed setup")
	}
	if err := run(wire.Setup{}, "touch", made); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
	if err := run(wire.Setup{}, "no-such-program"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing program: %v", err)
	}
	if err := run(wire.Setup{}, "sh", "-c", "echo why >&2; exit 3"); !fault.Is(err, fault.Lab) ||
		err.Error() != "exit code 3: why" {
		t.Errorf("a program that fails: %v", err)
	}
}
