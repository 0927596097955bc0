package agent

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/lock"
)

// from is an owner of locks with its own token.
func from(controller, host string) lock.Owner {
	return lock.Owner{Run: "run-of-" + controller, Controller: controller, PID: 9, Token: controller, Host: host}
}

// ownedBy waits until the owner holds the lock at path.
func ownedBy(t *testing.T, path string, owner lock.Owner) {
	t.Helper()
	var by *lock.Holder
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if by = lock.HeldBy(path); by != nil && by.Owner == owner {
			return
		}
	}
	t.Fatalf("%s is held by %+v, want %+v", path, by, owner)
}

func holdFor(t *testing.T, path string, owner lock.Owner) *lock.Lock {
	t.Helper()
	l, err := lock.TryFor(path, owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return l
}

func newLocks(t *testing.T) (*locks, string) {
	path := filepath.Join(t.TempDir(), "machine.lock")
	t.Setenv("BAKEOFF_LOCK", path)
	l := &locks{held: map[string]*hold{}}
	t.Cleanup(l.release)
	return l, path
}

// An agent on the machine of its controller shares the controller's lock, and holds it
// when the controller has released it.
func TestSharedLockIsTakenOver(t *testing.T) {
	l, path := newLocks(t)
	controller := holdFor(t, path, from("a", "local"))
	if err := l.take(path, from("a", "box")); err != nil {
		t.Fatal(err)
	}
	if err := l.take(path, from("a", "box")); err != nil {
		t.Errorf("a second time: %v", err)
	}
	controller.Release()
	ownedBy(t, path, from("a", "box"))
	if err := l.give(path); err != nil || lock.Held(path) {
		t.Errorf("released: %v, held %v", err, lock.Held(path))
	}
	if err := l.give(path); err != nil {
		t.Errorf("released twice: %v", err)
	}
}

// Only the lock of the machine is shared, and only with this controller's other hosts.
func TestNotShared(t *testing.T) {
	l, path := newLocks(t)
	none := from("a", "local")
	none.Token = ""
	for name, c := range map[string]struct {
		path      string
		has, asks lock.Owner
	}{
		"another controller":                {path, from("b", "local"), from("a", "box")},
		"an earlier agent of the same host": {path, from("a", "box"), from("a", "box")},
		"unknown owners":                    {path, none, lock.Owner{Host: "box"}},
		"a state folder":                    {path + ".state", from("a", "local"), from("a", "box")},
	} {
		by := holdFor(t, c.path, c.has)
		if err := l.take(c.path, c.asks); !lock.Refused(err) || !strings.Contains(err.Error(), "measures on this host") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
		by.Release()
	}
}

// If another run is faster when the holder releases a shared lock, the controller learns
// it when it releases the lock or takes it again.
func TestSharedLockIsLost(t *testing.T) {
	l, path := newLocks(t)
	controller := holdFor(t, path, from("a", "local"))
	if err := l.take(path, from("a", "box")); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock() // the agent is slower
	controller.Release()
	holdFor(t, path, from("b", "local"))
	l.mu.Unlock()
	var err error
	for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		err = l.take(path, from("a", "box"))
	}
	if again := l.give(path); !lock.Refused(err) || again == nil || again.Error() != err.Error() ||
		!strings.Contains(err.Error(), "another run took the lock of the machine during this run") ||
		!strings.Contains(err.Error(), "run run-of-b, started by ") {
		t.Errorf("taken: %v; released: %v", err, again)
	}
	ownedBy(t, path, from("b", "local"))
}

// A lock that is released while it is shared is not taken over.
func TestSharedLockIsReleased(t *testing.T) {
	l, path := newLocks(t)
	controller := holdFor(t, path, from("a", "local"))
	if err := l.take(path, from("a", "box")); err != nil {
		t.Fatal(err)
	}
	if err := l.give(path); err != nil {
		t.Fatal(err)
	}
	controller.Release()
	time.Sleep(2 * takeOverTime)
	if lock.Held(path) {
		t.Error("the agent holds a lock that its controller released")
	}
}
