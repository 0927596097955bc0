package env

import (
	"context"
	"math"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// printer is a host whose every program prints a text and ends with a code.
type printer struct {
	conn.Conn
	text string
	code int
}

func (p printer) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	cmd.Stdout.Write([]byte(p.text))
	return conn.Exit{Code: p.code}, nil
}

func TestReadMeter(t *testing.T) {
	for text, want := range map[string]float64{"12345.5\n": 12345.5, "0": 0, " 1e3 ": 1000} {
		if j, err := readMeter(t.Context(), printer{text: text}, []string{"meter"}); err != nil || *j != want {
			t.Errorf("%q: %v, %v, want %v", text, j, err, want)
		}
	}
	for _, p := range []printer{{text: ""}, {text: "NaN"}, {text: "+Inf"}, {text: "-3"}, {text: "12 J"}, {text: "1\n2"},
		{text: "1", code: 3},
		{text: "1" + strings.Repeat(" ", 300)}} {
		if j, err := readMeter(t.Context(), p, []string{"meter"}); j != nil || !fault.Is(err, fault.Lab) {
			t.Errorf("%q with code %d: %v, %v", p.text, p.code, j, err)
		}
	}
	if _, err := readMeter(t.Context(), local.Conn{}, []string{"/no/such/meter"}); !fault.Is(err, fault.Lab) ||
		!strings.Contains(err.Error(), "/no/such/meter") {
		t.Errorf("a command that is not there: %v", err)
	}
}

// FuzzReadMeter: whatever a command prints, a reading is a number of joules.
func FuzzReadMeter(f *testing.F) {
	f.Add("12345.6\n")
	f.Add("0x1p-2")
	f.Add("watts: 3")
	f.Fuzz(func(t *testing.T, text string) {
		if j, err := readMeter(t.Context(), printer{text: text}, []string{"meter"}); err == nil &&
			!(*j >= 0 && !math.IsInf(*j, 0)) {
			t.Errorf("%q is %v J", text, *j)
		}
	})
}

// A manager with a meter has what it says instead of the processor's counters.
func TestManagerMeter(t *testing.T) {
	m := &Manager{cfg: Config{Host: printer{text: "7.25"}, Meter: []string{"meter"}}, at: Here{local.Conn{}}}
	c, err := m.Counters(t.Context(), nil)
	if err != nil || c.Joules == nil || *c.Joules != 7.25 || c.Energy != nil {
		t.Errorf("%v, %+v, %v", c.Joules, c.Energy, err)
	}
	var said []string
	m = &Manager{cfg: Config{Name: "box", Host: printer{code: 1}, Meter: []string{"meter"},
		Progress: func(s string) { said = append(said, s) }}, at: Here{local.Conn{}}}
	for range 2 {
		if c, err := m.Counters(t.Context(), nil); err != nil || c.Joules != nil {
			t.Errorf("a meter that fails: %v, %v", c.Joules, err)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "energy of box is unavailable") {
		t.Errorf("a meter that fails twice is reported as %q", said)
	}
}
