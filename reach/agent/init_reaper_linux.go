package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
)

// reaper launches programs as process 1 and waits for all processes, including
// orphans. It must be the only waiter: a second one would take exit statuses
// from the first.
type reaper struct {
	mu      sync.Mutex // held from before a fork until its pid is known
	waiting map[int]chan syscall.WaitStatus
	born    *sync.Cond // a child exists
	groups  bool       // cgroups are available
	last    int
	stale   []string // groups that still had processes in them
}

// groupRoot is the parent of a cgroup per program, so that a program can be
// killed with everything that it started.
const groupRoot = "/sys/fs/cgroup"

// startReaper starts to wait. With groups it creates a cgroup for each program,
// if the kernel supports them.
func startReaper(groups bool) *reaper {
	r := &reaper{waiting: map[int]chan syscall.WaitStatus{}}
	r.born = sync.NewCond(&r.mu)
	if groups {
		_, err := os.Stat(groupRoot + "/cgroup.procs")
		r.groups = err == nil
	}
	go r.reap()
	return r
}

func (r *reaper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		r.mu.Lock()
		if err != nil { // there is no child: wait for one
			if len(r.waiting) == 0 {
				r.born.Wait()
			}
			r.mu.Unlock()
			continue
		}
		if ch, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			ch <- status
		}
		r.mu.Unlock()
	}
}

// Launch starts a program in its own cgroup.
func (r *reaper) Launch(path string, argv []string, attr *os.ProcAttr) (Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &reaped{r: r, status: make(chan syscall.WaitStatus, 1)}
	if r.groups {
		r.last++
		p.group = fmt.Sprintf("%s/exec-%d", groupRoot, r.last)
		if err := os.Mkdir(p.group, 0o755); err != nil {
			return nil, err
		}
		dir, err := os.Open(p.group)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(dir.Fd())
	}
	child, err := os.StartProcess(path, argv, attr)
	if err != nil {
		if p.group != "" {
			os.Remove(p.group)
		}
		return nil, err
	}
	p.pid = child.Pid
	child.Release()
	r.waiting[p.pid] = p.status
	r.born.Signal()
	return p, nil
}

// reaped is a program that process 1 started.
type reaped struct {
	r      *reaper
	pid    int
	group  string
	status chan syscall.WaitStatus

	mu    sync.Mutex
	ended bool
}

func (p *reaped) Wait() (channel.Result, error) {
	status := <-p.status
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	return resultOf(status), nil
}

func (p *reaped) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if p.group != "" && os.WriteFile(filepath.Join(p.group, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	local.KillTree(p.pid)
}

// Release removes the cgroup, and those of earlier programs whose background
// processes have ended since.
func (p *reaped) Release() {
	if p.group == "" {
		return
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	still := p.r.stale[:0]
	for _, g := range append(p.r.stale, p.group) {
		if err := os.Remove(g); err != nil && !os.IsNotExist(err) {
			still = append(still, g)
		}
	}
	p.r.stale = still
}
