package queue

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"bakeoff/base/shell"
	"bakeoff/lab/queue/slurmtest"
	"bakeoff/reach/conn/sshtest"
)

// bsdPrograms are the programs of FreeBSD's base system that bakeoff may use: they do the same here.
var bsdPrograms = []string{"sh", "env", "mkdir", "rm", "mv", "cat", "ls", "test", "chmod", "wc", "ln", "cp", "sync"}

// bsdScripts are those that differ. Each refuses what FreeBSD's would not do, and each has the
// arguments of its manual.
var bsdScripts = map[string]string{
	"uname": `case "$*" in -s) echo FreeBSD ;; -m) echo ` + runtime.GOARCH + ` ;; -r) echo 14.1-RELEASE ;;
-v) echo 'FreeBSD 14.1-RELEASE releng/14.1-n267679-10e31f0946d8 GENERIC' ;; *) refuse ;; esac`,
	// An ordinary user: its folders are those of XDG, and not those of this machine.
	"id":     `[ "$*" = -u ] || refuse; echo 1001`,
	"cpuset": `[ "$1" = -l ] || refuse; shift; l=$1; shift; [ $# -gt 0 ] || refuse; exec /usr/bin/taskset -c "$l" "$@"`,
	"sysctl": `[ "$*" = '-n kern.racct.enable' ] || refuse; echo 0`,
	"ps": `[ "$*" = '-axeww -o pid= -o ppid= -o command=' ] || refuse
exec /usr/bin/ps axeww -o pid= -o ppid= -o command=`,
}

// bsdAgent builds an agent that says that its system is FreeBSD, and is of this system otherwise:
// that of FreeBSD cannot run here.
func bsdAgent(t *testing.T, to string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, dir := strings.TrimSpace(string(out)), t.TempDir()
	replace := map[string]string{}
	for _, name := range []string{"reach/agent/host.go", "reach/probe/fingerprint.go"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), "runtime.GOOS", `"freebsd"+runtime.GOOS[:0]`, 1)
		if changed == string(text) {
			t.Fatalf("%s does not name its system", name)
		}
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name)] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-trimpath", "-overlay", overlay, "-o", to, "bakeoff/cmd/bakeoff-agent")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// startBSDs starts a machine for each license of s, reached over a real sshd, that answers as
// FreeBSD does: it has FreeBSD's commands and none of Linux's. It returns the folders of the
// machines; the file "used" in each lists the commands that were executed.
func startBSDs(t *testing.T, s *slurmtest.Slurm) map[string]string {
	t.Helper()
	bsdAgent(t, filepath.Join(s.Dir, "bakeoff-agent-freebsd-"+runtime.GOARCH))
	folders, configs := map[string]string{}, ""
	for _, name := range slurmtest.Licenses {
		dir := filepath.Join(s.Dir, "bsd", name)
		bin := filepath.Join(dir, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range bsdPrograms {
			at, err := exec.LookPath(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(at, filepath.Join(bin, p)); err != nil {
				t.Fatal(err)
			}
		}
		for p, script := range bsdScripts {
			text := fmt.Sprintf("#!/bin/sh\nrefuse() { echo '%s: illegal option' >&2; exit 64; }\n"+
				"echo \"%s $*\" >>%s\n%s\n", p, p, shell.Quote(filepath.Join(dir, "used")), script)
			if err := os.WriteFile(filepath.Join(bin, p), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		sshd := sshtest.Start(t)
		sshd.Environ(fmt.Sprintf("PATH=%s XDG_CACHE_HOME=%s/cache XDG_STATE_HOME=%s/state", bin, dir, dir))
		config, err := os.ReadFile(sshd.Config)
		if err != nil {
			t.Fatal(err)
		}
		configs += strings.Replace(string(config), "Host "+sshtest.Target, "Host "+name, 1)
		folders[name] = dir
	}
	if err := os.WriteFile(s.SSHConfig(), []byte(configs), 0o600); err != nil {
		t.Fatal(err)
	}
	return folders
}

// far is the lab on a host that cannot run slurmd.
var far = strings.NewReplacer("contenders:", "hosts: {box: {pool: proxy}}\ncontenders:", "driver: machine}",
	"driver: machine, host: box}").Replace(lab)

// writeFar gives a person the lab file far.yaml.
func (p *person) writeFar() {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "far.yaml"), []byte(far), 0o644); err != nil {
		p.t.Fatal(err)
	}
}
