package isolation

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Check says what is missing and how to get it, on hosts that lack one thing
// each. Their answers are those of the programs named.
func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		host       scripted
		reason     string
		fix        string
		packageFor string
	}{
		"FreeBSD": {scripted{"uname -s": "FreeBSD\n"}, "the host runs FreeBSD", "Linux", ""},
		"a user":  {scripted{"uname -s": "Linux\n", "id -u": "1000\n"}, "not root", "sudo", ""},
		"no kill": {scripted{"uname -s": "Linux\n", "id -u": "0\n", "bwrap --version": "x\n"},
			"not installed: kill", "apt-get install procps", "procps"},
		"no bwrap": {scripted{"kill --version": "x\n", "uname -s": "Linux\n", "id -u": "0\n"}, "not installed: bwrap",
			"apt-get install bubblewrap", "bubblewrap"},
		"no control groups": {scripted{"uname -s": "Linux\n", "id -u": "0\n", "bwrap --version": "x\n",
			"kill --version": "x\n", "cat /proc/self/mounts": "proc /proc proc rw 0 0\n"},
			"none are mounted", "mount -t cgroup2", ""},
		"no unshare": {scripted{"uname -s": "Linux\n", "id -u": "0\n", "bwrap --version": "x\n", "kill --version": "x\n",
			"cat /proc/self/mounts": "cgroup2 /g cgroup2 rw 0 0\n", "cat /g/cgroup.controllers": "cpuset memory\n"},
			"not installed: ip, unshare", "apt-get install iproute2 util-linux", "iproute2 util-linux"},
		"no overlay": {scripted{"uname -s": "Linux\n", "id -u": "0\n", "bwrap --version": "x\n", "kill --version": "x\n",
			"cat /proc/self/mounts": "cgroup2 /g cgroup2 rw 0 0\n", "cat /g/cgroup.controllers": "cpuset memory\n",
			"unshare --net ip link add probe0 type bridge":                "",
			"unshare --net ip link add probe0 type veth peer name probe1": "",
			"cat /proc/filesystems":                                       "nodev\tproc\n\text4\n"},
			"no overlay file system", "CONFIG_OVERLAY_FS", ""},
	} {
		a := Check(t.Context(), test.host, Needs{Overlay: true, Programs: map[string]string{"bwrap": "bubblewrap"}})
		if a.OK || !strings.Contains(a.Reason, test.reason) || !strings.Contains(a.Fix, test.fix) ||
			strings.Join(a.Packages, " ") != test.packageFor {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// scripted answers commands with what it holds; what it does not hold is not
// installed.
type scripted map[string]string

func (s scripted) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	line := strings.Join(cmd.Argv, " ")
	out, ok := s[line]
	if !ok {
		return conn.Exit{}, fault.New(fault.NotFound, "%s: not found", cmd.Argv[0])
	}
	if cmd.Stdout != nil {
		io.WriteString(cmd.Stdout, out)
	}
	return conn.Exit{}, nil
}

func (scripted) Push(context.Context, string, os.FileMode, io.Reader) error { return errors.New("no") }
func (scripted) Pull(context.Context, string, io.Writer) error              { return errors.New("no") }

func (scripted) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no")
}

func TestNewRefuses(t *testing.T) {
	for name, spec := range map[string]driver.Spec{
		"no directory": {Label: "x", CPUSet: []int{0}},
		"the root":     {Label: "x", Dir: "/", CPUSet: []int{0}},
		"relative":     {Label: "x", Dir: "a", CPUSet: []int{0}},
		"no CPUs":      {Label: "x", Dir: "/a"},
	} {
		if _, err := New(t.Context(), local.Conn{}, spec); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"vm.swappiness", "net.ipv4/../../kernel/core_pattern", "kernel.shmmax"} {
		spec := driver.Spec{Label: "x", Dir: "/a", CPUSet: []int{0}, Tuning: map[string]string{name: "1"}}
		if _, err := New(t.Context(), local.Conn{}, spec); !fault.Is(err, fault.Unsupported) {
			t.Errorf("tuning %s: %v", name, err)
		}
	}
	_, err := Reap(t.Context(), local.Conn{}, driver.Leftover{Label: "x-none", Dir: "/"}, true)
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("reaping /: %v", err)
	}
}

func TestTogether(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	meet := make(chan bool)
	err := Together(func() error { <-meet; return a }, func() error { meet <- true; return nil },
		func() error { return b })
	if !errors.Is(err, a) || !errors.Is(err, b) {
		t.Errorf("%v", err)
	}
	if err := Together(func() error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestJournalIsBounded(t *testing.T) {
	e := &Env{Host: scripted{}, Spec: driver.Spec{Label: "x"}}
	for range 1000 {
		e.log.add([]string{"false", strings.Repeat("x", 5000)}, conn.Exit{Code: 1}, nil, []byte("why\xff"))
	}
	e.log.add([]string{"true"}, conn.Exit{}, nil, nil)
	text := e.Diagnose(t.Context())
	if len(text) > maxDiagnosis || !strings.Contains(string(text), "why�") || strings.Contains(string(text), `"true"`) {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}

// With what is on this machine, a dry run finds nothing and changes nothing.
func TestReapNothing(t *testing.T) {
	if _, err := os.Stat("/proc/self/mountinfo"); err != nil {
		t.Skip("needs Linux")
	}
	found, err := Reap(t.Context(), local.Conn{}, driver.Leftover{Label: "confine-test-none",
		Dir: filepath.Join(t.TempDir(), "none")}, true)
	if err != nil || len(found) > 0 {
		t.Errorf("%q, %v", found, err)
	}
}
