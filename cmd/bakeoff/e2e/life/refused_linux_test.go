package life

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// The exit codes, which are promises to scripts.
const (
	exitDone    = 0
	exitFailed  = 1
	exitMissing = 4
)

// What plan says of a lab is what run then does: the same exit code and the same
// words, and a run that is refused leaves no folder and nothing else.
func TestPlanEndsAsRunDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: the driver host makes control groups")
	}
	h := e2e.New(t)
	const tail = `baseline: host
cells:
  - {name: sha, workload: crypto, params: {algorithm: sha256, time: 20ms}, primary: true}
design: {blocks: 1}
`
	for _, tt := range []struct {
		name, contenders, said string
		code                   int
	}{
		{"all", "  - {name: host, driver: host}\n  - {name: again, driver: host, tuning: {net.core.somaxconn: \"16\"}}\n", "",
			exitDone},
		{"third", "  - {name: host, driver: host}\n  - {name: again, driver: host}\n  - {name: third, " +
			"driver: host, cpus: 1000}\n",
			"it asks for 1000 CPUs (third.yaml:6:39), but its host has", exitMissing},
		{"nobase", "  - {name: host, driver: host, tuning: {net.core.no_such_setting: \"1\"}}\n  - " +
			"{name: again, driver: host}\n",
			"the baseline host cannot run here: unavailable: tuning net.core.no_such_setting: the kernel has no such setting " +
				"in a network namespace; remove it", exitFailed},
		{"disk", "  - {name: host, driver: host}\n  - {name: again, driver: host, volumes: {/d: {backing: " +
			"\"file:ext4\", size: 9000TiB}}}\n",
			"its volumes (disk.yaml:5:42) need 9000TiB in ", exitFailed},
	} {
		lab := filepath.Join(h.Dir, tt.name+".yaml")
		text := "schema: bakeoff/lab/v1\nname: " + tt.name + "\ncontenders:\n" + tt.contenders + tail
		if err := os.WriteFile(lab, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		runs := filepath.Join(h.Dir, "runs-"+tt.name)
		for _, args := range [][]string{{"plan", lab}, {"run", lab, "--out", runs}} {
			out, errs, code := h.Bakeoff(t, 3*time.Minute, args...)
			said := strings.Join(strings.Fields(out+errs), " ")
			if code != tt.code || args[0] == "run" && !strings.Contains(said, tt.said) {
				t.Errorf("%s %s: exit code %d, want %d and %q\n%s%s", args[0], tt.name, code, tt.code, tt.said, out, errs)
			}
		}
		if _, err := os.Stat(runs); (err == nil) != (tt.code == exitDone || tt.code == exitMissing) {
			t.Errorf("%s: the folder of the run: %v", tt.name, err)
		}
	}
	h.LeavesNothing(t)
}
