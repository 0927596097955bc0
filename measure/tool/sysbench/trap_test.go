package sysbench

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/measure/tool/tooltest"
)

func stored(t *testing.T, name string) tooltest.Golden {
	t.Helper()
	for _, g := range tooltest.Load(t, New()) {
		if strings.HasSuffix(g.Path, name) {
			return g
		}
	}
	t.Fatalf("there is no stored output %s", name)
	return tooltest.Golden{}
}

// A build whose loop the compiler removed counts millions of events. They
// were not done, and are no figure.
func TestAnEmptyLoopIsNoFigure(t *testing.T) {
	g := stored(t, "cpu-1.0.20.txtar")
	r, err := New().Parse(g.Output, g.Params)
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Fields(string(mustLine(t, g.Output.Stdout, "total number of events:")))[0]
	for _, c := range []struct {
		events string
		ok     bool
	}{{was, true}, {"20000", true}, {"3000000", false}, {"40000000", false}} {
		out := g.Output
		out.Stdout = bytes.Replace(out.Stdout, []byte(was), []byte(c.events), 1)
		_, err := New().Parse(out, g.Params)
		if c.ok != (err == nil) || err != nil &&
			(!fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "removed the loop")) {
			t.Errorf("%s events (it had %g): %v", c.events, r.Work, err)
		}
	}
}

func mustLine(t *testing.T, out []byte, label string) string {
	t.Helper()
	s, err := labeled.Text(out).Line(label)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The bound never is more than what an event really does.
func TestDivisionsAreALowerBound(t *testing.T) {
	for _, limit := range []int64{10, 99, 100, 101, 1000, 20000, 200000} {
		real := 0.0
		for c := int64(3); c < limit; c++ {
			for l := int64(2); l*l <= c; l++ {
				real++
				if c%l == 0 {
					break
				}
			}
		}
		if got := divisions(limit); got > real+float64(limit)*0.2+10 || math.IsNaN(got) || got < float64(limit) {
			t.Errorf("up to %d: at least %g divisions, and it does %g", limit, got, real)
		}
	}
}

// The name of the test is an argument, and the block is always stated: its
// default of 1 KiB measures the loop around it.
func TestArguments(t *testing.T) {
	p := param.Defaults(New().Doc().Params)
	p["test"] = "memory"
	cmd, err := New().Command(p, tooltest.At())
	if err != nil || cmd.Argv[1] != "memory" || !slices.Contains(cmd.Argv, "--memory-block-size=1048576") {
		t.Errorf("%q, %v", cmd.Argv, err)
	}
	for _, a := range cmd.Argv {
		if strings.HasPrefix(a, "--test") {
			t.Errorf("%s is deprecated", a)
		}
	}
	p["time"] = "0s"
	if _, err := New().Command(p, tooltest.At()); !fault.Is(err, fault.Invalid) {
		t.Errorf("no time: %v", err)
	}
}

// An output of another block, limit or number of threads is not what was
// asked for.
func TestRefusesAnotherTestsOutput(t *testing.T) {
	for name, change := range map[string]param.Values{
		"cpu-1.0.20.txtar":                 {"max-prime": "10000"},
		"memory-1k-1.0.20.txtar":           {"block": "2KiB"},
		"memory-1m-2-threads-1.0.20.txtar": {"threads": "1"},
	} {
		g := stored(t, name)
		for k, v := range change {
			g.Params[k] = v
		}
		if r, err := New().Parse(g.Output, g.Params); !fault.Is(err, fault.Subject) ||
			!strings.Contains(err.Error(), "instead of") {
			t.Errorf("%s with %v gives %v, %v", name, change, r.Values, err)
		}
	}
}

// What sysbench says of its time and its limits is what was asked for.
func TestTimeAndLimits(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"cpu-1.0.20.txtar", "total time:                          1.0015s", "total time: 0.5s", "0.5 s instead of the 1s"},
		{"cpu-1.0.20.txtar", "total time:                          1.0015s", "total time: 2.0s", "the whole program took"},
		{"cpu-1.0.20.txtar", "Number of threads: 1\n", "Number of threads: 1\nTarget transaction rate: 10/sec\n",
			"ran with rate \"10/sec\" instead of no limit"},
		{"memory-1k-1.0.20.txtar", "total size: 0MiB", "total size: 100MiB",
			"ran with total size \"100mib\" instead of 0mib"},
	} {
		g := stored(t, c.name)
		out := bytes.Replace(g.Output.Stdout, []byte(c.old), []byte(c.new), 1)
		if bytes.Equal(out, g.Output.Stdout) {
			t.Fatalf("%s has no %q", c.name, c.old)
		}
		g.Output.Stdout = out
		r, err := New().Parse(g.Output, g.Params)
		if fault.Is(err, fault.Subject) {
			r.OwnTime = err.Error()
		}
		if !strings.Contains(r.OwnTime, c.want) || strings.Contains(c.want, " with ") != (err != nil) {
			t.Errorf("%s: %q, %v, want %q", c.new, r.OwnTime, err, c.want)
		}
	}
}
