package queue

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/queue"
	"bakeoff/lab/queue/slurmtest"
	"bakeoff/reach/conn/sshtest"
)

// hosts lists the hosts by their names.
func (p *person) hosts() map[string]queue.HostState {
	p.t.Helper()
	out, errs, err := p.bakeoff("hosts", "list", "--json")
	var list struct{ Hosts []queue.HostState }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		p.t.Fatalf("%v in %s%s", err, out, errs)
	}
	if err != nil {
		p.t.Fatalf("hosts list: %v\n%s", err, errs)
	}
	all := map[string]queue.HostState{}
	for _, h := range list.Hosts {
		all[h.Name] = h
	}
	return all
}

func (p *person) must(args ...string) string {
	p.t.Helper()
	out, errs, err := p.bakeoff(args...)
	if err != nil {
		p.t.Fatalf("bakeoff %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return out
}

// decode executes a command and reads the JSON that it prints.
func (p *person) decode(into any, args ...string) {
	p.t.Helper()
	if out := p.must(args...); json.Unmarshal([]byte(out), into) != nil {
		p.t.Fatalf("bakeoff %s printed %s", strings.Join(args, " "), out)
	}
}

// TestLabRunsOnHostsOfAPool runs a lab on two of three hosts, of which one is drained, and
// pauses, releases and cancels jobs.
func TestLabRunsOnHostsOfAPool(t *testing.T) {
	s, bakeoff := cluster(t)
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	pooled := strings.Replace(lab, "contenders:", "hosts: {box: {pool: lab, count: 2}}\ncontenders:", 1)
	pooled = strings.ReplaceAll(pooled, "driver: machine}", "driver: machine, host: box}")
	if err := os.WriteFile(filepath.Join(p.dir, "bakeoff.yaml"), []byte(pooled), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs, err := p.bakeoff("run"); err == nil || !strings.Contains(errs, "--on slurm") {
		t.Errorf("run without Slurm: %v\n%s", err, errs)
	}
	more := strings.Replace(pooled, "count: 2", "count: 4", 1)
	if err := os.WriteFile(filepath.Join(p.dir, "more.yaml"), []byte(more), 0o644); err != nil {
		t.Fatal(err)
	}
	_, errs, err := p.bakeoff("run", "more.yaml", "--on", "slurm")
	if err == nil || !strings.Contains(errs, "has 3 hosts") {
		t.Errorf("four of three hosts: %v\n%s", err, errs)
	}
	var drained struct{ Hosts []queue.HostState }
	p.decode(&drained, "hosts", "drain", "bk2", "--reason", "a fan fails", "--json")
	if len(drained.Hosts) != 1 || drained.Hosts[0].Name != "bk2" || drained.Hosts[0].Up() {
		t.Errorf("hosts drain --json: %+v", drained.Hosts)
	}
	if h := p.hosts()["bk2"]; h.Up() || h.Reason != "a fan fails" || h.Pools[0] != "lab" {
		t.Errorf("drained: %+v", h)
	}
	if h := p.hosts()["bsd1"]; !h.Up() || h.Pools[0] != "proxy" || h.On != "px1" {
		t.Errorf("a host that cannot run slurmd: %+v", h)
	}
	p.must("run", "--on", "slurm", "--detach")
	first := p.jobs()[0].UUID[:8]
	p.must("queue", "wait")
	used := map[string]bool{}
	for _, j := range p.jobs() {
		if j.State != queue.Done || *j.Code != 0 {
			t.Errorf("job %s is %s: %s", j.UUID, j.State, j.Reason)
		}
		used[j.Hosts[0]] = true
	}
	if len(used) != 2 || used["bk2"] {
		t.Errorf("the lab ran on %v, not on bk1 and bk3", used)
	}
	var fleet struct {
		Labs []struct {
			Registered *int `json:"registered_machines"`
			Machines   []struct{ Name string }
		}
	}
	p.decode(&fleet, "fleet", "runs", "--json")
	if l := fleet.Labs; len(l) != 1 || l[0].Registered == nil || *l[0].Registered != 2 || len(l[0].Machines) != 2 ||
		l[0].Machines[0].Name != "bk1" || l[0].Machines[1].Name != "bk3" {
		t.Errorf("fleet: %+v", fleet)
	}
	var resumed struct{ Hosts []queue.HostState }
	if p.decode(&resumed, "hosts", "resume", "bk2", "--json"); len(resumed.Hosts) != 1 || resumed.Hosts[0].Name != "bk2" {
		t.Errorf("hosts resume --json: %+v", resumed.Hosts)
	}
	for end := time.Now().Add(2 * time.Minute); !p.hosts()["bk2"].Up(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) { // slurmctld asks the node first
			t.Fatalf("resumed: %+v", p.hosts()["bk2"])
		}
	}
	if _, _, err := p.bakeoff("queue", "retry", first); err == nil {
		t.Error("a job that is done is retried")
	}
	if text := p.must("queue", "show", first); !strings.Contains(text, "accepted by Slurm as job") {
		t.Errorf("show: %s", text)
	}
	p.changes()
}

// changes pauses, cancels and retries jobs that wait.
func (p *person) changes() {
	t := p.t
	t.Helper()
	p.must("hosts", "drain", "bk1", "--reason", "test")
	p.must("hosts", "drain", "bk2", "--reason", "test")
	p.must("hosts", "drain", "bk3", "--reason", "test")
	p.must("run", "--on", "slurm", "--detach")
	var open []string
	for _, j := range p.jobs() {
		if !j.Over() {
			open = append(open, j.UUID[:8])
			if j.State != queue.Waiting || !strings.Contains(j.Reason, "bk1 is drained (test)") {
				t.Errorf("while all hosts are drained, the job is %s: %s", j.State, j.Reason)
			}
		}
	}
	for i, do := range []string{"pause", "cancel"} {
		var changed struct{ Jobs []queue.Job }
		p.decode(&changed, "queue", do, open[i], "--json")
		want := []string{queue.Paused, queue.Canceled}[i]
		if len(changed.Jobs) != 1 || changed.Jobs[0].UUID[:8] != open[i] || changed.Jobs[0].State != want {
			t.Errorf("queue %s --json: %+v", do, changed.Jobs)
		}
	}
	p.must("hosts", "resume", "bk1", "bk2", "bk3")
	if _, errs, err := p.bakeoff("queue", "wait", open[1]); err == nil {
		t.Errorf("waiting for a canceled job succeeds: %s", errs)
	}
	var retried struct{ Jobs []queue.Job }
	p.decode(&retried, "queue", "retry", open[0], "--json")
	if len(retried.Jobs) != 1 || retried.Jobs[0].State == queue.Paused {
		t.Errorf("queue retry --json: %+v", retried.Jobs)
	}
	p.must("queue", "wait", open[0])
	for _, j := range p.jobs() {
		want := map[string]string{open[0]: queue.Done, open[1]: queue.Canceled}[j.UUID[:8]]
		if want != "" && j.State != want {
			t.Errorf("job %s is %s, not %s: %+v", j.UUID, j.State, want, j.Events)
		}
	}
}

// pair compares two web servers on one host, with load from another.
const pair = `schema: bakeoff/lab/v1
name: pair
hosts: {server: {pool: lab}, client: {pool: lab}}
generator: client
contenders: [{name: a, driver: machine, host: server}, {name: b, driver: machine, host: server}]
baseline: a
cells: [{name: page, workload: http, params: {time: 1s, warmup: 50ms, connections: 2}}]
design: {blocks: 2, looks: [2]}
`

// TestPairs runs two labs, each on a pair of hosts of which one makes the load. Each host is
// this machine, reached over a real sshd.
func TestPairs(t *testing.T) {
	e2e.NeedsRoot(t)
	s, bakeoff := cluster(t)
	sshd := sshtest.Start(t)
	config, err := os.ReadFile(sshd.Config)
	if err != nil {
		t.Fatal(err)
	}
	names := "Host " + strings.Join(slurmtest.Nodes, " ")
	if err := os.WriteFile(s.SSHConfig(), []byte(strings.Replace(string(config), "Host "+sshtest.Target, names, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := newPerson(t, s, bakeoff, "ann", nil, 10*time.Minute)
	if err := os.WriteFile(filepath.Join(p.dir, "bakeoff.yaml"), []byte(pair), 0o644); err != nil {
		t.Fatal(err)
	}
	p.must("run", "--on", "slurm", "--detach")
	p.must("run", "--on", "slurm", "--detach")
	p.must("queue", "wait")
	jobs := p.jobs()
	for _, j := range jobs {
		if j.State != queue.Done || j.Code == nil || *j.Code != 0 || len(j.Hosts) != 2 || j.Hosts[0] == j.Hosts[1] {
			t.Errorf("job %s on %v is %s, code %v: %s", j.UUID, j.Hosts, j.State, j.Code, j.Reason)
			text, _ := os.ReadFile(filepath.Join(p.dir, "state", "queue", "ended", j.UUID, "log.txt"))
			t.Logf("%s", text)
		}
	}
	if len(jobs) != 2 {
		t.Errorf("there are %d jobs, not 2", len(jobs))
	}
}
