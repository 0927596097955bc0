package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/shell"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/queue"
	"bakeoff/lab/queue/slurmtest"
	"bakeoff/lab/store"
)

// long gives a person a lab of n blocks, each of which takes about a second.
func (p *person) long(n int) {
	p.t.Helper()
	text := strings.NewReplacer("10ms", "200ms", "{blocks: 2, looks: [2]}", fmt.Sprintf("{blocks: %d, looks: [%d]}", n,
		n)).Replace(lab)
	if err := os.WriteFile(filepath.Join(p.dir, "bakeoff.yaml"), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// blocks counts the blocks of a run that count.
func blocks(t *testing.T, folder string) (n int) {
	t.Helper()
	for _, l := range e2e.Journal(t, filepath.Join(folder, store.JournalFile)) {
		if l.Type == store.LineBlock && l.Status == store.OK {
			n++
		}
	}
	return n
}

// runs waits until the only job of a person has measured two blocks, and returns the job.
func (p *person) runs(s *slurmtest.Slurm) queue.Job {
	p.t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		journals, _ := filepath.Glob(filepath.Join(s.Dir, "node", "*", "state", "queue", "host", "*", "runs", "*",
			store.JournalFile))
		if len(journals) == 1 && blocks(p.t, filepath.Dir(journals[0])) >= 2 {
			return p.jobs()[0]
		}
		if time.Now().After(end) {
			p.t.Fatalf("the run does not begin: %+v", p.jobs())
		}
	}
}

// patience sets how long hosts may be silent.
func patience(t *testing.T, s *slurmtest.Slurm, limit string) {
	t.Helper()
	text, err := os.ReadFile(s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "patience: 1m", "patience: "+limit, 1)
	if err := os.WriteFile(s.Cluster, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

func logEvents(t *testing.T, j queue.Job) {
	t.Helper()
	for _, e := range j.Events {
		t.Log(e.At.Format("15:04:05"), e.Text)
	}
}

// TestTimeLimit shortens the time limit of a job that runs, so that Slurm sends it SIGTERM: its
// run ends after a block, and the next job continues it on the same host to its end.
func TestTimeLimit(t *testing.T) {
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		t.Skip("takes minutes: set BAKEOFF_TEST_LONG=1")
	}
	s, bakeoff := cluster(t)
	p := newPerson(t, s, bakeoff, "ann", nil, 15*time.Minute)
	p.long(40)
	p.must("run", "--on", "slurm", "--pool", "lab", "--detach")
	before := p.runs(s)
	if out, err := s.Command("scontrol", "update", "JobId="+before.ID, "TimeLimit=2").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.must("queue", "wait")
	j := p.jobs()[0]
	if j.State != queue.Done || j.Code == nil || *j.Code != 0 || !slices.Equal(j.Hosts, before.Hosts) || j.Submitted < 2 {
		t.Errorf("the job is %s, code %v, on %v after %v, submitted %d times: %s", j.State, j.Code, j.Hosts, before.Hosts,
			j.Submitted, j.Reason)
	}
	if n := blocks(t, j.Folder); n != 40 {
		t.Errorf("the run has %d blocks that count, not 40", n)
	}
	logEvents(t, j)
}

// A job that runs is canceled: its run ends with a page of the blocks so far. Retry continues the
// run on its host, and the folder of the person then has the whole run.
func TestCancelAndRetry(t *testing.T) {
	s, bakeoff := cluster(t)
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	p.long(12)
	p.must("run", "--on", "slurm", "--pool", "lab", "--detach")
	uuid := p.runs(s).UUID
	p.must("queue", "cancel", uuid)
	if _, _, err := p.bakeoff("queue", "wait"); err == nil {
		t.Error("waiting for a canceled job succeeds")
	}
	part := p.jobs()[0]
	if part.State != queue.Canceled || part.Folder == "" {
		t.Fatalf("after cancel the job is %s, with the folder %q: %+v", part.State, part.Folder, part.Events)
	}
	n := blocks(t, part.Folder)
	page, err := os.ReadFile(filepath.Join(part.Folder, "report", "index.html"))
	if n < 2 || n >= 12 || err != nil || !strings.Contains(string(page), "short") {
		t.Errorf("the canceled run has %d blocks, and its page: %v", n, err)
	}
	p.must("verify", part.Folder)
	p.must("queue", "retry", uuid)
	p.must("queue", "wait")
	j := p.jobs()[0]
	if j.State != queue.Done || j.Code == nil || *j.Code != 0 || !slices.Equal(j.Hosts, part.Hosts) {
		t.Errorf("after retry the job is %s, code %v, on %v: %s", j.State, j.Code, j.Hosts, j.Reason)
	}
	if all := blocks(t, j.Folder); all != 12 {
		t.Errorf("the folder %s has %d blocks, not 12; when it was canceled it had %d in %s", j.Folder, all, n, part.Folder)
	}
	p.must("verify", j.Folder)
	if folders, _ := filepath.Glob(filepath.Join(p.dir, "runs", "*")); len(folders) != 1 {
		t.Errorf("there are the run folders %q", folders)
	}
	logEvents(t, j)
}

// A host loses its power in the middle of a run, and is silent from then on: the job moves to
// another host, and its history says why.
func TestSilentHost(t *testing.T) {
	s, bakeoff := cluster(t)
	patience(t, s, "3s")
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	p.long(12)
	p.must("run", "--on", "slurm", "--pool", "lab", "--detach")
	host := p.runs(s).Hosts[0]
	if err := errors.Join(s.Silence(host), s.Crash(host)); err != nil {
		t.Fatal(err)
	}
	p.must("queue", "wait")
	j := p.jobs()[0]
	if j.State != queue.Done || j.Code == nil || *j.Code != 0 || slices.Contains(j.Hosts, host) {
		t.Errorf("the job is %s, code %v, on %v: %s", j.State, j.Code, j.Hosts, j.Reason)
	}
	if n := blocks(t, j.Folder); n != 12 {
		t.Errorf("the run has %d blocks, not 12", n)
	}
	if !slices.ContainsFunc(j.Events, func(e queue.Event) bool {
		return strings.HasPrefix(e.Text, "to be submitted again, on another host: ") && strings.Contains(e.Text, host)
	}) {
		t.Errorf("no event says why it left %s", host)
	}
	logEvents(t, j)
}

// The controller loses everything that it knew, after two labs ended and while one waits: the
// results are collected from the hosts, and the lab that waited is submitted again.
func TestLostController(t *testing.T) {
	s, bakeoff := cluster(t)
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	const labs = 3
	for k := range labs - 1 {
		p.submit(k)
	}
	// No command collects: the results are on the hosts only.
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		results, _ := filepath.Glob(filepath.Join(s.Dir, "node", "*", "state", "queue", "host", "*", "result.json"))
		if len(results) == labs-1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the labs do not end: %q, %+v", results, p.jobs())
		}
	}
	if out, err := s.Command("scontrol", "update", "PartitionName=lab", "State=down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out) // it accepts a job, and does not start it
	}
	p.submit(labs - 1)
	if err := errors.Join(s.LoseController(), s.StartController()); err != nil {
		t.Fatal(err)
	}
	done, resumed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(resumed)
		resume(s, newPerson(t, s, bakeoff, "operator", nil, 10*time.Minute), done)
	}()
	p.finish(labs)
	close(done)
	<-resumed
	p.checkOnce(s, labs)
	for _, j := range p.ended() {
		if again := j.Order.Labels["n"] == fmt.Sprint(labs-1); again != (j.Submitted > 1) {
			t.Errorf("lab %s was submitted %d times: %+v", j.Order.Labels["n"], j.Submitted, j.Events)
		}
	}
}

