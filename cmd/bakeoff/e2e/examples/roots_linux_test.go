package examples

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// TestRootsNamesWhatIsMissing plans the comparison of installed disks, which no machine has at
// first: the disk, or the machine that does not answer, is named.
func TestRootsNamesWhatIsMissing(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	for lab, missing := range map[string]string{
		"bakeoff.yaml":  "/var/lib/bakeoff/roots/ext4.raw does not exist",
		"machines.yaml": "root@ext4.example",
	} {
		file, err := filepath.Abs("../../../../examples/roots/" + lab)
		if err != nil {
			t.Fatal(err)
		}
		out, errs, code := h.Bakeoff(t, 2*time.Minute, "plan", file)
		if code == 0 || !strings.Contains(errs, "the baseline ext4 cannot run here: ") || !strings.Contains(errs, missing) {
			t.Errorf("%s: exit code %d, and %q is not in\n%s%s", lab, code, missing, out, errs)
		}
	}
}
