//go:build linux || netbsd || freebsd

package nsenter

import (
	"os"
	"sync"
	"syscall"
)

// Reaper starts programs as process 1 and waits for all processes, including
// orphans. It must be the only waiter: a second one would take exit statuses
// from the first.
type Reaper struct {
	mu      sync.Mutex // held from before a fork until its pid is known
	waiting map[int]chan syscall.WaitStatus
	born    *sync.Cond // a child exists
}

// Child is a program that a Reaper started.
type Child struct {
	PID    int
	Status <-chan syscall.WaitStatus // receives one value, when it ends
}

// StartReaper starts to wait.
func StartReaper() *Reaper {
	r := &Reaper{waiting: map[int]chan syscall.WaitStatus{}}
	r.born = sync.NewCond(&r.mu)
	go r.reap()
	return r
}

func (r *Reaper) reap() {
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

// Start starts a program. Package os would first start two processes to find
// out whether the kernel has descriptors of processes.
func (r *Reaper) Start(path string, argv []string, attr *syscall.ProcAttr) (*Child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: err}
	}
	status := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = status
	r.born.Signal()
	return &Child{PID: pid, Status: status}, nil
}
