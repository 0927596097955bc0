package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/queue"
	"bakeoff/lab/queue/slurmtest"
	"bakeoff/lab/store"
)

// span is when a run began and ended.
func span(t *testing.T, j queue.Job) (began, ended time.Time) {
	t.Helper()
	lines := e2e.Journal(t, filepath.Join(j.Folder, store.JournalFile))
	return lines[0].At, lines[len(lines)-1].At
}

// ended checks that all jobs of a person ended, and returns them.
func (p *person) ended() []queue.Job {
	p.t.Helper()
	jobs := p.jobs()
	for _, j := range jobs {
		if j.State != queue.Done || j.Code == nil || *j.Code != 0 {
			p.t.Errorf("%s: job %s on %v is %s, code %v: %s", p.name, j.UUID, j.Hosts, j.State, j.Code, j.Reason)
			for _, e := range j.Events {
				p.t.Log(e.At.Format("15:04:05.000"), e.Text)
			}
			p.t.FailNow()
		}
	}
	return jobs
}

// partition changes the state of a partition.
func partition(t *testing.T, s *slurmtest.Slurm, name, state string) {
	t.Helper()
	if out, err := s.Command("scontrol", "update", "PartitionName="+name, "State="+state).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Two users take turns on a host, although one of them submitted all labs first.
func TestUsersTakeTurns(t *testing.T) {
	e2e.NeedsRoot(t) // which may act as two users
	s, bakeoff := cluster(t)
	alice := newPerson(t, s, bakeoff, "alice", nil, 10*time.Minute)
	bob := newPerson(t, s, bakeoff, "bob", &syscall.Credential{Uid: 5, Gid: 60}, 10*time.Minute)
	alice.must("hosts", "drain", "bk2", "bk3", "--reason", "test")
	partition(t, s, "lab", "down") // it accepts jobs, and starts none
	const labs = 3
	for _, p := range []*person{alice, bob} {
		for k := range labs {
			p.submit(k)
		}
	}
	partition(t, s, "lab", "up")
	type turn struct {
		who string
		at  time.Time
	}
	var turns []turn
	for _, p := range []*person{alice, bob} {
		p.finish(labs)
		for _, j := range p.ended() {
			at, _ := span(t, j)
			turns = append(turns, turn{p.name + " " + j.Order.Labels["n"], at})
			if !slices.Equal(j.Hosts, []string{"bk1"}) {
				t.Errorf("%s ran on %v", p.name, j.Hosts)
			}
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) })
	var order []string
	for _, x := range turns {
		order = append(order, x.who)
	}
	want := "alice 0, bob 0, alice 1, bob 1, alice 2, bob 2"
	if got := strings.Join(order, ", "); got != want {
		t.Errorf("the order is %s, not %s", got, want)
	}
}

// A job whose host cannot prepare it moves to another host, and its history says why.
func TestPrologFails(t *testing.T) {
	s, bakeoff := cluster(t)
	patience(t, s, "3s")
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	if err := s.BreakProlog("bk1"); err != nil {
		t.Fatal(err)
	}
	p.must("hosts", "drain", "bk2", "bk3", "--reason", "test") // so that the job gets bk1
	p.submit(0)
	p.must("hosts", "resume", "bk2", "bk3")
	p.finish(1)
	j := p.ended()[0]
	if slices.Contains(j.Hosts, "bk1") || j.Submitted < 2 {
		t.Errorf("it ran on %v, submitted %d times", j.Hosts, j.Submitted)
	}
	if !slices.ContainsFunc(j.Events, func(e queue.Event) bool {
		return strings.Contains(e.Text, "bk1") && strings.Contains(strings.ToLower(e.Text), "prolog")
	}) {
		t.Errorf("no event says why it left bk1: %+v", j.Events)
	}
	if h := p.hosts()["bk1"]; h.Up() || !strings.Contains(strings.ToLower(h.Reason), "prolog") {
		t.Errorf("the host is %+v", h)
	}
}

// Labs run on hosts that cannot run slurmd: each is a license, answers as FreeBSD does, and is
// reached over a real sshd from the node that stands for it. Two labs never use one host at the
// same time.
func TestLicensesOverSSH(t *testing.T) {
	e2e.NeedsRoot(t)
	s, bakeoff := cluster(t)
	machines := startBSDs(t, s)
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	held := strings.ReplaceAll(far, "driver: machine,", "driver: machine, cpus: 1,")
	if err := os.WriteFile(filepath.Join(p.dir, "bakeoff.yaml"), []byte(held), 0o644); err != nil {
		t.Fatal(err)
	}
	// Each lab gets the host with the fewest jobs, so none may end before all are submitted.
	partition(t, s, "proxy", "down")
	const labs = 4
	for k := range labs {
		p.must("run", "--on", "slurm", "--detach", "--label", fmt.Sprint("n=", k))
	}
	partition(t, s, "proxy", "up")
	p.finish(labs)
	type use struct{ began, ended time.Time }
	used := map[string][]use{}
	for _, j := range p.ended() {
		began, ended := span(t, j)
		if len(j.Hosts) != 1 {
			t.Fatalf("a job ran on %v", j.Hosts)
		}
		for _, other := range used[j.Hosts[0]] {
			if began.Before(other.ended) && other.began.Before(ended) {
				t.Errorf("two runs used %s at the same time: %v to %v, and %v to %v", j.Hosts[0], began, ended, other.began,
					other.ended)
			}
		}
		used[j.Hosts[0]] = append(used[j.Hosts[0]], use{began, ended})
		for file, want := range map[string]string{store.PlanFile: "root@" + j.Hosts[0],
			store.JournalFile: `"system":"freebsd"`, "report/index.html": "short"} {
			text, err := os.ReadFile(filepath.Join(j.Folder, file))
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s of %s does not name %s: %v", file, j.Folder, want, err)
			}
		}
		p.must("verify", j.Folder)
	}
	if len(used["bsd1"]) != labs/2 || len(used["bsd2"]) != labs/2 {
		t.Errorf("the hosts were used %d and %d times", len(used["bsd1"]), len(used["bsd2"]))
	}
	p.checkOnce(s, labs)
	for name, dir := range machines {
		said, err := os.ReadFile(filepath.Join(dir, "used"))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"uname -s", "ps -axeww"}
		if runtime.NumCPU() > 1 {
			want = append(want, "cpuset -l ")
		}
		for _, command := range want {
			if !strings.Contains(string(said), command) {
				t.Errorf("%s did not execute %s: %s", name, command, said)
			}
		}
		t.Logf("%s: %d runs, %d commands of FreeBSD", name, len(used[name]), strings.Count(string(said), "\n"))
		if left, _ := filepath.Glob(filepath.Join(dir, "state", "bakeoff", "env", "*")); len(left) > 0 {
			t.Errorf("%s keeps %q", name, left)
		}
	}
}
