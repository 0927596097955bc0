package hosts

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// bareLab measures a machine over SSH, and this one, as they stand.
const bareLab = `schema: bakeoff/lab/v1
name: bare
hosts: {box: {ssh: box, dir: DIR}}
contenders:
  - {name: there, driver: machine, host: box, volumes: {/data: {backing: dir}}}
  - {name: here, driver: machine, volumes: {/data: {backing: dir}}}
baseline: there
cells:
  - {name: web, workload: http, params: {time: 1s}, primary: [throughput]}
  - {name: sha, workload: crypto, params: {algorithm: sha256, block: 16KiB, time: 20ms}}
  - {name: write, workload: files, params: {op: seq-write, size: 1MiB, time: 20ms}}
  - {name: command, workload: command, params: {argv: [sha256sum, /bin/sh]}}
design: {blocks: 1, mirror: false, budget: 5m}
`

// A bare machine over SSH runs what this one does. A run that was killed in the middle
// leaves nothing on it that clean does not end: no server, no folder.
func TestBareMachineOverSSH(t *testing.T) {
	t.Parallel()
	h, _, lab, dir := farHome(t, 1)
	text := strings.ReplaceAll(bareLab, "DIR", dir)
	write(t, lab, strings.Replace(text, "blocks: 1,", "blocks: 26,", 1)) // so that it does not end before it is killed
	cleanKilled(t, h, lab, dir)
	write(t, lab, text)
	if left := below(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}

	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", lab, "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || len(r.Missing) > 0 {
		t.Fatalf("run: exit code %d, %v, missing %+v\n%s%s", code, err, r.Missing, out, errs)
	}
	cells := map[string]bool{}
	for _, s := range r.Summaries {
		if s.N > 0 && s.Failures == 0 {
			cells[s.Contender+" "+s.Cell] = true
		}
	}
	if len(cells) != 12 { // with the twin
		t.Errorf("there are values of %v", cells)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
	if left := below(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}

	// A limit that nothing holds is refused, and named with what helps.
	write(t, lab, strings.ReplaceAll(strings.ReplaceAll(bareLab, "driver: machine,", "driver: machine, memory: 64MiB,"),
		"DIR", dir))
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "plan", lab)
	if said := strings.Join(strings.Fields(out+errs), " "); code == 0 || !strings.Contains(said, "limit for memory") ||
		!strings.Contains(said, "as-is: true") {
		t.Errorf("plan with a limit of memory: exit code %d\n%s%s", code, out, errs)
	}
}

// below are the command lines of processes with a path in the folder of an environment.
func below(t *testing.T, dir string) (out []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, _ := os.ReadFile(f) // it may have ended
		if line := string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})); strings.Contains(line, dir+"/state/env/") {
			out = append(out, line)
		}
	}
	return out
}
