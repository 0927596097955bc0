package local

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/nsenter"
)

// attributes gives every program a session, and so a process group, of its own.
//
// A session, because the scheduler divides the CPU among sessions first
// (sched(7), autogroup). In our session a program would be scheduled
// differently from one that a container runtime or an agent starts, which has
// its own.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// starter is the one thread that starts every program. The kernel sends a
// parent-death signal when the *thread* that forked ends, not the process
// (prctl(2), PR_SET_PDEATHSIG), so this thread never ends. Because no other
// goroutine uses it, it can also move, during the fork, to the CPUs and the
// network namespace that the child inherits.
var starter = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range jobs {
			f()
		}
	}()
	return jobs
})

// start starts p with c's settings. The program inherits CPUs and namespace
// across fork and exec; no wrapper program is needed.
func start(p *exec.Cmd, c Conn) error {
	if len(c.CPUs) == 0 && c.Netns == "" {
		done := make(chan error)
		starter() <- func() { done <- p.Start() }
		return <-done
	}
	undoable := make(chan error)
	starter() <- func() {
		undo, err := move(c)
		if err == nil {
			err = p.Start()
		}
		if uerr := undo(); uerr != nil {
			// Every later program would start in the wrong place.
			panic("local: the starting thread cannot restore its CPUs or namespace: " + uerr.Error())
		}
		undoable <- err
	}
	return <-undoable
}

// move takes the calling thread to c's CPUs and namespace. undo moves it back.
func move(c Conn) (undo func() error, err error) {
	var undos []func() error
	undo = func() error {
		for _, u := range undos {
			if err := u(); err != nil {
				return err
			}
		}
		return nil
	}
	if len(c.CPUs) > 0 {
		var old, cpus unix.CPUSet
		for _, n := range c.CPUs {
			cpus.Set(n)
		}
		if err := unix.SchedGetaffinity(0, &old); err != nil {
			return undo, err
		}
		if err := unix.SchedSetaffinity(0, &cpus); err != nil {
			return undo, fault.New(fault.Lab, "CPUs %v: %w", c.CPUs, err)
		}
		undos = append(undos, func() error { return unix.SchedSetaffinity(0, &old) })
	}
	if c.Netns != "" {
		back, err := enterNet(c.Netns)
		if err != nil {
			return undo, err
		}
		undos = append(undos, back)
	}
	return undo, nil
}

// enterNet moves the calling thread into a network namespace.
func enterNet(ns string) (back func() error, err error) {
	path := ns
	if !filepath.IsAbs(ns) {
		if strings.Contains(ns, "/") || ns == ".." {
			return nil, fault.New(fault.Invalid, "%q is not a name of a network namespace", ns)
		}
		path = filepath.Join("/run/netns", ns)
	}
	there, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap(missing(err), "network namespace "+ns, err)
	}
	defer there.Close()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		here.Close()
		return nil, fault.New(fault.Lab, "enter network namespace %s: %w", ns, err)
	}
	return func() error {
		defer here.Close()
		return unix.Setns(int(here.Fd()), unix.CLONE_NEWNET)
	}, nil
}

// dialIn opens a connection in the network namespace ns. A socket belongs to
// the namespace of the thread that created it.
func dialIn(ctx context.Context, ns, network, address string) (net.Conn, error) {
	var d net.Dialer
	if ns == "" {
		return d.DialContext(ctx, network, address)
	}
	if strings.HasPrefix(network, "tcp") || strings.HasPrefix(network, "udp") {
		// Other threads would resolve names, in our own namespace.
		host, _, err := net.SplitHostPort(address)
		if err != nil || net.ParseIP(host) == nil {
			return nil, fault.New(fault.Invalid, "address %q must be numeric, with a port", address)
		}
	}
	type result struct {
		c   net.Conn
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		back, err := enterNet(ns)
		if err != nil {
			runtime.UnlockOSThread()
			done <- result{nil, err}
			return
		}
		c, err := d.DialContext(ctx, network, address)
		if back() == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with its goroutine
		}
		done <- result{c, err}
	}()
	r := <-done
	return r.c, r.err
}

// KillTree kills pid's process group and all descendants of pid, including
// those in groups or sessions of their own. It does not find processes that
// init has adopted; cgroups do.
func KillTree(pid int) { nsenter.KillTree(pid) }
