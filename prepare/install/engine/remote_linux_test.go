package engine

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/base/suite"
	"bakeoff/reach/conn/sshtest"
)

// programs are bakeoff and its agent, built where make test did not build them.
func programs(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(suite.Programs); dir != "" {
		return dir
	}
	dir := t.TempDir()
	c := exec.Command("go", "build", "-trimpath", "-o", dir, "bakeoff/cmd/bakeoff", "bakeoff/cmd/bakeoff-agent")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// remote is a machine behind a real sshd, whose sessions run in its mount namespace.
type remote struct {
	*machine
	server         *sshtest.Server
	program, state string
}

func newRemote(t *testing.T, m *machine) *remote {
	t.Helper()
	r := &remote{m, sshtest.Start(t), programs(t) + "/bakeoff", t.TempDir()}
	script := "#!/bin/sh\nexec nsenter --mount --target \"$(cat " + m.dir + "/holder)\" -- env PATH=" + m.bin +
		":/usr/sbin:/usr/bin:/sbin:/bin " + strings.Join(m.env(), " ") + " sh -c \"$SSH_ORIGINAL_COMMAND\"\n"
	if err := os.WriteFile(m.dir+"/session", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r.server.Force(m.dir + "/session")
	t.Cleanup(r.server.Stop)
	return r
}

func (r *remote) on() {
	r.t.Helper()
	r.powerOn()
	if err := os.WriteFile(r.dir+"/holder", []byte(strconv.Itoa(r.holder.Process.Pid)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *remote) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.program, append([]string{"install"}, args...)...)
	// A killed command leaves its SSH connection in TMPDIR, where "bakeoff clean" of another test would find it.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.state, "BAKEOFF_STATE=" + r.state,
		"BAKEOFF_CACHE=" + r.state, "BAKEOFF_SSH_CONFIG=" + r.server.Config, "TMPDIR=" + r.state}
	return cmd
}

// quiet waits until nothing runs in the namespace of the machine but its holder: what a
// controller started there has ended.
func (r *remote) quiet() {
	r.t.Helper()
	own, err := os.Readlink("/proc/" + strconv.Itoa(r.holder.Process.Pid) + "/ns/mnt")
	if err != nil {
		r.t.Fatal(err)
	}
	var left []string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = nil
		all, _ := filepath.Glob("/proc/[0-9]*/ns/mnt")
		for _, ns := range all {
			pid := strings.Split(ns, "/")[2]
			if to, err := os.Readlink(ns); err == nil && to == own && pid != strconv.Itoa(r.holder.Process.Pid) {
				line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
				left = append(left, string(line))
			}
		}
		if len(left) == 0 {
			return
		}
	}
	r.t.Fatalf("%q do not end", left)
}

// inJournal reports whether the journal has an event of a step.
func inJournal(record, event, step string) (found bool) {
	b, _ := os.ReadFile(record + "/journal.ndjson")
	for line := range strings.Lines(string(b)) {
		var l Line
		found = found || json.Unmarshal([]byte(line), &l) == nil && l.Event == event && l.Step == step
	}
	return found
}

// until runs a command until the journal says that a step began, and then calls a function.
func (r *remote) until(record, step string, do func(cmd *exec.Cmd), args ...string) {
	r.t.Helper()
	cmd := r.command(args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(5 * time.Minute)
	for done := false; !done; {
		done = inJournal(record, eventStart, step)
		select {
		case err := <-ended:
			if !done {
				r.t.Fatalf("ended before %s: %v\n%s", step, err, said.String())
			}
			ended <- err
		case <-deadline:
			r.t.Fatalf("%s does not begin\n%s", step, said.String())
		case <-time.After(time.Millisecond):
		}
	}
	do(cmd)
	<-ended
	r.quiet()
}

// TestRemote installs a machine over SSH with the program itself: the controller is killed, the
// connection is cut, the machine loses its power, and undo releases what was taken. The end is that
// of an installation without all this.
func TestRemote(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device over SSH")
	}
	m := newMachine(t, 1)
	r := newRemote(t, m)
	p := m.plan(strings.NewReplacer("desktop: true\n", "", "flatpak: true\n", "").Replace(voidSpec))
	m.powerOn()
	if out, err := m.run(m.begin(p, "straight")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := m.endState()
	m.powerOff()
	m.blank()

	r.on()
	before := m.taken()
	text, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(m.dir+"/plan.json", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	record, host := m.dir+"/remote", []string{"--host", sshtest.Target}
	kill := func(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
	resume := append([]string{"resume", record}, host...)
	apply := []string{"apply", "--plan", m.dir + "/plan.json", "--confirm", p.Hash, "--dir", record}
	r.until(record, "partition", kill, append(apply, host...)...)
	r.until(record, "pool", kill, resume...)
	r.until(record, "base", func(*exec.Cmd) { r.server.Cut() }, resume...)
	// On a busy machine the connection can be cut, or the controller be killed, long after the step
	// began: then nothing may be left for undo.
	late := inJournal(record, eventStart, "copy-hostid")
	r.until(record, "copy-hostid", kill, resume...)
	late = late || inJournal(record, eventEnd, "")
	if !late && m.taken() == before {
		t.Error("the killed installation holds nothing that undo could release")
	}
	said, err := r.command(append([]string{"undo", record}, host...)...).CombinedOutput()
	if !late && (err != nil || !strings.Contains(string(said), "released\n")) {
		t.Errorf("%v\n%s", err, said)
	}
	if left := m.taken(); left != before {
		t.Errorf("undo left behind:\n%s", left)
	}
	r.until(record, "luks", kill, resume...)
	m.powerOff()
	r.on()
	r.until(record, "loader", kill, resume...)
	out, err := r.command(resume...).CombinedOutput()
	// The few steps after loader may have been done when the kill came.
	if late := strings.Contains(string(out), "the installation has ended"); !late && (err != nil ||
		!strings.Contains(string(out), "installed; ")) {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := m.endState(); got != want {
		t.Errorf("the end differs:\n%s", firstDifference(want, got))
	}
	out, err = r.command(append([]string{"verify", record}, host...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0 differences") {
		t.Errorf("%v\n%s", err, out)
	}
	r.quiet()
	m.noSecrets()
}
