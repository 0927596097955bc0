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

// reaper launches programs as process 1 and waits for everything that ends,
// orphans of others included. It is the only one that waits: a second waiter
// would take away what the first one waits for.
type reaper struct {
	mu      sync.Mutex // held from before a fork until its pid is known
	waiting map[int]chan syscall.WaitStatus
	born    *sync.Cond // a child exists
	groups  bool       // control groups can be had
	last    int
	stale   []string // groups that still had processes in them
}

// groupRoot is where init keeps a control group for each program, so that it
// can be killed with all that it started.
const groupRoot = "/sys/fs/cgroup"

// startReaper begins to wait. With groups it makes a control group for each
// program, where the kernel has them.
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
		if err != nil { // there is no child at all: wait for one
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

// Launch starts a program in a control group of its own.
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

// Release removes the control group, and those of earlier programs whose
// left-behind processes have ended since.
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
