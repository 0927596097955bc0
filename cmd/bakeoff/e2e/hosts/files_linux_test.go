package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/reach/conn/sshtest"
)

// Files of the controller are on another host too: placed on its own root, and in a
// derived image that is sent there.
func TestFilesOverSSH(t *testing.T) {
	e2e.NeedsRoot(t)
	s := sshtest.Start(t)
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	lab := `schema: bakeoff/lab/v1
name: far
hosts: {box: {ssh: box, dir: ` + filepath.Join(t.TempDir(), "box") + `}}
files: [{from: seven, to: /opt/bakeoff-seven, mode: 0755}]
contenders:
  - {name: bare, driver: host, host: box}
  - {name: chroot, driver: chroot, image: "debian:bookworm", host: box}
baseline: bare
cells: [{name: seven, workload: command, params: {argv: [/opt/bakeoff-seven], cost: last-line}, primary: [cost]}]
design: {blocks: 1, mirror: false, budget: 2m}
`
	file := filepath.Join(h.Dir, "bakeoff.yaml")
	for name, text := range map[string]string{file: lab, filepath.Join(h.Dir, "seven"): "#!/bin/sh\necho 7\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, code := h.Example(t, file, "--seed", "5")
	if code != 0 || len(r.Missing) > 0 {
		t.Errorf("exit code %d, missing %+v", code, r.Missing)
	}
	for _, name := range []string{"bare", "chroot"} {
		seen := false
		for _, s := range r.Summaries {
			seen = seen || s.Contender == name && s.Metric == "cost" && s.Median != nil && *s.Median == 7
		}
		if !seen {
			t.Errorf("%s did not print 7", name)
		}
	}
	if _, err := os.Lstat("/opt/bakeoff-seven"); !os.IsNotExist(err) {
		t.Errorf("the file is on the host: %v", err)
	}
	h.LeavesNothing(t)
}