// fatal is a lab whose program kills the bakeoff that measures it.
const fatal = `schema: bakeoff/lab/v1
name: fatal
contenders: [{name: a, driver: machine}, {name: b, driver: machine}]
baseline: a
cells:
  - name: kill
    workload: command
    params:
      argv:
        - sh
        - -c
        - |
          p=$PPID
          until tr '\0' ' ' </proc/$p/cmdline | grep -q 'queue node jo[b] '; do
            p=$(cut -d' ' -f4 /proc/$p/stat)
            [ "$p" -gt 1 ] || exit 1
          done
          kill -9 $p
design: {blocks: 2, looks: [2]}
`

// A lab that kills bakeoff is given up after a few attempts, with the reason, and a lab behind
// it on the same host ends.
func TestAFatalLab(t *testing.T) {
	s, bakeoff := cluster(t)
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	if err := os.WriteFile(filepath.Join(p.dir, "fatal.yaml"), []byte(fatal), 0o644); err != nil {
		t.Fatal(err)
	}
	p.must("hosts", "drain", "bk2", "bk3", "--reason", "test")
	p.must("run", "fatal.yaml", "--on", "slurm", "--pool", "lab", "--detach")
	p.submit(0)
	if _, _, err := p.bakeoff("queue", "wait"); err == nil {
		t.Error("waiting for a lab that fails succeeds")
	}
	for _, j := range p.jobs() {
		switch {
		case j.Lab == "fatal" && (j.State != queue.Failed || j.Reason == "" || j.Tries != 3):
			t.Errorf("the fatal lab is %s after %d tries: %s", j.State, j.Tries, j.Reason)
		case j.Lab != "fatal" && (j.State != queue.Done || j.Code == nil || *j.Code != 0):
			t.Errorf("the lab behind it is %s, code %v: %s", j.State, j.Code, j.Reason)
		}
		t.Logf("%s: submitted %d times, %d tries: %s", j.Lab, j.Submitted, j.Tries, j.Reason)
	}
	for _, j := range p.jobs() {
		if j.Lab == "fatal" {
			p.must("queue", "retry", j.UUID)
		}
	}
	// Nothing runs after its last attempt.
	if _, _, err := p.bakeoff("queue", "wait"); err == nil {
		t.Error("waiting for a lab that fails again succeeds")
	}
	clean := exec.Command(filepath.Join(s.Dir, "node.sh"), "clean", "--dry-run")
	clean.Env = append(os.Environ(), "SLURMD_NODENAME=bk1")
	if out, err := clean.CombinedOutput(); err != nil || len(out) == 0 || len(e2e.Leftovers(string(out))) > 0 {
		t.Errorf("the epilog left something: %v\n%s", err, out)
	}
	if h := p.hosts()["bk1"]; !h.Up() {
		t.Errorf("the host is %s: %s", h.State, h.Reason)
	}
}

