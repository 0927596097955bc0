package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
)

// picture is what Slurm knows at the beginning of a round.
type picture struct {
	at      time.Time
	entries map[string][]Entry // by UUID
	nodes   []Node
	byName  map[string]Node
	pools   map[string][]string // hosts by pool, once asked for
	load    map[string]int      // jobs by node, and by license
	mine    int                 // jobs of this record that Slurm has
	groups  map[string][]string
}

// Round takes each job of the record that has not ended a step further: it submits those
// that Slurm does not have, and collects those that ended. Jobs that another process works
// on are left to it. The error says that Slurm did not answer; a job's own troubles are in
// its Reason.
func (q *Queue) Round(ctx context.Context) error {
	jobs, damaged := q.Jobs(false)
	if len(jobs) == 0 {
		return damaged
	}
	p, err := q.askSlurm(ctx, jobs)
	if err != nil {
		return errors.Join(err, damaged)
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h, err := q.lockJob(ctx, j.UUID, false)
		if errors.Is(err, errBusy) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = q.stepJob(ctx, h, p)
			h.release()
		}
		if err != nil && ctx.Err() == nil {
			q.note("job %s: %v", j.UUID[:8], err)
		}
	}
	return damaged
}

// askSlurm asks Slurm for its jobs and nodes.
func (q *Queue) askSlurm(ctx context.Context, jobs []Job) (*picture, error) {
	p := &picture{at: time.Now(), entries: map[string][]Entry{}, byName: map[string]Node{}, pools: map[string][]string{},
		load: map[string]int{}, groups: map[string][]string{}}
	all, err := q.Slurm.entries(ctx, false)
	if err != nil {
		return nil, err
	}
	if p.nodes, err = q.Slurm.nodes(ctx); err != nil {
		return nil, err
	}
	for _, n := range p.nodes {
		p.byName[n.Name] = n
	}
	own := map[string]bool{}
	for _, j := range jobs {
		own[j.UUID] = true
		p.groups[j.Group] = append(p.groups[j.Group], j.Hosts...)
	}
	for _, e := range all {
		if !e.hasEnded() {
			for _, n := range append(expand(e.Nodes), e.licenses...) {
				p.load[n]++
			}
		}
		if !own[e.UUID] {
			continue
		}
		if !e.hasEnded() {
			p.mine++
		}
		p.entries[e.UUID] = append(p.entries[e.UUID], e)
	}
	return p, nil
}

// entry returns what Slurm has of a job: the entry that is alive, or the one of the latest
// attempt. A controller that was killed and restored may have jobs that were canceled before,
// and jobs of attempts on other hosts: entry cancels them.
func (q *Queue) entry(ctx context.Context, h *held, p *picture) (e Entry, known bool, err error) {
	for _, x := range p.entries[h.UUID] {
		switch {
		case x.hasEnded():
			if !known && x.ID == h.ID {
				e, known = x, true
			}
		case known && !e.hasEnded(), !q.fits(h, x):
			if _, err := q.Slurm.run(ctx, nil, "scancel", x.ID); err != nil {
				return e, known, err
			}
		default:
			e, known = x, true
		}
	}
	return e, known, nil
}

// fits reports whether an entry is for the hosts that a job is bound to.
func (q *Queue) fits(h *held, e Entry) bool {
	have, want := expand(e.Nodes), q.nodesOf(h)
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(have, want)
}

// stepJob takes a job one step further.
func (q *Queue) stepJob(ctx context.Context, h *held, p *picture) error {
	if h.Over() { // killed before its folder was moved
		return q.shelve(h)
	}
	e, known, err := q.entry(ctx, h, p)
	if err != nil {
		return err
	}
	alive := known && !e.hasEnded()
	if alive && (h.State == Waiting || h.ID != e.ID) { // bakeoff or Slurm was killed
		if err := h.add(line{Type: lineQueued, ID: e.ID}); err != nil {
			return err
		}
	}
	switch {
	case h.canceling:
		return q.cancel(ctx, h, e, alive)
	case alive:
		return q.watchJob(ctx, h, e, p)
	case h.State == Paused:
		return nil
	case len(h.Hosts) == 0 || h.Submitted == 0:
		return q.submit(ctx, h, p)
	case p.at.Before(h.Since):
		return nil // Slurm got the job after it was asked
	}
	return q.settleJob(ctx, h, e, known, p)
}

