package machine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// scripted is a machine that reboots as the test says. Everything but its reboots is this
// machine.
type scripted struct {
	local.Conn
	sshd net.Listener
	// comes tells whether the machine comes back after its reboot number n, and as what.
	comes func(n int) (channel.Machine, error)

	mu      sync.Mutex
	now     channel.Machine
	boots   int
	down    bool
	started time.Time
}

const rebootCommand = "reboot-the-scripted-machine"

func script(t *testing.T) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	suite.Accept(t, l, func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-scripted\r\n") })
	m := channel.Machine{GOOS: "linux", Boot: "boot-0", Hardware: facts.Hardware{UUID: "scripted", CPU: "scripted CPU"}}
	return &scripted{sshd: l, now: m, started: time.Now().Add(-time.Hour), comes: func(n int) (channel.Machine, error) {
		m.Boot = fmt.Sprint("boot-", n)
		return m, nil
	}}
}

func (s *scripted) Exec(ctx context.Context, c conn.Cmd) (conn.Exit, error) {
	if c.Argv[0] != rebootCommand {
		return s.Conn.Exec(ctx, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boots++
	s.down = true
	return conn.Exit{}, fault.New(fault.Lab, "lost the connection")
}

func (s *scripted) Machine() channel.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *scripted) Alive(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return fault.New(fault.Lab, "no answer")
	}
	return nil
}

func (s *scripted) Reconnect(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.comes(s.boots)
	if err == nil {
		if m.Boot != s.now.Boot {
			s.started = time.Now()
		}
		s.now, s.down = m, false
	}
	return err
}

func (s *scripted) Clock(context.Context) (channel.Clock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return channel.Clock{SystemNS: max(1, time.Since(s.started).Nanoseconds())}, nil
}

func (s *scripted) Direct(context.Context) (netip.AddrPort, error) {
	return netip.ParseAddrPort(s.sshd.Addr().String())
}

func (s *scripted) Agent() string { return "/agent" }

var allowed = param.Values{optReboot: "true", optCommand: param.Join([]string{rebootCommand}), optTimeout: "1m"}

func spec(t *testing.T, watch bool) driver.Spec {
	return driver.Spec{Label: "machine-test", Dir: t.TempDir(), Agent: "/agent", CPUs: 1, CPUSet: []int{0},
		Options: allowed, Watch: watch}
}

// suited gives a machine the agent that the suite builds.
type suited struct{ Driver }

func (d suited) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	in, err := d.Driver.Create(ctx, host, spec)
	if err != nil {
		return nil, err
	}
	in.(*Instance).info.Agent = spec.Agent
	return in, nil
}

// without are the tests of the suite that do not apply to a machine.
var without = map[string]string{
	"network": "a machine has no place on the experiment's network",
	"crashed creating": "a creation makes nothing but the folder of its lease, and mounts; the program of a killed " +
		"controller is in the test crashed",
}

// A machine that is reached passes the suite, and so does this one.
func TestDriver(t *testing.T) {
	drivertest.Run(t, suited{}, drivertest.Options{Host: script(t), Options: allowed, Without: without, Name: "far"})
}

func TestThisMachine(t *testing.T) {
	drivertest.Run(t, quiet{}, drivertest.Options{Without: without, Name: "near"})
}

// quiet is the driver for a suite that would watch how this machine comes up.
type quiet struct{ Driver }

func (d quiet) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	spec.Watch = false
	return d.Driver.Create(ctx, host, spec)
}

// A machine is rebooted if that is asked for, and what was seen of it is in order.
func TestReboot(t *testing.T) {
	s := script(t)
	for _, watch := range []bool{false, true} {
		in, err := Driver{}.Create(t.Context(), s, spec(t, watch))
		if err != nil {
			t.Fatal(err)
		}
		before, after := in.(driver.Rebooted).Boots()
		if before != "boot-0" || (after == "boot-1") != watch || (after == before) == watch {
			t.Errorf("watch %v: boots %q, %q", watch, before, after)
		}
		seen, err := in.(driver.Watched).Moments(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i, m := range seen.List {
			names = append(names, m.Name)
			last := seen.List[max(i-1, 0)]
			if m.How == "" || m.Uncertainty < 0 || m.Name == bootmodel.MarkSSH &&
				m.At.Add(m.Uncertainty).Before(last.At.Add(-last.Uncertainty)) {
				t.Errorf("moment %+v", m)
			}
		}
		want := []string{bootmodel.MarkClock, bootmodel.MarkKernel}
		if watch {
			want = append([]string{bootmodel.MarkDown, bootmodel.MarkSSH}, want...)
		}
		if !slices.Equal(names, want) {
			t.Errorf("moments %q, want %q", names, want)
		}
		if err := in.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Another machine in its place ends the wait at once, and so does the time limit.
func TestNotBack(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		limit string
		kind  fault.Kind
		says  string
	}{
		"other": {fault.New(fault.Unsupported, "a different machine answers"), "1m", fault.Unsupported, "different machine"},
		"never": {fault.New(fault.Lab, "connection refused"), "300ms", fault.Subject, "did not come back in 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			s := script(t)
			s.comes = func(int) (channel.Machine, error) { return channel.Machine{}, tt.err }
			of := spec(t, true)
			of.Options = param.Values{optReboot: "true", optCommand: allowed[optCommand], optTimeout: tt.limit}
			in, err := Driver{}.Create(t.Context(), s, of)
			if in != nil || !fault.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("%v, %v", in, err)
			}
		})
	}
}

// Nothing is rebooted without permission, and never the machine that bakeoff runs on.
func TestMayReboot(t *testing.T) {
	other := channel.Machine{Boot: "b", Hardware: facts.Hardware{UUID: "other"}}
	user := channel.Machine{Boot: "b", UID: 1000}
	may := options{allowed: true}
	for name, tt := range map[string]struct {
		m    channel.Machine
		o    options
		says string
	}{
		"other":               {other, may, ""},
		"forbidden":           {other, options{}, "reboot: true"},
		"its own":             {channel.Machine{Boot: probe.Boot()}, may, "the machine that bakeoff runs on"},
		"user":                {user, may, "sudo"},
		"user with a command": {user, options{allowed: true, command: []string{"sudo"}}, ""},
	} {
		err := mayReboot(tt.m, tt.o)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	if a := (Driver{}).Check(t.Context(), local.Conn{}, allowed); a.OK || !strings.Contains(a.Fix, "host:") {
		t.Errorf("this machine: %+v", a)
	}
	s := script(t)
	if _, err := (Driver{}).Create(t.Context(), s, driver.Spec{Dir: t.TempDir(), Watch: true}); err == nil || s.boots > 0 {
		t.Errorf("%v, %d reboots without permission", err, s.boots)
	}
}
