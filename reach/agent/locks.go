package agent

import (
	"os"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/reach/conn/local"
)

// locks are the locks that the controller holds. They end with the agent.
type locks struct {
	mu   sync.Mutex
	held map[string]*hold
}

// hold is a lock that the agent holds, or that it shares with another process of its
// controller.
type hold struct {
	lock *lock.Lock // nil while it is shared
	lost error      // another run took it from those who shared it
}

const (
	// takeOverTime is how often the agent tries to take a lock that it shares: the
	// process that holds the lock may end first.
	takeOverTime = 100 * time.Millisecond
	// nameTime is more than a process needs to write its name into a lock file.
	nameTime = 10 * time.Millisecond
)

// take takes a lock for the controller, or reports that it has lost one.
func (l *locks) take(path string, owner lock.Owner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[path]; h != nil { // the controller already holds it
		return h.lost
	}
	held, err := takeOrShare(path, owner)
	if err != nil {
		return err
	}
	h := &hold{lock: held}
	l.held[path] = h
	if held == nil {
		go l.takeOver(path, owner, h)
	}
	return nil
}

// takeOrShare takes a lock. It returns nil if owner shares the lock of the machine with
// the process that holds it: the controller itself, or an agent on another connection to
// this machine. An agent on an earlier connection of the same name is about to end, and
// shares nothing. Nobody shares the lock of a state folder, whose leases belong to one.
func takeOrShare(path string, owner lock.Owner) (*lock.Lock, error) {
	held, err := local.Lock(path, owner)
	if lock.Refused(err) { // the file may still name the last holder
		time.Sleep(nameTime)
		held, err = local.Lock(path, owner)
	}
	if lock.Refused(err) && owner.Token != "" && path == lock.OfMachine(os.Getenv, os.Getuid()) {
		if by := lock.HolderOf(path).Owner; by.Token == owner.Token && by.Host != owner.Host {
			return nil, nil
		}
	}
	return held, err
}

// takeOver takes a shared lock when its holder releases it, unless another run is faster.
func (l *locks) takeOver(path string, owner lock.Owner, h *hold) {
	for h.lock == nil && h.lost == nil {
		time.Sleep(takeOverTime)
		l.mu.Lock()
		if l.held[path] != h { // it was released
			l.mu.Unlock()
			return
		}
		var err error
		if h.lock, err = takeOrShare(path, owner); err != nil {
			h.lost = fault.Wrap(fault.Of(err), "another run took the lock of the machine during this run", err)
		}
		l.mu.Unlock()
	}
}

// give gives a lock back, or reports that it was lost.
func (l *locks) give(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[path]
	if h == nil {
		return nil
	}
	delete(l.held, path)
	h.lock.Release()
	return h.lost
}

func (l *locks) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		h.lock.Release()
	}
	clear(l.held)
}
