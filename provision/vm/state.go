package vm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/journal"
	"bakeoff/base/lock"
	"bakeoff/base/sleep"
)

// State is where a guest is in its life. The words are vmadm's.
type State string

// The states.
const (
	Configured   State = "configured"   // created, and never started
	Provisioning State = "provisioning" // starts for the first time
	Ready        State = "ready"        // starts
	Running      State = "running"
	Stopping     State = "stopping"
	Stopped      State = "stopped"
	Failed       State = "failed"
)

// Transition is a line of the journal of a guest.
type Transition struct {
	At    time.Time `json:"at"`
	State State     `json:"state"`
	// Why says what ended the guest, or why it failed.
	Why string `json:"why,omitempty"`
	// PID is the process of the machine, or the first one of the container.
	PID int `json:"pid,omitempty"`
	// Exit is the exit code of the program of a container.
	Exit *int `json:"exit_code,omitempty"`
	// Ports are those of the host that lead to the guest.
	Ports []string `json:"ports,omitempty"`
	// VNC is where a VNC client sees the screen: ADDRESS:PORT.
	VNC string `json:"vnc,omitempty"`
	// Accelerator is what executes the instructions of a machine: kvm or tcg.
	Accelerator string `json:"accelerator,omitempty"`
}

// Status is what a guest does now.
type Status struct {
	State State     `json:"state"`
	Since time.Time `json:"state_since,omitzero"`
	Why   string    `json:"why,omitempty"`
	PID   int       `json:"pid,omitempty"`
	// Supervisor is the process that holds the guest; 0 if it has none.
	Supervisor  int      `json:"supervisor_pid,omitempty"`
	Exit        *int     `json:"exit_code,omitempty"`
	Reached     []string `json:"reached,omitempty"`
	Accelerator string   `json:"accelerator,omitempty"`
	VNC         string   `json:"vnc,omitempty"`
}

var transitions = journal.Format[Transition]{Name: fileJournal,
	Check: func(t Transition, _ bool) error {
		if t.State == "" {
			return errors.New("a line has no state")
		}
		return nil
	},
	Fix: "delete the guest with `bakeoff vm delete`"}

// writeTransition begins or continues the journal of a guest. Its caller holds a lock of the
// guest.
func writeTransition(name string, t Transition) error {
	t.At = time.Now().UTC()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w, _, err := transitions.Resume(f)
	if err != nil {
		return err
	}
	return w.Append(t)
}

// maxTail bounds what is read of a journal to know the state of a guest, in bytes. A line has
// at most a quarter of that.
const maxTail = 64 << 10

// lastTransition reads the last line that counts.
func lastTransition(name string) (t Transition, err error) {
	f, err := os.Open(name)
	if err != nil {
		return t, err
	}
	defer f.Close()
	return lastOf(f)
}

func lastOf(f *os.File) (t Transition, err error) {
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	tail := make([]byte, min(info.Size(), maxTail))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return t, err
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < 0 {
		return t, fault.New(fault.Lab, "%s has no complete line", f.Name())
	}
	line := tail[:end]
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	return t, fault.Wrap(fault.Lab, f.Name(), json.Unmarshal(line, &t))
}

// History returns what happened to the guest, the oldest first.
func (g *Guest) History() ([]Transition, error) {
	f, err := os.Open(g.Path(fileJournal))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, _, err := transitions.Read(f)
	return lines, err
}

// Ending tells how a guest has ended, also one that removes itself then.
type Ending struct {
	g       *Guest
	journal *os.File
}

// FollowEnd is called while the guest runs.
func (g *Guest) FollowEnd() (*Ending, error) {
	f, err := os.Open(g.Path(fileJournal))
	return &Ending{g, f}, fault.Op("guest "+g.name(), err)
}

// Close forgets the guest.
func (e *Ending) Close() error { return e.journal.Close() }

// Await returns what the supervisor of a guest writes when the guest ends. It is called when the
// console has ended, and waits for a short time only: a client that does not read loses its console,
// too. A supervisor that was killed writes nothing: the guest failed.
func (e *Ending) Await(ctx context.Context) (t Transition, err error) {
	bounded, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	for {
		held := lock.HeldBy(e.g.Path(fileLife)) // first: a supervisor that ends writes its last line before
		if t, err = lastOf(e.journal); err != nil {
			return t, fault.Op("guest "+e.g.name(), err)
		}
		switch {
		case t.State != Running && t.State != Stopping:
			return t, nil
		case held == nil:
			return Transition{State: Failed, Why: killedWhile(t.State)}, nil
		}
		if sleep.For(bounded, endStep) != nil {
			return t, fault.WithFix(cmp.Or(ctx.Err(), fault.New(fault.Lab, "the console has ended, but guest %s runs",
				e.g.name())), "run `bakeoff vm console "+e.g.UUID+"`")
		}
	}
}

func killedWhile(s State) string { return "its supervisor was killed while the guest was " + string(s) }

// refresh reads the state of the guest. If the journal says that it runs, and no supervisor
// holds it, the supervisor was killed or the host lost its power: the guest failed.
func (g *Guest) refresh() error {
	// The journal first: a supervisor that ends writes its last line before it lets go.
	t, err := lastTransition(g.Path(fileJournal))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.WithFix(fault.New(fault.NotFound, "there is no guest %q", g.UUID), "run `bakeoff vm list`")
	}
	if err != nil {
		return err
	}
	g.Status = Status{State: t.State, Since: t.At, Why: t.Why, Exit: t.Exit}
	held := lock.HeldBy(g.Path(fileLife))
	if held != nil {
		g.Supervisor = held.PID
	}
	switch t.State {
	case Configured, Stopped, Failed:
		return nil
	}
	if held == nil {
		// It may have ended between the two looks.
		if again, err := lastTransition(g.Path(fileJournal)); err == nil && !again.At.Equal(t.At) {
			return g.refresh()
		}
		g.State, g.Why = Failed, killedWhile(t.State)
		return nil
	}
	g.PID, g.Reached, g.Accelerator, g.VNC = t.PID, t.Ports, t.Accelerator, t.VNC
	return nil
}
