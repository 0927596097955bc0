//go:build linux || netbsd || freebsd

package guestinit

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"bakeoff/base/lists"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/nsenter"
)

// reaper launches programs as process 1, each in a cgroup of its own if cgroups
// are available.
type reaper struct {
	all    *nsenter.Reaper
	mu     sync.Mutex
	groups bool
	last   int
	stale  []string // groups that still had processes in them
}

// groupRoot is the parent of a cgroup per program, so that a program can be
// killed with everything that it started.
const groupRoot = "/sys/fs/cgroup"

// startReaper starts to wait. It creates a cgroup for each program if the kernel
// has them.
func startReaper() *reaper {
	_, err := os.Stat(groupRoot + "/cgroup.procs")
	return &reaper{all: nsenter.StartReaper(), groups: err == nil}
}

// Launch starts a program in its own cgroup.
func (r *reaper) Launch(path string, argv []string, attr *os.ProcAttr) (serve.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &reaped{r: r}
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
		joinGroup(attr.Sys, dir)
	}
	files := lists.Map(attr.Files, func(f *os.File) uintptr { return f.Fd() })
	var child *nsenter.Child
	err := local.Unbusy(func() (err error) {
		child, err = r.all.Start(path, argv, &syscall.ProcAttr{Dir: attr.Dir, Env: attr.Env, Files: files, Sys: attr.Sys})
		return err
	})
	runtime.KeepAlive(attr)
	if err != nil {
		if p.group != "" {
			os.Remove(p.group)
		}
		return nil, err
	}
	p.child = child
	return p, nil
}

// reaped is a program that process 1 started.
type reaped struct {
	r     *reaper
	child *nsenter.Child
	group string

	mu    sync.Mutex
	ended bool
}

func (p *reaped) Wait() (channel.Result, error) {
	status := <-p.child.Status
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
	local.KillTree(p.child.PID)
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

func resultOf(status syscall.WaitStatus) channel.Result {
	if status.Signaled() {
		return channel.Result{Code: 128 + int(status.Signal()), Signal: status.Signal().String()}
	}
	return channel.Result{Code: status.ExitStatus()}
}
