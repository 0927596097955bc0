package cgroup

import (
	"context"
	"io"
	"os"
	"path"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// A container engine removes a group of its own as soon as the last process is
// dead, perhaps while it is being thawed.
func TestThawWhatIsGone(t *testing.T) {
	g := real(t, ours+"-gone", Limits{})
	for _, d := range g.Dirs() {
		if err := os.Remove(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Thaw(t.Context()); err != nil {
		t.Errorf("thaw: %v", err)
	}
	if err := g.Freeze(t.Context()); !fault.Is(err, fault.NotFound) {
		t.Errorf("freeze: %v; there is nothing to freeze", err)
	}
	if err := g.Kill(t.Context()); err != nil {
		t.Errorf("kill: %v", err)
	}
}

// vanishing removes a group between the opening of a file in it and its reading,
// where remove is set; otherwise it cannot be read for another reason.
type vanishing struct {
	local.Conn
	remove bool
}

func (v vanishing) ReadFile(_ context.Context, name string) ([]byte, error) {
	if !v.remove {
		return nil, fault.New(fault.Lab, "cannot be read")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := os.Remove(path.Dir(name)); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// The kernel says "no such device" of a file whose group was removed after it
// was opened: nothing runs in that group.
func TestProcessesOfWhatVanishes(t *testing.T) {
	g := real(t, ours+"-vanishing", Limits{})
	g.files = vanishing{}
	if pids, err := g.PIDs(t.Context()); err == nil {
		t.Errorf("%v of a group that is there and cannot be read", pids)
	}
	g.files = vanishing{remove: true}
	if pids, err := g.PIDs(t.Context()); err != nil || len(pids) != 0 {
		t.Errorf("%v, %v", pids, err)
	}
}

// leaving removes a group a moment after a file of it could not be written any
// more, where it removes it at all.
type leaving struct {
	local.Conn
	remove bool
}

func (l leaving) WriteFile(_ context.Context, name string, _ []byte) error {
	if l.remove {
		time.AfterFunc(5*time.Millisecond, func() { os.Remove(path.Dir(name)) })
	}
	return fault.Wrap(fault.Lab, "write "+name, syscall.ENODEV)
}

// The kernel says "no such device" of a file whose group goes just now, and
// shows its directory for a moment: nothing is frozen in that group.
func TestThawWhatIsLeaving(t *testing.T) {
	g := real(t, ours+"-leaving", Limits{})
	g.files = leaving{}
	if err := g.Thaw(t.Context()); err == nil || fault.Is(err, fault.NotFound) {
		t.Errorf("a group that stays and cannot be thawed: %v", err)
	}
	g.files = leaving{remove: true}
	if err := g.Thaw(t.Context()); err != nil {
		t.Errorf("a group that goes: %v", err)
	}
	g.files = local.Conn{}
}
