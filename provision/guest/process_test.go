package guest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// host executes every program by a function.
type host struct {
	conn.Conn
	exec func(cmd conn.Cmd) (conn.Exit, error)
}

func (h host) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) { return h.exec(cmd) }

// The end of a process is the subject's fault, or what the driver says, or the
// lab's if the connection to the host broke.
func TestEndOfProcess(t *testing.T) {
	lab := func(conn.Exit, []byte) error { return fault.New(fault.Lab, "it refused its arguments") }
	for _, tt := range []struct {
		output string
		err    error
		why    func(conn.Exit, []byte) error
		kind   fault.Kind
		says   string
	}{
		{"", nil, nil, fault.Subject, "vm has ended (exit code 3) (it printed nothing)"},
		{"bad\x1b[2J\n", nil, nil, fault.Subject, "the end of its output:\nbad"},
		{"", nil, lab, fault.Lab, "it refused its arguments"},
		{"", fault.New(fault.Lab, "the host is gone"), nil, fault.Lab, "vm: the host is gone"},
		{"", fault.New(fault.Lab, "the host is gone"), lab, fault.Lab, "vm: the host is gone"},
	} {
		e := &Env{Spec: driver.Spec{Label: "x"}, Host: host{exec: func(cmd conn.Cmd) (conn.Exit, error) {
			io.WriteString(cmd.Stdout, tt.output)
			return conn.Exit{Code: 3}, tt.err
		}}}
		p := e.Start(t.Context(), "vm")
		p.Why = tt.why
		<-p.Ended()
		err := p.Until(t.Context(), time.Minute, func() error { return errors.New("nobody answers") })
		if !fault.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) ||
			strings.Contains(err.Error(), "come up") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("kind %v: %v\nwant %v with %q", fault.Of(err), err, tt.kind, tt.says)
		}
	}
}

// The reason does not repeat what the line of the console says.
func TestReasonsAreSaidOnce(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"[    1.0] Kernel panic - not syncing: VFS: no root\r\n", "the guest's kernel panicked: VFS: no root"},
		{"BUG: kernel NULL pointer dereference\n", "the guest's kernel failed: BUG: kernel NULL pointer dereference"},
		{"bakeoff-agent: init: no port\n", "the guest's init process failed: bakeoff-agent: init: no port"},
		{"Welcome\n", ""},
	} {
		if got := Diagnose([]byte(c.line)); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}
