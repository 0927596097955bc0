package guests

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// A command whose supervisor is killed says so, and how to go on: before the supervisor is
// asked to start the guest, and while it does.
func TestKilledSupervisorIsExplained(t *testing.T) {
	for when, program := range map[string]string{"before": "kill -9 $$", "while": "read line; kill -9 $$"} {
		t.Run(when, func(t *testing.T) {
			s, err := startSupervisor(exec.CommandContext(t.Context(), "sh", "-c", program))
			if err != nil {
				t.Fatal(err)
			}
			if when == "before" { // it ends, and its pipes with it
				if said, err := io.ReadAll(s.said); err != nil || len(said) > 0 {
					t.Fatalf("it said %q, %v", said, err)
				}
			}
			err = s.begin("0a")
			if !fault.Is(err, fault.Lab) {
				t.Fatalf("got %v", err)
			}
			said := err.Error() + " " + fault.Fix(err)
			for _, want := range []string{"the supervisor of guest 0a ended (signal: killed) before the guest ran",
				"`bakeoff vm start 0a`", "`bakeoff vm logs 0a`"} {
				if !strings.Contains(said, want) {
					t.Errorf("%q does not say %q", said, want)
				}
			}
		})
	}
}
