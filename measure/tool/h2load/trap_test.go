package h2load

import (
	"bytes"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

func with(set param.Values) param.Values { return tooltest.With(New(), set) }

// good is the stored output over HTTP/1.1, with its parameters.
func good(t *testing.T) tooltest.Golden {
	t.Helper()
	for _, g := range tooltest.Load(t, New()) {
		if strings.Contains(g.Path, "good-h1") {
			return g
		}
	}
	t.Fatal("no stored output over HTTP/1.1")
	return tooltest.Golden{}
}

// It falls back to HTTP/1.1 without a failure. The trial then has failed: it measured another
// protocol than the lab file names.
func TestFallbackIsNoResult(t *testing.T) {
	g := good(t)
	r, err := New().Parse(g.Output, g.Params)
	if err != nil || r.Protocol != "HTTP/1.1" {
		t.Fatalf("%+v, %v", r, err)
	}
	g.Params["protocol"] = "http/2"
	if _, err := New().Parse(g.Output, g.Params); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "used the protocol HTTP/1.1 instead of http/2") {
		t.Errorf("%v", err)
	}
}

// It divides by the length that it was asked for, also if its timer came late.
func TestLateTimerIsGated(t *testing.T) {
	g := good(t)
	at := bytes.Index(g.Output.Stdout, []byte("finished in "))
	end := at + bytes.IndexByte(g.Output.Stdout[at:], ',')
	for took, gated := range map[string]bool{"1.05s": false, "1.30s": true, "700.00ms": true} {
		out := tool.Output{Stdout: bytes.Join([][]byte{g.Output.Stdout[:at], []byte("finished in " + took),
			g.Output.Stdout[end:]}, nil)}
		if r, err := New().Parse(out, g.Params); err != nil || (r.OwnTime != "") != gated {
			t.Errorf("finished in %s: %q, %v", took, r.OwnTime, err)
		}
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	for name, set := range map[string]param.Values{"no time": {"time": "0s"},
		"threads": {"threads": "8", "connections": "4"}, "pipelining": {"streams": "2"}} {
		if _, err := New().Command(with(set), tooltest.At()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cmd, err := New().Command(with(param.Values{"streams": "2", "protocol": "http/2"}), tooltest.At())
	if err != nil || strings.Contains(strings.Join(cmd.Argv, " "), "--h1") {
		t.Errorf("HTTP/2: %q, %v", cmd.Argv, err)
	}
}
