package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
)

// clean finds the hosts of earlier runs without their lab file, and a damaged
// record is an error that names it.
func TestHostsAreRemembered(t *testing.T) {
	state := t.TempDir()
	if err := remember(state, "box", manifest.Host{SSH: "root@box", Port: 2222, Meter: []string{"meter"}}); err != nil {
		t.Fatal(err)
	}
	if err := remember(state, "box", manifest.Host{SSH: "root@other"}); err != nil { // of another lab file
		t.Fatal(err)
	}
	hosts, err := remembered(state)
	if err != nil || len(hosts) != 2 {
		t.Fatalf("%+v, %v", hosts, err)
	}
	for file, h := range hosts {
		if want := map[string]int{"root@box": 2222, "root@other": 0}; !strings.HasPrefix(file, "box@") ||
			h.Port != want[h.SSH] || h.Meter != nil {
			t.Errorf("%s: %+v", file, h)
		}
		if err := forget(state, file); err != nil {
			t.Fatal(err)
		}
	}
	if hosts, err := remembered(state); err != nil || len(hosts) != 0 {
		t.Errorf("after forget: %+v, %v", hosts, err)
	}
	damaged := filepath.Join(state, hostDir, "lost.json")
	if err := os.WriteFile(damaged, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := remembered(state); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), damaged) {
		t.Errorf("a damaged record: %v", err)
	}
}

// BAKEOFF_AGENT must name an executable file, and the error says so.
func TestAgentIsNamed(t *testing.T) {
	c := Controller{Getenv: func(name string) string {
		if name == "BAKEOFF_AGENT" {
			return "/no/such/agent"
		}
		return ""
	}}
	_, err := c.Agent()
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "correct BAKEOFF_AGENT") {
		t.Errorf("%v", err)
	}
}
