package examples

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
)

// The lab file that docs/guides/commands.md shows runs as it stands there: one block of
// it gives every figure.
func TestTheCommandOfTheDocs(t *testing.T) {
	e2e.NeedsRoot(t)
	if _, err := exec.LookPath("crun"); err != nil {
		t.Skip("needs crun: apt-get install crun")
	}
	text, err := os.ReadFile("../../../../docs/guides/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lab, _ := strings.Cut(string(text), "```yaml\n")
	lab, _, ok := strings.Cut(lab, "```\n")
	if !ok {
		t.Fatal("docs/guides/commands.md shows no lab file")
	}
	h := e2e.New(t)
	path := filepath.Join(h.Dir, "bakeoff.yaml")
	if err := os.WriteFile(path, []byte(lab), 0o644); err != nil {
		t.Fatal(err)
	}
	// A budget that is over when the first block is.
	out, errs, code := h.Bakeoff(t, e2e.RunLimit, "run", path, "--json", "--budget", "1s", "--seed", "3")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, errs)
	}
	for _, m := range r.Missing {
		t.Errorf("%s at %s: %s", m.Contender, m.Cell, m.Reason)
	}
	if code != 0 || r.Blocks != 1 {
		t.Errorf("exit code %d after %d blocks\n%s", code, r.Blocks, errs)
	}
}
