package openssl

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

// Without -elapsed the rate is bytes by CPU time, which nobody ever had.
func TestElapsedIsAlwaysGiven(t *testing.T) {
	for _, set := range []param.Values{nil, {"multi": "4"}, {"algorithm": "aes-256-gcm"}} {
		p := param.Defaults(New().Doc().Params)
		for k, v := range set {
			p[k] = v
		}
		cmd, err := New().Command(p, tooltest.At())
		if err != nil || !slices.Contains(cmd.Argv, "-elapsed") || !slices.Contains(cmd.Argv, "-mr") ||
			!slices.Contains(cmd.Argv, "-bytes") {
			t.Errorf("%v: %q, %v", set, cmd.Argv, err)
		}
	}
	for _, bad := range []string{"", "-engine", "sha256 -x", "$(x)"} {
		if _, err := New().Command(param.Values{"algorithm": bad, "time": "1s", "multi": "1"},
			tooltest.At()); !fault.Is(err, fault.Invalid) {
			t.Errorf("algorithm %q: %v", bad, err)
		}
	}
}

// The seconds of both +R and +F may be CPU time, and then agree with each other.
// They are compared with what was asked for and with the wall clock.
func TestCPUTimeIsNoElapsedTime(t *testing.T) {
	p := param.Values{"algorithm": "sha256", "block": "16B", "multi": "1", "time": "1s"}
	for _, c := range []struct {
		line, rate string
		elapsed    time.Duration
		want       string
	}{
		{"+R:1000000:sha256:1.000000", "16000000", 1014 * time.Millisecond, ""},
		// Half of the CPU: as many blocks, at twice the rate.
		{"+R:1000000:sha256:0.500000", "32000000", 1014 * time.Millisecond, "it counts CPU time"},
		// A loaded machine: it waited between setting its alarm and starting its clock.
		{"+R:1000000:sha256:0.880000", "18181818", 1130 * time.Millisecond, "wait for a CPU"},
		{"+R:1000000:sha256:2.000000", "8000000", 1014 * time.Millisecond, "the whole program took 1.014s"},
	} {
		out := tool.Output{Stdout: []byte("+H:16\n+F:25:sha256:" + c.rate + "\n"), Stderr: []byte(c.line + "\n"),
			Elapsed: c.elapsed}
		r, err := New().Parse(out, p)
		if err != nil || (c.want == "") != (r.OwnTime == "") || !strings.Contains(r.OwnTime, c.want) {
			t.Errorf("%s: %v, %q, want %q", c.line, err, r.OwnTime, c.want)
		}
	}
}

// As many processes report as were asked for.
func TestProcesses(t *testing.T) {
	for _, g := range tooltest.Load(t, New()) {
		if g.Params.Int("multi") < 2 {
			continue
		}
		g.Params["multi"] = "3"
		if _, err := New().Parse(g.Output, g.Params); !fault.Is(err, fault.Subject) ||
			!strings.Contains(err.Error(), `multi "2" instead of 3`) {
			t.Errorf("%s with three processes: %v", g.Path, err)
		}
		g.Params["multi"] = "2"
		g.Output.Stderr = bytes.Replace(g.Output.Stderr, []byte("+R"), []byte("+X"), 1)
		if _, err := New().Parse(g.Output, g.Params); !fault.Is(err, fault.Subject) ||
			!strings.Contains(err.Error(), "1 lines +R instead of 2") {
			t.Errorf("%s without a line +R: %v", g.Path, err)
		}
	}
}

// A rate that its own count of blocks contradicts is refused.
func TestRateMustAgreeWithItsCount(t *testing.T) {
	p := param.Values{"algorithm": "sha256", "block": "16B", "multi": "1", "time": "1s"}
	out := tool.Output{
		Stdout: []byte("+H:16\n+F:25:sha256:930000000.00\n"),
		Stderr: []byte("+DT:sha256:1:16\n+R:2911362:sha256:1.000000\n"),
	}
	if r, err := New().Parse(out, p); err == nil || !strings.Contains(err.Error(), "lines +R") {
		t.Errorf("gives %v, %v", r.Values, err)
	}
}

// The name is matched as versions write it, and the index is not.
func TestNamesAreMatched(t *testing.T) {
	for _, c := range []struct {
		line, algorithm string
		ok              bool
	}{
		{"+F:25:AES-256-GCM:100.00", "aes-256-gcm", true},
		{"+F:22:id-aes256-GCM:100.00", "aes-256-gcm", true},
		{"+F:3:sha256:100.00", "sha256", true},
		{"+F:25:sha512:100.00", "sha256", false},
		{"+F:25:AES-128-GCM:100.00", "aes-256-gcm", false},
		{"+F:25:sha256:100.00:200.00", "sha256", false},
		{"Got: +F:25:sha256:100.00 from 0", "sha256", false},
		{"+F:25:sha256:1\n+F:25:sha256:2", "sha256", false},
		{"Got: +F:22:sha256:1 from 0\n+F:22:evp:2", "sha256", true},
		{"Got: +F:22:sha1:1 from 0\n+F:22:evp:2", "sha256", false},
		{"+F:22:evp:2", "sha256", false},
	} {
		if _, err := parseRate([]byte(c.line), c.algorithm); c.ok != (err == nil) {
			t.Errorf("%q for %s: %v", c.line, c.algorithm, err)
		}
	}
}

// With -multi the line of the sum counts, not those of its children.
func TestManyProcesses(t *testing.T) {
	seen := 0
	for _, g := range tooltest.Load(t, New()) {
		if g.Params.Int("multi") < 2 {
			continue
		}
		seen++
		children := bytes.Count(g.Output.Stdout, []byte("Got: +F:"))
		r, err := New().Parse(g.Output, g.Params)
		if err != nil || children != int(g.Params.Int("multi")) {
			t.Fatalf("%s: %d children, %v", g.Path, children, err)
		}
		sum := 0.0
		for line := range bytes.Lines(g.Output.Stdout) {
			if rest, ok := strings.CutPrefix(string(line), "Got: +F:"); ok {
				v, err := labeled.Decimal(strings.Split(strings.Fields(rest)[0], ":")[2])
				if err != nil {
					t.Fatal(err)
				}
				sum += v
			}
		}
		if got := r.Values[0].Value; got < sum*0.999 || got > sum*1.001 {
			t.Errorf("%s: %g, and the children make %g", g.Path, got, sum)
		}
	}
	if seen == 0 {
		t.Error("there is no stored output of many processes")
	}
}
