package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/queue"
	"bakeoff/lab/queue/slurmtest"
	"bakeoff/lab/store"
)

// lab is short: two blocks of a contender and its baseline, without a verdict.
const lab = `schema: bakeoff/lab/v1
name: short
contenders: [{name: a, driver: machine}, {name: b, driver: machine}]
baseline: a
cells: [{name: sha, workload: crypto, params: {time: 10ms}}]
design: {blocks: 2, looks: [2]}
`

// person is somebody who submits labs.
type person struct {
	t     *testing.T
	name  string
	dir   string
	env   []string
	as    *syscall.Credential // nil: who runs the test
	start string              // bakeoff
	far   bool                // every fourth lab runs on a host that cannot run slurmd
	end   time.Time           // no command runs longer than this

	mu      sync.Mutex
	running map[*exec.Cmd]bool
}

// cluster starts a Slurm whose jobs execute the bakeoff under test.
func cluster(t *testing.T) (s *slurmtest.Slurm, bakeoff string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a whole Slurm")
	}
	if name := slurmtest.Missing(); name != "" {
		t.Skipf("needs %s: %s", name, slurmtest.Packages)
	}
	dir, err := os.MkdirTemp("", "bk") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // munged and a second user
		t.Fatal(err)
	}
	from := filepath.Dir(e2e.New(t).Command().Path)
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		copyProgram(t, filepath.Join(from, name), filepath.Join(dir, name))
	}
	bakeoff = filepath.Join(dir, "bakeoff")
	s, err = slurmtest.Start(t.Context(), dir, bakeoff)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s, bakeoff
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newPerson makes somebody with a state and a lab file of their own.
func newPerson(t *testing.T, s *slurmtest.Slurm, bakeoff, name string, as *syscall.Credential,
	limit time.Duration) *person {
	t.Helper()
	p := &person{t: t, name: name, dir: filepath.Join(s.Dir, name), as: as, start: bakeoff, end: time.Now().Add(limit),
		running: map[*exec.Cmd]bool{}}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "bakeoff.yaml"), []byte(lab), 0o644); err != nil {
		t.Fatal(err)
	}
	if as != nil {
		if err := os.Chown(p.dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(os.Environ(), s.Env()...)
	p.env = append(p.env, "HOME="+p.dir, "NO_COLOR=1", "BAKEOFF_STATE="+filepath.Join(p.dir, "state"),
		"BAKEOFF_CACHE="+filepath.Join(p.dir, "cache"), "BAKEOFF_LOCK="+filepath.Join(p.dir, "lock"))
	return p
}

// bakeoff executes the program; kill ends it at any moment. A program that is left when the
// person's time is over fails the test, and so does each later one.
func (p *person) bakeoff(args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithDeadline(context.Background(), p.end)
	defer cancel()
	c := exec.CommandContext(ctx, p.start, args...)
	c.Env, c.Dir = p.env, p.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	p.mu.Lock()
	if err = c.Start(); err == nil {
		p.running[c] = true
	}
	p.mu.Unlock()
	if err == nil {
		err = c.Wait()
	}
	p.mu.Lock()
	delete(p.running, c)
	p.mu.Unlock()
	if ctx.Err() != nil {
		err = fmt.Errorf("the time of the test is over: %w", ctx.Err())
	}
	return out.String(), errs.String(), err
}

// kill kills what the person has running.
func (p *person) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.running {
		_ = c.Process.Kill()
	}
}

// jobs are the jobs in the record of the person.
func (p *person) jobs() []queue.Job {
	p.t.Helper()
	for {
		out, errs, err := p.bakeoff("queue", "list", "--all", "--json")
		var list struct{ Jobs []queue.Job }
		if json.Unmarshal([]byte(out), &list) == nil { // news of Slurm may be missing
			return list.Jobs
		}
		if !killed(err) {
			p.t.Fatalf("queue list: %v\n%s%s", err, out, errs)
		}
	}
}

func killed(err error) bool {
	exit, ok := err.(*exec.ExitError)
	return ok && exit.Sys().(syscall.WaitStatus).Signaled()
}

// submit submits lab number k, once: if bakeoff was killed, it looks whether the record has
// the lab.
func (p *person) submit(k int) {
	args := []string{"run", "--on", "slurm", "--detach", "--label", fmt.Sprint("n=", k)}
	if p.far && k%4 == 1 {
		args = append(args, "far.yaml")
	} else {
		args = append(args, "--pool", "lab")
	}
	for {
		_, errs, err := p.bakeoff(args...)
		if err == nil {
			return
		}
		if !killed(err) {
			p.t.Errorf("run --on slurm: %v\n%s", err, errs)
			return
		}
		for _, j := range p.jobs() {
			if j.Order.Labels["n"] == fmt.Sprint(k) {
				return
			}
		}
	}
}

// finish waits until all n jobs have ended.
func (p *person) finish(n int) {
	for {
		out, errs, err := p.bakeoff("queue", "wait")
		if killed(err) {
			continue
		}
		if err != nil {
			p.t.Errorf("queue wait of %s: %v\n%s%s", p.name, err, out, errs)
			return
		}
		over := 0
		for _, j := range p.jobs() {
			if j.Over() {
				over++
			}
		}
		if over >= n {
			return
		}
	}
}

