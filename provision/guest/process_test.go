package guest

import (
	"context"
	"io"
	"strings"
	"testing"

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
		{"", nil, nil, fault.Subject, "it did not come up: vm has ended (exit code 3) (it printed nothing)"},
		{"bad\x1b[2J\n", nil, nil, fault.Subject, "the end of what it printed:\nbad"},
		{"", nil, lab, fault.Lab, "it did not come up: it refused its arguments"},
		{"", fault.New(fault.Lab, "the host is gone"), nil, fault.Lab, "vm: the host is gone"},
		{"", fault.New(fault.Lab, "the host is gone"), lab, fault.Lab, "vm: the host is gone"},
	} {
		e := &Env{Why: tt.why, Spec: driver.Spec{Label: "x"}, Host: host{exec: func(cmd conn.Cmd) (conn.Exit, error) {
			io.WriteString(cmd.Stdout, tt.output)
			return conn.Exit{Code: 3}, tt.err
		}}}
		p := e.Start(t.Context(), "vm")
		<-p.Ended()
		err := p.explain(notUp)
		if !fault.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("kind %v: %v\nwant %v with %q", fault.Of(err), err, tt.kind, tt.says)
		}
	}
}
