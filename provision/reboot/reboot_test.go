package reboot

import (
	"context"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// answer is how the machine answers an attempt to connect: in this boot, which is this old,
// or with an error. A session that is lost soon ends by itself.
type answer struct {
	boot string
	age  time.Duration
	err  error
	lost bool
}

// scripted is a machine that answers as the test says. The last answer is repeated.
type scripted struct {
	local.Conn
	answers  []answer
	now      answer
	attempts int
	tried    func() // called after each attempt to connect, if it is not nil
	commands chan []string
}

func newScripted(answers ...answer) *scripted {
	return &scripted{answers: answers, now: answer{boot: "before", age: time.Hour, lost: true},
		commands: make(chan []string, 1)}
}

func (s *scripted) Exec(_ context.Context, c conn.Cmd) (conn.Exit, error) {
	s.commands <- c.Argv
	return conn.Exit{}, fault.New(fault.Lab, "lost the connection")
}

func (s *scripted) Machine() channel.Machine {
	return channel.Machine{GOOS: "freebsd", Boot: s.now.boot, Hardware: facts.Hardware{UUID: "scripted"}}
}

func (s *scripted) Clock(context.Context) (channel.Clock, error) {
	return channel.Clock{SystemNS: s.now.age.Nanoseconds()}, nil
}

func (s *scripted) Alive(context.Context) error {
	if s.now.lost {
		return fault.New(fault.Lab, "no answer")
	}
	return nil
}

func (s *scripted) Reconnect(context.Context) error {
	a := s.answers[min(s.attempts, len(s.answers)-1)]
	s.attempts++
	if a.err == nil {
		s.now = a
	}
	if s.tried != nil {
		s.tried()
	}
	return a.err
}

// A session that was lost for another reason is no reboot, and neither is a boot ID that
// changed because the clock of a BSD was set. AndWait waits for the reboot.
func TestOnlyARebootCounts(t *testing.T) {
	s := newScripted(answer{boot: "before", age: time.Hour, lost: true},
		answer{boot: "clock was set", age: time.Hour, lost: true},
		answer{err: fault.New(fault.Lab, "connection refused")}, answer{boot: "after", age: 1})
	downs := 0
	err := AndWait(t.Context(), s, Options{Pause: time.Millisecond, Down: func(time.Time, time.Duration) { downs++ }})
	if err != nil || s.attempts != 4 || downs != 3 || s.now.boot != "after" {
		t.Fatalf("%v after %d attempts in boot %q; the system before went down %d times", err, s.attempts, s.now.boot, downs)
	}
	if argv := strings.Join(<-s.commands, " "); argv != "shutdown -r now" {
		t.Errorf("rebooted with %q", argv)
	}
}

// Another machine in its place ends the wait at once, and so does the time limit.
func TestNotBack(t *testing.T) {
	refused := fault.New(fault.Lab, "connection refused")
	for name, tt := range map[string]struct {
		comes answer
		ends  bool // the time is over after some attempts
		kind  fault.Kind
		says  string
	}{
		"another": {answer{err: fault.New(fault.Unsupported, "a different machine answers")}, false,
			fault.Unsupported, "different machine"},
		"never":        {answer{err: refused}, true, fault.Lab, "connection refused"},
		"not rebooted": {answer{boot: "before", age: time.Hour}, true, fault.Lab, "has not rebooted"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := newScripted(tt.comes)
		s.tried = func() {
			if tt.ends && (s.attempts == 3 || tt.comes.err == nil) {
				cancel()
			}
		}
		err := AndWait(ctx, s, Options{Command: []string{"again"}, Pause: time.Millisecond})
		cancel()
		if err == nil || fault.Of(err) != tt.kind || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, tt.kind, tt.says)
		}
	}
}

// The machine that bakeoff runs on is never rebooted, nor one whose reboot nothing proves.
func TestCheck(t *testing.T) {
	own, other := facts.Hardware{UUID: "own"}, facts.Hardware{UUID: "other"}
	for name, tt := range map[string]struct {
		m    channel.Machine
		says string
	}{
		"other":      {channel.Machine{Boot: "b", Hardware: other}, ""},
		"same boot":  {channel.Machine{Boot: "a", Hardware: other}, "same boot ID"},
		"same UUID":  {channel.Machine{Boot: "b", Hardware: own}, "uuid own"},
		"no boot ID": {channel.Machine{Hardware: other}, "cannot distinguish two boots"},
	} {
		err := checkOther(tt.m, "a", own)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) ||
			!fault.Is(err, fault.Unsupported)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	s := newScripted(answer{boot: "after", age: 1})
	s.now.boot = probe.Boot()
	if s.now.boot == "" {
		t.Skip("this system does not tell one boot from another")
	}
	if err := AndWait(t.Context(), s, Options{}); !fault.Is(err, fault.Unsupported) || len(s.commands) > 0 {
		t.Errorf("this machine: %v, %d commands", err, len(s.commands))
	}
}