// Idle hosts calibrate themselves by Slurm's health check, once, and a host that is noisier than
// the cluster file permits is drained.
func TestHealthCheck(t *testing.T) {
	s, bakeoff := cluster(t)
	text, err := os.ReadFile(s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	quiet := strings.Replace(string(text), "patience:", "noise: 0.0001\npatience:", 1)
	if err := os.WriteFile(s.Cluster, []byte(quiet), 0o644); err != nil {
		t.Fatal(err)
	}
	calibrations := filepath.Join(s.Dir, "calibrations")
	// On a busy machine, a run has too few blocks for a calibration in 15 s, and the next check starts
	// another one, which has more time.
	if err := s.Health("#!/bin/sh\n[ $SLURMD_NODENAME = bk1 ] || exit 0\nset -- $(ls " + shell.Quote(calibrations) +
		")\ncase $# in 0) budget=15s;; 1) budget=1m;; *) budget=4m;; esac\n" + shell.Quote(filepath.Join(s.Dir, "node.sh")) +
		" hosts calibrate bk1 --older 24h --detach --budget $budget --out " + shell.Quote(calibrations) +
		" >>" + shell.Quote(filepath.Join(s.Dir, "log", "health")) + " 2>&1\n"); err != nil {
		t.Fatal(err)
	}
	p := newPerson(t, s, bakeoff, "ann", nil, 15*time.Minute)
	said := func() string {
		text, _ := os.ReadFile(filepath.Join(s.Dir, "log", "health"))
		return string(text)
	}
	for end := time.Now().Add(12 * time.Minute); p.hosts()["bk1"].Up(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("bk1 is not drained: %s", said())
		}
	}
	if h := p.hosts()["bk1"]; !strings.HasPrefix(h.Reason, "noisy: ") {
		t.Errorf("bk1 is %s: %s", h.State, h.Reason)
	}
	t.Logf("bk1: %s", p.hosts()["bk1"].Reason)
	runs, _ := filepath.Glob(filepath.Join(calibrations, "*", store.JournalFile))
	calibrated := 0
	for _, run := range runs {
		n := blocks(t, filepath.Dir(run))
		t.Logf("a run has %d blocks", n)
		if n >= calibrate.Window {
			calibrated++
		}
	}
	if calibrated != 1 {
		t.Errorf("of %d runs, %d calibrated bk1: %s", len(runs), calibrated, said())
	}
	var list struct {
		Hosts []struct {
			Name  string
			Noise *float64
			Facts map[string]string
		}
	}
	p.decode(&list, "hosts", "list", "--json")
	for _, h := range list.Hosts {
		if (h.Noise != nil) != (h.Name == "bk1") {
			t.Errorf("the noise of %s is %v", h.Name, h.Noise)
		}
		if (h.Facts["kernel"] != "") != (h.Name == "bk1") {
			t.Errorf("the facts of %s are %v", h.Name, h.Facts)
		}
	}
}

