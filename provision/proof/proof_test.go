package proof

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/conntest"
	"bakeoff/reach/conn/local"
)

// A recorder does not disturb the connection.
func TestRecorderIsAConn(t *testing.T) {
	conntest.Run(t, NewRecorder(local.Conn{}, io.Discard, time.Now), conntest.Options{Dir: t.TempDir(), Bytes: 1 << 18})
}

// What was done is in the transcript, in bounds, and no secret of the
// environment.
func TestTranscript(t *testing.T) {
	var text bytes.Buffer
	r := NewRecorder(local.Conn{}, &text, time.Now)
	dir := t.TempDir()
	r.Exec(t.Context(), conn.Cmd{Argv: []string{"sh", "-c", "cat; echo no >&2; exit 3"}, Env: []string{"TOKEN=secret"},
		Stdin: strings.NewReader("give")})
	r.Exec(t.Context(), conn.Command("head", "-c", "1000000", "/dev/zero"))
	r.Exec(t.Context(), conn.Command("/no/such/program"))
	r.Push(t.Context(), dir+"/f", 0o600, strings.NewReader("content"))
	r.Pull(t.Context(), dir+"/f", io.Discard)
	r.ReadFile(t.Context(), dir+"/f")
	r.ReadDir(t.Context(), dir)
	r.Dial(t.Context(), "unix", dir+"/nobody")
	n, err := r.End()
	if n != 8 || err != nil {
		t.Fatalf("%d lines, %v", n, err)
	}
	r.Mkdir(t.Context(), dir+"/late")
	var lines []Line
	for line := range strings.Lines(text.String()) {
		if len(line) > 16<<10 {
			t.Errorf("a line of %d bytes", len(line))
		}
		var l Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 8 || strings.Contains(text.String(), "secret") {
		t.Fatalf("%d lines: %s", len(lines), text.String())
	}
	if l := lines[0]; l.Stdin != "give" || l.Stdout != "give" || l.Stderr != "no\n" || l.Exit.Code != 3 ||
		l.Env[0] != "TOKEN" {
		t.Errorf("%+v", l)
	}
	if l := lines[1]; l.Bytes[1] != 1000000 || len(l.Stdout) > maxKept {
		t.Errorf("%d bytes, %d kept", l.Bytes[1], len(l.Stdout))
	}
	if lines[2].Err == "" || lines[3].Stdin != "content" || lines[5].Stdout != "content" || lines[6].Stdout != "f" ||
		lines[7].Err == "" {
		t.Errorf("%+v", lines[2:])
	}
}

// absent is a driver whose technology is not there.
type absent struct{}

func (absent) Doc() driver.Doc {
	return driver.Doc{Name: "absent", Summary: "nothing", Status: driver.Unproven, Hosts: []string{"moon"},
		Backings: []string{"dir"},
		Enforces: map[string]string{"cpus": "nothing"}, Source: []string{"none"},
		Tuning: driver.Tuning{Why: "there is nothing to tune"}}
}

func (absent) Check(context.Context, conn.Conn, param.Values) driver.Availability {
	return driver.Availability{Reason: "there is no moon", Fix: "wait"}
}

func (absent) Create(context.Context, conn.Conn, driver.Spec) (driver.Instance, error) {
	return nil, fault.New(fault.Unsupported, "no")
}

func (absent) Reap(context.Context, conn.Conn, driver.Leftover, bool) ([]string, error) {
	return nil, nil
}

// What is not there proves nothing, and takes no older proof away.
func TestAbsent(t *testing.T) {
	state := t.TempDir()
	_, err := Run(t.Context(), Config{Driver: absent{}, Host: local.Conn{}, StateDir: state, Now: time.Now})
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "there is no moon") {
		t.Errorf("%v", err)
	}
	if _, err := Load(state, "absent"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a proof that is not there: %v", err)
	}
}

// broken is there, and cannot do anything.
type broken struct{ absent }

func (broken) Check(context.Context, conn.Conn, param.Values) driver.Availability {
	return driver.Availability{OK: true, Facts: map[string]string{"version": "0"}}
}

// What failed is kept, with its commands.
func TestBroken(t *testing.T) {
	state := t.TempDir()
	agent := filepath.Join(state, "agent")
	if err := os.WriteFile(agent, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	heard := 0
	p, err := Run(t.Context(), Config{Driver: broken{}, Host: local.Conn{}, Agent: agent, StateDir: state, Now: time.Now,
		Ended: func(suite.Outcome) { heard++ },
		Suite: drivertest.Options{Without: map[string]string{"network": "needs root"}}})
	if err != nil || p.Passed || !strings.Contains(p.Why, "failed: life, ") || heard != len(p.Tests) {
		t.Fatalf("%+v, %v", p, err)
	}
	got, err := Load(state, "absent")
	if err != nil || got.Why != p.Why || got.Facts["version"] != "0" || got.Holds(got.Machine) {
		t.Errorf("%+v, %v", got, err)
	}
	text, err := os.ReadFile(filepath.Join(state, "proof", got.Transcript))
	if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != got.TranscriptSHA256 {
		t.Errorf("the transcript is not the one that the proof names: %v", err)
	}
}

func outcomes(name string, status map[string]suite.Status) (out []suite.Outcome) {
	whole := suite.Passed
	for _, n := range needed {
		s := suite.Passed
		if x, ok := status[n]; ok {
			s = x
		}
		if s == suite.Failed {
			whole = suite.Failed
		}
		out = append(out, suite.Outcome{Name: name + "/" + n, Status: s})
	}
	return append(out, suite.Outcome{Name: name, Status: whole})
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		tests []suite.Outcome
		ok    bool
		why   string
	}{
		{outcomes("d", nil), true, ""},
		{outcomes("d", map[string]suite.Status{"life": suite.Failed}), false, "failed: life"},
		{outcomes("d", map[string]suite.Status{"crashed": suite.Skipped}), false, "the test crashed did not run"},
		{nil, false, "the suite did not finish"},
		{outcomes("e", nil), false, "the suite did not finish"},
	} {
		if ok, why := judge("d", c.tests); ok != c.ok || why != c.why {
			t.Errorf("%v: %v %q, want %v %q", c.tests, ok, why, c.ok, c.why)
		}
	}
}

// A proof holds for the kernel that it was made on; one that contradicts
// itself is none.
func TestHolds(t *testing.T) {
	m := Machine{"freebsd", "amd64", "14.2-RELEASE"}
	p := Proof{Schema: Schema, Driver: "d", Passed: true, Machine: m, Tests: outcomes("d", nil)}
	newer := m
	newer.Release = "15.0-RELEASE"
	if !p.Holds(m) || p.Holds(newer) {
		t.Error("a proof is taken for another kernel's")
	}
	if n := p.Counts(); n[suite.Passed] != len(needed) {
		t.Errorf("counts %v", n)
	}
	text, _ := json.Marshal(p)
	if _, err := Parse(text, "d"); err != nil {
		t.Error(err)
	}
	p.Tests = nil
	text, _ = json.Marshal(p)
	if _, err := Parse(text, "d"); !fault.Is(err, fault.Invalid) {
		t.Errorf("passed without tests: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	text, _ := json.Marshal(Proof{Schema: Schema, Driver: "d", Passed: true, Tests: outcomes("d", nil)})
	f.Add(text)
	f.Add([]byte(`{"schema":"bakeoff/proof/v1","driver":"d","tests":[{"name":"d/life","status":"passed"}]}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text, "d")
		if err == nil && p.Passed {
			if ok, why := judge("d", p.Tests); !ok {
				t.Errorf("passed, and %s", why)
			}
		}
	})
}