// TestEveryLabEndsOnce submits labs of two users and kills Slurm's controller, node daemons
// and bakeoff at random moments meanwhile. Some of the labs of root run on hosts that cannot run
// slurmd: licenses, reached over SSH from the node that stands for them, which is killed, too.
func TestEveryLabEndsOnce(t *testing.T) {
	labs, kills, limit := 3, 3, 15*time.Minute
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		labs, kills, limit = 100, 50, time.Hour
	}
	s, bakeoff := cluster(t)
	var second *syscall.Credential
	if os.Getuid() == 0 {
		second = &syscall.Credential{Uid: 5, Gid: 60} // games, on Debian; it needs no home
	}
	people := []*person{newPerson(t, s, bakeoff, "alice", nil, limit),
		newPerson(t, s, bakeoff, "bob", second, limit)}
	if os.Getuid() == 0 { // sshd lets only root in
		startBSDs(t, s)
		people[0].far = true
		people[0].writeFar()
	}
	began := time.Now()
	var work sync.WaitGroup
	for _, p := range people {
		work.Go(func() {
			for k := range labs {
				p.submit(k)
			}
			p.finish(labs)
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	var operator sync.WaitGroup
	operator.Go(func() { resume(s, newPerson(t, s, bakeoff, "operator", nil, limit), done) })
	made := disturb(t, s, people, kills, done)
	<-done
	operator.Wait()
	t.Logf("%d labs, %d kills: %v", 2*labs, made, time.Since(began).Round(time.Second))
	for _, p := range people {
		p.checkOnce(s, labs)
		hosts := map[string]int{}
		for _, j := range p.jobs() {
			hosts[strings.Join(j.Hosts, ",")]++
		}
		t.Logf("%s: %v", p.name, hosts)
		if far := hosts["bsd1"] + hosts["bsd2"]; p.far && far != (labs+2)/4 {
			t.Errorf("%d labs ran on hosts that cannot run slurmd, not %d", far, (labs+2)/4)
		}
	}
}

// disturb kills something at random moments until the work is done, or n times.
func disturb(t *testing.T, s *slurmtest.Slurm, people []*person, n int, done <-chan struct{}) (made int) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	start := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for ; made < n; made++ {
		select {
		case <-done:
			return made
		case <-time.After(time.Duration(200+random.IntN(4000)) * time.Millisecond):
		}
		switch made % 3 {
		case 0:
			s.KillController()
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			start(s.StartController())
		case 1:
			people[random.IntN(len(people))].kill()
		case 2:
			node := slurmtest.Nodes[random.IntN(len(slurmtest.Nodes))]
			s.KillNode(node)
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			start(s.StartNode(node))
		}
	}
	return made
}

// resume does what docs/guides/cluster.md asks of an operator: a controller that was killed
// before it saved its state gives the numbers of lost jobs to others, and slurmd drains its
// node when the number of a job comes a second time.
func resume(s *slurmtest.Slurm, p *person, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(500 * time.Millisecond):
		}
		// While the controller is dead, sinfo lists nothing and resume fails: the next round comes.
		out, _ := s.Command("sinfo", "--noheader", "--Node", "--format=%N|%T|%E").Output()
		for line := range strings.Lines(string(out)) {
			node, rest, _ := strings.Cut(line, "|")
			if state, reason, _ := strings.Cut(rest, "|"); strings.Contains(state, "drain") &&
				strings.HasPrefix(reason, "Duplicate jobid") {
				_, errs, err := p.bakeoff("hosts", "resume", node)
				p.t.Logf("resume %s: %v %s", node, err, errs)
			}
		}
	}
}

// checkOnce checks that each lab of a person ended, once: in the record, among the run
// folders, on the nodes, and in the blocks of each run.
func (p *person) checkOnce(s *slurmtest.Slurm, labs int) {
	t := p.t
	t.Helper()
	jobs := p.jobs()
	seen := map[string]int{}
	for _, j := range jobs {
		seen[j.Order.Labels["n"]]++
		if j.State != queue.Done || j.Code == nil || *j.Code != 0 || j.Folder == "" {
			t.Errorf("%s: job %s is %s, code %v, folder %q: %s", p.name, j.UUID, j.State, j.Code, j.Folder, j.Reason)
			for _, e := range j.Events {
				t.Log(e.At.Format("15:04:05.000"), e.Text)
			}
			continue
		}
		if n := blocks(t, j.Folder); n != 2 {
			t.Errorf("%s: %s has %d blocks that count, not 2", p.name, j.Folder, n)
		}
		results, _ := filepath.Glob(filepath.Join(s.Dir, "node", "*", "state", "queue", "host", j.UUID, "result.json"))
		if len(results) != 1 {
			t.Errorf("%s: job %s has %d results on the nodes, not 1: %q", p.name, j.UUID, len(results), results)
		}
	}
	if len(jobs) != labs || len(seen) != labs {
		t.Errorf("%s: the record has %d jobs of %d labs, not %d", p.name, len(jobs), len(seen), labs)
	}
	folders, _ := filepath.Glob(filepath.Join(p.dir, "runs", "*", store.JournalFile))
	if len(folders) != labs {
		t.Errorf("%s: there are %d run folders, not %d", p.name, len(folders), labs)
	}
}
