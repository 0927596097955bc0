package hosts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/reach/conn/sshtest"
)

// What a driver or a workload needs is looked for on the machine of the
// contender: here crun and nginx, which this machine may well have and the
// other one has not.
func TestMissingThere(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+s.Config)
	bin, dir := t.TempDir(), t.TempDir()
	const programs = "sh uname id cat wc mkdir chmod mv rm mount umount printenv unshare ip kill"
	for p := range strings.FieldsSeq(programs) {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, p)); err != nil {
			t.Fatal(err)
		}
	}
	s.Environ("PATH=" + bin)
	lab := filepath.Join(h.Dir, "there.yaml")
	text := `schema: bakeoff/lab/v1
name: there
hosts: {box: {ssh: box, dir: ` + dir + `}}
contenders:
  - {name: bare, driver: host, host: box}
  - {name: crun, driver: oci, image: "debian:bookworm", host: box}
  - {name: many, driver: host, host: box, cpus: 1000}
baseline: bare
cells:
  - {name: sha, workload: crypto, params: {algorithm: sha256, time: 20ms}, primary: true}
  - {name: page, workload: wrk}
`
	if err := os.WriteFile(lab, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", lab, "--json")
	var p struct {
		Available []struct {
			Contender string
			Answer    struct {
				OK                 bool
				Reason, Fix        string
				Programs, Packages []string
			}
		}
		Missing   []struct{ Name, Text, Fix string }
		InstallOn map[string]string `json:"install_on"`
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != 1 || len(p.Available) != 3 {
		t.Fatalf("plan: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	crun := p.Available[1].Answer
	if os.Getuid() == 0 && (crun.OK || crun.Reason != "not installed: crun" ||
		strings.Join(crun.Programs, " ") != "crun") {
		t.Errorf("crun there: %+v", crun)
	}
	many := p.Available[2].Answer
	if os.Getuid() == 0 && (many.OK || !strings.Contains(many.Reason, "asks for 1000 CPUs")) {
		t.Errorf("a thousand CPUs there: %+v", many)
	}
	found := ""
	for _, m := range p.Missing {
		if strings.HasSuffix(m.Text, ", on box") {
			found += " " + m.Name
		}
	}
	if !strings.Contains(found, " wrk") {
		t.Errorf("missing there:%s\n%s", found, out)
	}
	if line := p.InstallOn["box"]; !strings.Contains(line, "wrk") || os.Getuid() == 0 && !strings.Contains(line, "crun") {
		t.Errorf("to install on the box: %q", line)
	}

	out, errs, code = h.Bakeoff(t, 3*time.Minute, "doctor", "--hosts", lab)
	if code != 0 || !strings.Contains(out, "Host box (box, ") || !strings.Contains(out, "to install there: ") {
		t.Errorf("doctor: exit code %d\n%s%s", code, out, errs)
	}
	s.Stop()
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "doctor", "--hosts", lab, "--json")
	if code != 0 || !strings.Contains(out, `"name":"connection","state":"missing"`) {
		t.Errorf("doctor of a machine that is not reached: exit code %d\n%s%s", code, out, errs)
	}
}
