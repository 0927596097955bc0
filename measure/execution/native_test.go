package execution

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/loop"
)

var stage = func(context.Context, param.Values, loop.Env) error { return nil }

func example(volume bool) Runner {
	doc := workload.Doc{
		Name: "example",
		Metrics: []sample.Metric{{Name: "throughput", Unit: "op/s", Better: sample.Higher, Primary: true,
			Scale: sample.Ratio}},
		Time: func(param.Values) time.Duration { return time.Second },
	}
	if volume {
		doc.Volume = "volume"
	}
	return Native(workload.Native(doc, loop.Loop{
		Name: "example",
		Params: []param.Spec{{Name: "volume", Kind: param.Text, Default: "/data"},
			{Name: "n", Kind: param.Int, Default: "1"}},
		Prepare: stage,
	}))
}

var values = param.Values{"n": "1", "volume": "/data"}

// subject is an environment whose agent answers as told.
type subject struct {
	driver.Instance
	info           driver.Info
	stdout, stderr string
	exit           conn.Exit
	err            error
	ran            [][]string
}

func (s *subject) Info() driver.Info { return s.info }

func (s *subject) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	s.ran = append(s.ran, cmd.Argv)
	io.WriteString(cmd.Stdout, s.stdout)
	io.WriteString(cmd.Stderr, s.stderr)
	return s.exit, s.err
}

func (s *subject) Push(context.Context, string, fs.FileMode, io.Reader) error { panic("not used") }
func (s *subject) Pull(context.Context, string, io.Writer) error              { panic("not used") }
func (s *subject) Dial(context.Context, string, string) (net.Conn, error)     { panic("not used") }

func TestRunAsksTheAgent(t *testing.T) {
	s := &subject{info: driver.Info{Agent: "/a", Scratch: "/tmp/s", Volumes: map[string]string{"/data": "/srv/v"}},
		stdout: "{}"}
	ctx := context.Background()
	raw, err := example(false).Run(ctx, Target{Subject: s}, values)
	if err != nil || string(raw[workload.Work]) != "{}" {
		t.Fatalf("raw %q, error %v", raw, err)
	}
	if got, want := strings.Join(s.ran[0], " "), "/a work example --json --stage run --dir /tmp/s/bakeoff-example "+
		"--hash-file /tmp/s/bakeoff-agent.sha256 n=1 volume=/data"; got != want {
		t.Errorf("ran %q, want %q", got, want)
	}
	if err := example(true).Prepare(ctx, Target{Subject: s}, values); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.ran[1], " "); !strings.Contains(got, "--stage prepare --dir /srv/v/bakeoff-example") {
		t.Errorf("ran %q: the volume is at /srv/v", got)
	}
	if err := example(true).Reset(ctx, Target{Subject: s}, values); err != nil || len(s.ran) != 2 {
		t.Errorf("a loop without a stage was run for it: %v, %v", s.ran[2:], err)
	}
}

func TestRunClassesFailures(t *testing.T) {
	for name, c := range map[string]struct {
		s    subject
		kind fault.Kind
		says string
	}{
		"wrong answer": {subject{exit: conn.Exit{Code: 1},
			stderr: "noise\nbakeoff-agent: work example: counted 3\x1b, 4 is right\n"}, fault.Subject,
			"example: work example: counted 3�, 4 is right"},
		"other parameter": {subject{exit: conn.Exit{Code: 2}, stderr: "m is not a parameter"}, fault.Lab,
			"m is not a parameter"},
		"not there": {subject{exit: conn.Exit{Code: 3}, stderr: "no such thing on this system"}, fault.Unsupported,
			"no such thing"},
		"agent failed":  {subject{exit: conn.Exit{Code: 4}}, fault.Lab, "exit code 4"},
		"out of memory": {subject{exit: conn.Exit{Code: 137, Signal: "killed"}}, fault.Subject, "killed"},
		"no agent":      {subject{err: fault.New(fault.NotFound, "/a")}, fault.Lab, "agent is missing"},
		"broken way":    {subject{err: fault.New(fault.Lab, "ssh: gone")}, fault.Lab, "ssh: gone"},
		"guest died":    {subject{err: fault.New(fault.Subject, "kernel panic")}, fault.Subject, "kernel panic"},
		"unclassed":     {subject{err: errors.New("what")}, fault.Lab, "what"},
		"floods":        {subject{stdout: strings.Repeat("x", maxResult+1)}, fault.Lab, "output is longer"},
	} {
		raw, err := example(false).Run(context.Background(), Target{Subject: &c.s}, values)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v error %v, want %v and %q", name, fault.Of(err), err, c.kind, c.says)
		}
		if c.s.stderr != "" && string(raw[workload.Stderr]) != c.s.stderr {
			t.Errorf("%s: what the agent said is lost", name)
		}
	}
}

func TestRunRefusesAnUndeclaredVolume(t *testing.T) {
	s := &subject{}
	_, err := example(true).Run(context.Background(), Target{Subject: s}, values)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.Fix(err), "volumes: {/data") || len(s.ran) != 0 {
		t.Errorf("error %v, fix %q, ran %v", err, fault.Fix(err), s.ran)
	}
}
