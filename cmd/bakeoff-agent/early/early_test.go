package early

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// The agent initializes this package before those of other projects, and no
// other program initializes it.
func TestOrder(t *testing.T) {
	agent := t.TempDir() + "/agent"
	if out, err := exec.Command("go", "build", "-o", agent, "bakeoff/cmd/bakeoff-agent").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(agent, "list")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	own := strings.Index(said.String(), "init bakeoff/cmd/bakeoff-agent/early ")
	net := strings.Index(said.String(), "init net ")
	if other := strings.Index(said.String(), "init bakeoff/base/"); own < 0 || own > net || own > other {
		t.Errorf("the order is\n%s", said.String())
	}
	for _, program := range []string{"bakeoff/cmd/bakeoff", "bakeoff/bench/lifecycle"} {
		out, err := exec.Command("go", "list", "-deps", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "bakeoff/cmd/bakeoff-agent/early") {
			t.Errorf("%s imports it", program)
		}
	}
}