// Slurm refuses what a user may not do, and gets none of the user's variables.
func TestRights(t *testing.T) {
	e2e.NeedsRoot(t) // which may act as two users
	s, bakeoff := cluster(t)
	alice := newPerson(t, s, bakeoff, "alice", nil, 10*time.Minute)
	bob := newPerson(t, s, bakeoff, "bob", &syscall.Credential{Uid: 5, Gid: 60}, 10*time.Minute)
	const secret = "hush-7d1f0c9e"
	alice.env = append(alice.env, "REGISTRY_PASSWORD="+secret)
	if out, err := s.Command("scontrol", "update", "PartitionName=lab", "State=down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out) // it accepts jobs, and starts none
	}
	alice.long(6)
	alice.submit(0)
	j := alice.jobs()[0]
	for _, args := range [][]string{{"hosts", "drain", "bk1", "--reason", "mine"}, {"hosts", "resume", "bk1"}} {
		_, errs, err := bob.bakeoff(args...)
		if err == nil || !strings.Contains(errs, "Invalid user") && !strings.Contains(errs, "ccess") {
			t.Errorf("bob: bakeoff %s: %v\n%s", strings.Join(args, " "), err, errs)
		} else {
			t.Logf("bob: bakeoff %s: %s", strings.Join(args, " "), strings.TrimSpace(errs))
		}
	}
	if _, errs, err := bob.bakeoff("queue", "cancel", j.UUID); err == nil || !strings.Contains(errs, "no job") {
		t.Errorf("bob cancels the job of alice: %v\n%s", err, errs)
	}
	c := s.Command("scancel", j.ID)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: bob.as}
	out, err := c.CombinedOutput()
	if !strings.Contains(string(out), "denied") {
		t.Errorf("bob: scancel %s: %v\n%s", j.ID, err, out)
	}
	t.Logf("bob: scancel %s: %s", j.ID, strings.TrimSpace(string(out)))
	// Slurm hides hosts that the groups of bob may not use, and refuses a job that names them.
	allow := func(groups string) {
		t.Helper()
		c := s.Command("scontrol", "update", "PartitionName=lab", "AllowGroups="+groups)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	bob.must("run", "--on", "slurm", "--pool", "lab", "--detach") // it waits: no partition starts jobs
	first := bob.jobs()[0]
	bob.must("queue", "pause", first.UUID)
	allow("root")
	_, errs, err := bob.bakeoff("run", "--on", "slurm", "--pool", "lab")
	if err == nil || !strings.Contains(errs, "no host of the pool lab") {
		t.Errorf("bob runs a lab on hosts that he may not use: %v\n%s", err, errs)
	}
	t.Logf("bob: run --on slurm: %s", strings.TrimSpace(errs))
	_, _, _ = bob.bakeoff("queue", "retry", first.UUID) // what it says is in the record
	if _, errs, err := bob.bakeoff("queue", "wait"); err == nil {
		t.Errorf("the job of bob ran: %s", errs)
	}
	for _, j := range bob.jobs() {
		if j.UUID != first.UUID || j.State != queue.Failed || j.ID != "" ||
			!strings.Contains(j.Reason, "Slurm did not accept the job") {
			t.Errorf("the job %s of bob is %s, number %q: %s", j.UUID, j.State, j.ID, j.Reason)
		}
		t.Logf("bob: queue retry: %s", j.Reason)
	}
	allow("ALL")
	if out, err := s.Command("scontrol", "show", "job", j.ID).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "Comment="+j.UUID+" \n") {
		t.Errorf("%v: the comment of the job is not its UUID:\n%s", err, out)
	}
	hides(t, s, secret)
	if out, err := s.Command("scontrol", "update", "PartitionName=lab", "State=up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	alice.runs(s)
	jobsLack(t, s, secret)
	alice.finish(1)
	alice.ended()
	hides(t, s, secret)
}

// jobsLack checks that no process of a job that runs has a text in its environment.
func jobsLack(t *testing.T, s *slurmtest.Slurm, secret string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		vars, _ := os.ReadFile(f) // the process may have ended
		if !strings.Contains(string(vars), "SLURM_CONF="+s.Conf) || !strings.Contains(string(vars), "SLURM_JOB_ID=") {
			continue
		}
		if n++; strings.Contains(string(vars), secret) {
			t.Errorf("%s has the variable of the user", f)
		}
	}
	if n == 0 {
		t.Error("no process of a job runs")
	}
	t.Logf("no variable of the user is in the environment of %d processes of the job", n)
}

// hides checks that no file of Slurm, of bakeoff or of a run has a text.
func hides(t *testing.T, s *slurmtest.Slurm, secret string) {
	t.Helper()
	files, bytes := 0, 0
	if err := filepath.WalkDir(s.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it may be gone, or a socket
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		if files, bytes = files+1, bytes+len(text); strings.Contains(string(text), secret) {
			t.Errorf("%s has the variable of the user", path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("no variable of the user is in %d files (%d bytes)", files, bytes)
}