// watchJob follows a job that Slurm has.
func (q *Queue) watchJob(ctx context.Context, h *held, e Entry, p *picture) error {
	if e.runs() {
		if h.State != Running {
			return h.add(line{Type: lineRunning})
		}
		return nil
	}
	if h.State == Running { // requeued by Slurm
		if err := h.add(line{Type: lineQueued, ID: e.ID, Reason: "Slurm queued the job again: " + e.Reason}); err != nil {
			return err
		}
	}
	if h.State == Paused { // killed before Slurm was asked
		return q.withdraw(ctx, h)
	}
	if strings.Contains(strings.ToLower(e.Reason), "launch failed") || strings.HasPrefix(e.Reason, "JobHeldAdmin") {
		return q.moveJob(ctx, h, p, e.ID, "the node did not start the job: "+e.Reason, true)
	}
	if e.Reason == "BeginTime" { // Slurm waits two minutes after the failure of a node
		_, err := q.Slurm.run(ctx, nil, "scontrol", "update", "JobId="+e.ID, "StartTime=now")
		return err
	}
	for _, host := range h.Hosts {
		if n, down := p.downNode(q.Cluster.node(host)); down {
			reason := "the node " + n.Name + " is " + n.State + because(n.Reason)
			if at, err := time.ParseInLocation("2006-01-02T15:04:05", n.At, time.Local); err == nil &&
				time.Since(at) > time.Duration(q.Cluster.Patience) {
				return q.moveJob(ctx, h, p, e.ID, reason, false)
			}
			return h.noteReason(reason)
		}
	}
	return h.noteReason(e.Reason)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// downNode returns a node that takes no jobs.
func (p *picture) downNode(name string) (Node, bool) {
	if n, ok := p.byName[name]; ok {
		return n, !n.Up()
	}
	return Node{Name: name, State: "unknown to Slurm"}, true
}

// moveJob takes a job from its hosts, if there are others, and if its hosts say that it did not
// begin there or are silent.
func (q *Queue) moveJob(ctx context.Context, h *held, p *picture, id, reason string, counts bool) error {
	left := h.Job
	left.abandoned = append(slices.Clone(h.abandoned), h.Hosts...)
	others := len(h.Ask.Hosts) == 0 && q.chooseHosts(left, p) != nil
	if !others && !counts {
		return h.noteReason(reason)
	}
	if id != "" {
		if _, err := q.Slurm.run(ctx, nil, "scancel", id); err != nil {
			return err
		}
	}
	for _, node := range q.nodesOf(h) {
		if !others {
			break
		}
		r, err := q.ask(ctx, node, "fence", h.UUID)
		switch {
		case err != nil:
			q.note("job %s: %s does not answer: %v", h.UUID[:8], node, err)
		case r.State != HostNone && r.State != HostFenced: // it began: its run stays with this host
			return nil
		}
	}
	again := line{Type: lineAgain, Reason: reason, Counts: counts}
	if others {
		again.Hosts = h.Hosts
	}
	if err := h.add(again); err != nil {
		return err
	}
	return q.submit(ctx, h, p)
}

// nodesOf are the nodes that may have the run of a job.
func (q *Queue) nodesOf(h *held) (out []string) {
	for _, host := range h.Hosts {
		if n := q.Cluster.node(host); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// cancel ends a job that nobody wants any longer.
func (q *Queue) cancel(ctx context.Context, h *held, e Entry, alive bool) error {
	if alive {
		_, err := q.Slurm.run(ctx, nil, "scancel", e.ID)
		return err
	}
	end := line{State: Canceled}
	if h.Submitted > 0 {
		r, folder, err := q.collect(ctx, h)
		switch {
		case err != nil:
			end.Reason = "the results stay on " + strings.Join(h.Hosts, " and ") + ": " + err.Error()
		case r.State == HostRunning:
			return nil
		case r.State == HostDone:
			end.State, end.Code = Done, r.Code
		}
		end.Folder = folder
	}
	return q.recordEnd(h, end)
}

// settleJob finds out from the host what became of a job that Slurm does not have any longer.
func (q *Queue) settleJob(ctx context.Context, h *held, e Entry, known bool, p *picture) error {
	r, err := q.status(ctx, h)
	if err != nil {
		if time.Since(h.Since) > time.Duration(q.Cluster.Patience) {
			return q.moveJob(ctx, h, p, "", fmt.Sprintf("%s did not answer for %v", strings.Join(h.Hosts, " and "),
				time.Duration(q.Cluster.Patience)), false)
		}
		return h.noteReason(err.Error())
	}
	again := line{Type: lineAgain}
	switch r.State {
	case HostRunning:
		return h.noteReason("Slurm lost the job, and the host still runs it")
	case HostDone:
		return q.finish(ctx, h, Done, "")
	case HostFenced:
		again.Hosts, again.Reason = h.Hosts, "the host refuses the job"
	case HostNone:
		again.Reason = "Slurm does not have the job"
		if known {
			again.Reason, again.Counts = "Slurm ended the job before bakeoff began: "+e.State+"; is bakeoff "+
				"installed there?", true
		}
	case HostFailed:
		again.Reason, again.Counts = r.Reason, true
	case HostInterrupted:
		again.Reason, again.Counts = r.Reason, r.Blocks <= h.progress
		again.Blocks = r.Blocks
	default:
		return fault.New(fault.Lab, "the host reports an unknown state of the job: %q", safetext.Line(r.State))
	}
	if known && e.State == "CANCELLED" {
		return q.finish(ctx, h, Canceled, "somebody canceled the job in Slurm")
	}
	if err := h.add(again); err != nil {
		return err
	}
	return q.submit(ctx, h, p)
}

// finish collects the results of a job, and ends it.
func (q *Queue) finish(ctx context.Context, h *held, state, reason string) error {
	r, folder, err := q.collect(ctx, h)
	if err != nil {
		return err
	}
	if r.State == HostDone {
		state = Done
	}
	return q.recordEnd(h, line{State: state, Code: r.Code, Folder: folder, Reason: reason})
}

// submit gives a job to Slurm, on a host that it chooses.
func (q *Queue) submit(ctx context.Context, h *held, p *picture) error {
	if h.Tries >= q.Cluster.Tries {
		if len(h.Hosts) > 0 && h.Submitted > 0 {
			return q.finish(ctx, h, Failed, h.counted)
		}
		return q.recordEnd(h, line{State: Failed, Reason: h.counted})
	}
	hosts := h.Hosts
	if len(hosts) == 0 {
		if hosts = q.chooseHosts(h.Job, p); hosts == nil {
			return h.noteReason(q.whyNoHost(h.Job, p))
		}
	}
	s, err := q.submission(h, hosts)
	if err != nil {
		return q.recordEnd(h, line{State: Failed, Reason: err.Error()})
	}
	s.nice = p.mine * niceStep
	if h.Low {
		s.nice += niceLow
	}
	if err := h.add(line{Type: lineSubmit, Hosts: hosts}); err != nil {
		return err
	}
	id, err := q.Slurm.submit(ctx, s)
	if err != nil {
		// A controller that answers has refused it; the others did not, perhaps.
		refused := ctx.Err() == nil && q.Slurm.answers(ctx)
		return h.add(line{Type: lineAgain, Reason: "Slurm did not accept the job: " + err.Error(), Counts: refused})
	}
	p.mine++
	for _, host := range hosts {
		p.load[host]++
		if n := q.Cluster.node(host); n != host {
			p.load[n]++
		}
	}
	p.groups[h.Group] = append(p.groups[h.Group], hosts...)
	return h.add(line{Type: lineQueued, ID: id})
}

// Users without accounting take turns: the n-th job that a user has in the queue stands
// behind the n-th jobs of all others. A lower tier stands behind everything.
const (
	niceStep = 1000
	niceLow  = 1_000_000_000
)

// submission describes a job for Slurm.
func (q *Queue) submission(h *held, hosts []string) (s submission, err error) {
	s = submission{uuid: h.UUID, name: "bakeoff-" + h.Lab, limit: h.Order.Limit}
	var binds []string
	for i, host := range hosts {
		pool := q.Cluster.Pools[h.Pools[i]]
		if s.partition == "" {
			s.partition = pool.Partition
		}
		if pool.Partition != s.partition {
			return s, fault.New(fault.Invalid, "the pools %s are in different partitions; a job can use only one partition",
				strings.Join(h.Pools, " and "))
		}
		s.licenses = append(s.licenses, pool.Licenses...)
		node := host
		if t, ok := pool.Hosts[host]; ok {
			node = t.Node
			s.licenses = append(s.licenses, host+":1")
		}
		s.nodes = lists.AddNew(s.nodes, node)
		if h.Bind[i] != "" {
			at := node
			if node != host {
				at = "" // never the machine that the job runs on
			}
			binds = append(binds, h.Bind[i]+"="+at+"="+q.Cluster.Address(host))
		}
	}
	parcel, err := readFile(filepath.Join(h.dir, parcelFile), maxScript)
	if err != nil {
		return s, err
	}
	s.script = script(q.Cluster, h.UUID, binds, parcel)
	return s, nil
}

// chooseHosts returns hosts for a job: of each pool the one with the fewest jobs. nil: none is up.
func (q *Queue) chooseHosts(j Job, p *picture) []string {
	var out []string
	for _, key := range j.Pools {
		best := ""
		for _, host := range q.hostsOf(key, p) {
			node := q.Cluster.node(host)
			if _, down := p.downNode(node); down || slices.Contains(out, host) || slices.Contains(j.abandoned, host) ||
				slices.Contains(p.groups[j.Group], host) {
				continue
			}
			if best == "" || p.load[host] < p.load[best] {
				best = host
			}
		}
		if best == "" {
			return nil
		}
		out = append(out, best)
	}
	return out
}

// whyNoHost says why no host can be chosen.
func (q *Queue) whyNoHost(j Job, p *picture) string {
	var down []string
	for _, key := range j.Pools {
		for _, host := range q.hostsOf(key, p) {
			if n, is := p.downNode(q.Cluster.node(host)); is {
				down = append(down, n.Name+" is "+n.State+because(n.Reason))
			}
		}
	}
	text := "no other host of " + strings.Join(j.Pools, " and ") + " takes jobs"
	if len(down) > 0 {
		text += ": " + strings.Join(down[:min(len(down), 5)], ", ")
	}
	return text
}

// hostsOf are the hosts of a pool in this round.
func (q *Queue) hostsOf(key string, p *picture) []string {
	if _, ok := p.pools[key]; !ok {
		p.pools[key] = q.hosts(key, p.nodes)
	}
	return p.pools[key]
}

// hosts are the names of the hosts of a pool.
func (q *Queue) hosts(key string, nodes []Node) (out []string) {
	pool := q.Cluster.Pools[key]
	for host := range pool.Hosts {
		out = append(out, host)
	}
	if len(out) == 0 {
		for _, n := range nodes {
			if n.has(pool) {
				out = append(out, n.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// reachTime bounds a question to a host, and collectTime the way of a run folder.
const (
	reachTime   = time.Minute
	collectTime = time.Hour
)

// ask executes a command of bakeoff queue node on a node, and reads the result.
func (q *Queue) ask(ctx context.Context, node string, args ...string) (Result, error) {
	return q.fetch(ctx, reachTime, node, nil, args...)
}

// fetch is ask for an answer with files, which it writes below root.
func (q *Queue) fetch(ctx context.Context, limit time.Duration, node string, root *os.Root, args ...string) (Result,
	error) {
	argv, err := q.Cluster.argv(node, append([]string{"queue", "node"}, args...)...)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.WaitDelay = 5 * time.Second
	dieWithParent(c)
	var errs headKept
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return Result{}, fault.Op("host "+node, err)
	}
	r, err := receive(out, root)
	if ended := c.Wait(); ended != nil {
		why := strings.TrimSpace(safetext.LastLines(errs.String(), 1))
		return r, fault.New(fault.Lab, "host %s: %s", node, safetext.Line(firstOf(why, ended.Error())))
	}
	return r, fault.Op("host "+node, err)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// status asks the hosts of a job what they know of it.
func (q *Queue) status(ctx context.Context, h *held) (r Result, err error) {
	r.State = HostNone
	for _, node := range q.nodesOf(h) {
		if r, err = q.ask(ctx, node, "send", h.UUID, "--status"); err != nil || r.State != HostNone {
			return r, err
		}
	}
	return r, nil
}

// collect brings the run folder of a job to this machine. Its name is that of the run, and
// the beginning of the UUID.
func (q *Queue) collect(ctx context.Context, h *held) (r Result, folder string, err error) {
	node := ""
	for _, node = range q.nodesOf(h) {
		if r, err = q.ask(ctx, node, "send", h.UUID, "--status"); err != nil {
			return r, "", err
		}
		if r.State != HostNone {
			break
		}
	}
	if r.Run == "" || r.State == HostRunning {
		return r, "", nil
	}
	if err := os.MkdirAll(h.Out, 0o777); err != nil {
		return r, "", fault.Op("queue", err)
	}
	part := filepath.Join(h.Out, ".bakeoff-"+h.UUID)
	if err := os.RemoveAll(part); err != nil { // of a process that was killed
		return r, "", fault.Op("queue", err)
	}
	defer os.RemoveAll(part)
	if err := os.Mkdir(part, 0o777); err != nil {
		return r, "", fault.Op("queue", err)
	}
	root, err := os.OpenRoot(part)
	if err != nil {
		return r, "", fault.Op("queue", err)
	}
	defer root.Close()
	if r, err = q.fetch(ctx, collectTime, node, root, "send", h.UUID); err != nil {
		return r, "", err
	}
	if !word.MatchString(r.Run) {
		return r, "", fault.New(fault.Lab, "the host reported an invalid run name: %q", safetext.Line(r.Run))
	}
	folder = filepath.Join(h.Out, r.Run+"-"+h.UUID[:8])
	if run := filepath.Join(part, runEntry); exists(run) {
		// A job that was canceled and retried has the folder of its first blocks.
		if err := os.Rename(folder, filepath.Join(part, "before")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, "", fault.Op("queue", err)
		}
		if err := os.Rename(run, folder); err != nil {
			return r, "", fault.Op("queue", err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(part, logFile)); err == nil {
		text = bytes.ToValidUTF8(text, nil)
		if err := writeDurably(filepath.Join(h.dir, logFile), text); err != nil {
			return r, "", fault.Op("queue", err)
		}
	}
	if err := syncDir(h.Out); err != nil {
		return r, "", err
	}
	if r.State == HostDone { // of others the run can be continued
		if _, err := q.ask(ctx, node, "drop", h.UUID); err != nil {
			q.note("job %s: %s keeps the files of the run: %v", h.UUID[:8], node, err)
		}
	}
	return r, folder, nil
}
