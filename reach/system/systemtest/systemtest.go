// Package systemtest is the suite that every system passes, and a fake machine
// with fixed answers for those that the project cannot run.
package systemtest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
)

var name = lazy.Compile(`^[a-z][a-z0-9-]*$`)

// Answers is a state of a machine: its answers, and whether the system should
// count as ready.
type Answers struct {
	Machine Machine
	Ready   bool
}

// RC are the states of a system whose Ready is that of system.RC.
var RC = map[string]Answers{
	"rc runs":      {Machine: pgrepRC(Answer{Code: 0, Stdout: "17\n"})},
	"rc has ended": {Machine: pgrepRC(Answer{Code: 1}), Ready: true},
}

func pgrepRC(a Answer) Machine {
	return Machine{Says: map[string]Answer{"pgrep -f sh /etc/rc( |$)": a}}
}

// Run checks the Doc, and that Ready interprets the answers correctly. The
// answers must cover all programs that Ready runs.
func Run(t *testing.T, s system.System, states map[string]Answers) {
	t.Helper()
	checkDoc(t, s.Doc())
	if len(states) == 0 {
		t.Error("no states to test")
	}
	for what, a := range states {
		ready, err := s.Ready(t.Context(), &a.Machine)
		if err != nil || ready != a.Ready {
			t.Errorf("%s: ready is %v (%v), want %v", what, ready, err, a.Ready)
		}
	}
	broken := &Machine{Broken: fault.New(fault.Lab, "the connection is broken")}
	if ready, err := s.Ready(t.Context(), broken); ready || err == nil {
		t.Errorf("over a broken connection: ready %v, error %v", ready, err)
	}
}

func checkDoc(t *testing.T, d system.Doc) {
	t.Helper()
	for what, empty := range map[string]bool{
		"Name": !name.MatchString(d.Name), "Summary": d.Summary == "" || strings.HasSuffix(d.Summary, "."),
		"Status": d.Status == "",
		"Kernel": d.Kernel == "", "Manager.Name": d.Manager.Name == "", "Manager.Install": len(d.Manager.Install) < 2,
		"Manager.Query": len(d.Manager.Query) == 0, "Files": d.Files["nginx"] == "" || d.Files["sshd"] == "",
		"Service": !strings.Contains(strings.Join(d.Service, " "), "NAME"), "Readiness": d.Readiness == "",
		"Counters": len(d.Counters) == 0, "Fingerprint": len(d.Fingerprint) == 0, "Source": len(d.Source) == 0,
	} {
		if empty {
			t.Errorf("Doc of %s: %s is missing or wrong", d.Name, what)
		}
	}
	for what, path := range d.Files {
		if !strings.HasPrefix(path, "/") {
			t.Errorf("%s: the file of %s is %q, which is not absolute", d.Name, what, path)
		}
	}
	for _, p := range d.Base {
		if _, ok := d.Package(p); ok {
			t.Errorf("%s: %s is in the base system and in a package", d.Name, p)
		}
	}
	if line := d.InstallPrograms("fio", "sh"); !strings.HasSuffix(line, " fio") ||
		!strings.HasPrefix(line, d.Manager.Install[0]) {
		t.Errorf("%s: fio is installed by %q", d.Name, line)
	}
	if line := d.InstallPrograms("sh"); line != "" {
		t.Errorf("%s: what is there is installed by %q", d.Name, line)
	}
}

// Machine is a conn.Conn with fixed answers. An unknown program or file is an
// error of kind fault.NotFound.
type Machine struct {
	// Says maps a command line, its words parted by one space, to the answer.
	Says map[string]Answer
	// Files maps absolute paths to contents.
	Files map[string]string
	// Broken is returned by everything, when set.
	Broken error
}

// Answer is how a program ends and what it prints.
type Answer struct {
	Code   int
	Stdout string
}

// Exec answers.
func (m *Machine) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if m.Broken != nil {
		return conn.Exit{}, m.Broken
	}
	a, ok := m.Says[strings.Join(cmd.Argv, " ")]
	if !ok {
		return conn.Exit{}, fault.New(fault.NotFound, "%s: not found", cmd.Argv[0])
	}
	if cmd.Stdout != nil {
		if _, err := io.WriteString(cmd.Stdout, a.Stdout); err != nil {
			return conn.Exit{}, err
		}
	}
	return conn.Exit{Code: a.Code}, nil
}

// Pull answers.
func (m *Machine) Pull(_ context.Context, src string, dst io.Writer) error {
	if m.Broken != nil {
		return m.Broken
	}
	text, ok := m.Files[src]
	if !ok {
		return fault.New(fault.NotFound, "%s does not exist", src)
	}
	_, err := io.WriteString(dst, text)
	return err
}

// Push fails: a system is only read.
func (m *Machine) Push(context.Context, string, fs.FileMode, io.Reader) error {
	return fault.Wrap(fault.Unsupported, "", fmt.Errorf("this machine is read-only"))
}

// Dial fails.
func (m *Machine) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, fault.Wrap(fault.Unsupported, "", fmt.Errorf("this machine is read-only"))
}
