package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// run calls Main as a command would and returns what it printed.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &err, testLoops)
	return out.String(), err.String(), code
}

var testLoops = []loop.Loop{
	{
		Name:   "good",
		Params: []param.Spec{{Name: "n", Kind: param.Int, Default: "3"}},
		Run: func(_ context.Context, p param.Values, env loop.Env) (wire.Result, error) {
			v := sample.Value{Metric: "throughput", Unit: "op/s", Value: float64(p.Int("n"))}
			return wire.Result{Values: []sample.Value{v}, Work: 1, Check: wire.Check{Verified: true, Answer: env.Dir}}, nil
		},
	},
	{Name: "wrong", Run: func(context.Context, param.Values, loop.Env) (wire.Result, error) {
		return wire.Result{}, bytes.ErrTooLarge // an error without a class
	}},
	{Name: "elsewhere", Run: func(context.Context, param.Values, loop.Env) (wire.Result, error) {
		return wire.Result{}, fault.New(fault.Unsupported, "not on this system")
	}},
}

func TestWorkPrintsAResult(t *testing.T) {
	out, errs, code := run(t, "work", "good", "--json", "--dir", "/d", "n=7")
	if code != wire.ExitOK {
		t.Fatalf("code %d: %s", code, errs)
	}
	var r wire.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Schema != wire.WorkSchema || r.Loop != "good" || r.Params["n"] != "7" || r.Values[0].Value != 7 ||
		r.Check.Answer != "/d" {
		t.Errorf("result is %+v", r)
	}
	if len(r.Agent) != 64 || r.Counters == nil || r.Usage == nil || r.Usage.CPUSeconds() <= 0 {
		t.Errorf("the agent did not fill in its part: %s", out)
	}
}

func TestCodesTellClasses(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"work good --json n=x", wire.ExitInvalid, "not a whole number"},
		{"work good --json m=1", wire.ExitInvalid, "not a parameter"},
		{"work nothing", wire.ExitInvalid, "unknown native workload"},
		{"work", wire.ExitInvalid, "no workload given"},
		{"work good --stage later", wire.ExitInvalid, "unknown stage"},
		{"work good --stage reset", wire.ExitOK, ""},
		{"work wrong --json", wire.ExitSubject, "work wrong: "},
		{"work elsewhere --json", wire.ExitUnsupported, "not on this system"},
		{"exec --json", wire.ExitInvalid, "no program given"},
		{"exec --json -- /does/not/exist", wire.ExitNotFound, "exec: /does/not/exist: no such file"},
		{"exec --json -- /etc", wire.ExitSubject, "permission denied"},
		{"probe else", wire.ExitInvalid, "fingerprint, counters or executable"},
		{"probe counters --cpus a", wire.ExitInvalid, "not a list of CPUs"},
		{"what", wire.ExitInvalid, "usage: bakeoff-agent"},
	} {
		out, errs, code := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d, want %d; says %q, want %q", c.args, code, c.code, errs, c.says)
		}
		if out != "" && c.code != wire.ExitOK {
			t.Errorf("%s: printed %q although it failed", c.args, out)
		}
	}
}

func execResult(t *testing.T, args ...string) wire.ExecResult {
	t.Helper()
	out, errs, code := run(t, append([]string{"exec", "--json"}, args...)...)
	if code != wire.ExitOK {
		t.Fatalf("code %d: %s", code, errs)
	}
	var r wire.ExecResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExecTellsHowACommandEnded(t *testing.T) {
	r := execResult(t, "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 3")
	if r.Schema != wire.ExecSchema || r.Code != 3 || r.Signal != "" || string(r.Stdout) != "out\n" ||
		string(r.Stderr) != "err\n" {
		t.Errorf("result is %+v", r)
	}
	if r.ElapsedNS <= 0 || r.Counters.After.AtNS-r.Counters.Before.AtNS < r.ElapsedNS {
		t.Errorf("the counters do not bracket the command: %d ns in %d", r.ElapsedNS,
			r.Counters.After.AtNS-r.Counters.Before.AtNS)
	}
	r = execResult(t, "--", "/bin/sh", "-c", "kill -SEGV $$")
	if r.Code != 128+11 || r.Signal != "segmentation fault" {
		t.Errorf("code %d, signal %q", r.Code, r.Signal)
	}
}

func TestExecCountsTheCommandsCPU(t *testing.T) {
	r := execResult(t, "--", "/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if cpu := r.Usage.CPUSeconds(); cpu <= 0 || cpu > float64(r.ElapsedNS)/1e9+0.02 {
		t.Errorf("%g s of CPU in %g s", cpu, float64(r.ElapsedNS)/1e9)
	}
}

// What a command started in the background must not outlive it, nor hold the
// agent back forever.
func TestExecKillsTheWholeGroup(t *testing.T) {
	start := time.Now()
	r := execResult(t, "--timeout", "200ms", "--", "/bin/sh", "-c", "sleep 100 & echo $!; sleep 101")
	if r.Signal != "killed" || time.Since(start) > 50*time.Second {
		t.Errorf("signal %q after %v", r.Signal, time.Since(start))
	}
	if took := time.Duration(r.ElapsedNS); took < 200*time.Millisecond {
		t.Errorf("it was killed after %v, before its time had passed", took)
	}
	pid := strings.TrimSpace(string(r.Stdout))
	deadline := time.Now().Add(time.Minute)
	for exec.Command("/bin/kill", "-0", pid).Run() == nil {
		state, _ := exec.Command("/bin/ps", "-o", "stat=", "-p", pid).Output()
		if strings.HasPrefix(string(state), "Z") {
			break // dead, and not yet collected by init
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s still runs", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestExecBoundsOutput(t *testing.T) {
	r := execResult(t, "--", "/bin/sh", "-c", "head -c 3000000 /dev/zero")
	if len(r.Stdout) != execOutput || !r.Truncated {
		t.Errorf("%d bytes, truncated %v", len(r.Stdout), r.Truncated)
	}
}

// All output of a command is kept in its order: what it prints at once, which is more than a
// pipe holds, and what it prints when the agent has stopped waiting briefly for it.
func TestExecKeepsOutputOfAllTimes(t *testing.T) {
	const script = "echo first; echo error >&2; head -c 200000 /dev/zero; sleep 0.1; echo then; echo more >&2; exit 3"
	r := execResult(t, "--", "/bin/sh", "-c", script)
	if want := "first\n" + strings.Repeat("\x00", 200000) + "then\n"; string(r.Stdout) != want || r.Truncated {
		t.Errorf("%d bytes of %d, truncated %v", len(r.Stdout), len(want), r.Truncated)
	}
	if string(r.Stderr) != "error\nmore\n" || r.Code != 3 || r.Signal != "" {
		t.Errorf("%q, code %d, signal %q", r.Stderr, r.Code, r.Signal)
	}
	// Closed by the command before its end, and killed within the brief time.
	if r := execResult(t, "--", "/bin/sh", "-c", "echo x; exec >&- 2>&-; sleep 0.1; exit 4"); string(r.Stdout) != "x\n" ||
		r.Code != 4 {
		t.Errorf("%q, code %d", r.Stdout, r.Code)
	}
	if r := execResult(t, "--timeout", "5ms", "--", "/bin/sleep", "1000000"); r.Signal == "" || r.ElapsedNS < 5e6 {
		t.Errorf("signal %q after %d ns", r.Signal, r.ElapsedNS)
	}
}

// A repeated command is executed until the time has passed, at least twice if it is short,
// and the result has the time of each execution and the output of the last.
func TestExecRepeats(t *testing.T) {
	var count, script string
	var r wire.ExecResult
	// One execution that takes four times as long as asked is enough, as on a busy machine.
	for _, repeat := range []time.Duration{50 * time.Millisecond, time.Second, 20 * time.Second} {
		count = filepath.Join(t.TempDir(), "count")
		script = "echo x >> " + count + "; wc -l < " + count
		r = execResult(t, "--repeat", repeat.String(), "--", "/bin/sh", "-c", script)
		var sum int64
		for _, ns := range r.RunsNS {
			sum += ns
		}
		n := len(r.RunsNS)
		if n == 0 || strings.TrimSpace(string(r.Stdout)) != fmt.Sprint(n) {
			t.Errorf("%d executions, the last printed %q", n, r.Stdout)
		}
		if r.ElapsedNS < repeat.Nanoseconds() || sum > r.ElapsedNS || sum <= 0 {
			t.Errorf("%d ns in executions of %d ns", sum, r.ElapsedNS)
		}
		if n > 1 {
			break
		}
	}
	if len(r.RunsNS) < 2 {
		t.Errorf("%d executions", len(r.RunsNS))
	}
	out, _, _ := run(t, "exec", "--json", "--repeat", "1h", "--", "/bin/sh", "-c", script+"; [ $(wc -l < "+count+") -lt "+
		fmt.Sprint(len(r.RunsNS)+3)+" ]")
	if r, err := wire.ParseExec([]byte(out)); err != nil || len(r.RunsNS) != 3 || r.Code != 1 {
		t.Errorf("a failure ends the repetition: %d executions, code %d, %v", len(r.RunsNS), r.Code, err)
	}
	if r := execResult(t, "--", "/bin/true"); r.RunsNS != nil {
		t.Errorf("one execution has times of several: %v", r.RunsNS)
	}
}

func TestEnough(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		runs           int
		passed, repeat time.Duration
		want           bool
	}{
		{0, 0, 0, true}, {1, 24 * ms, 25 * ms, false}, {2, 24 * ms, 25 * ms, false}, {2, 25 * ms, 25 * ms, true},
		{1, 99 * ms, 25 * ms, false}, {1, 100 * ms, 25 * ms, true}, {maxRepeats, 0, time.Hour, true},
	} {
		if got := enough(make([]int64, c.runs), c.passed, c.repeat); got != c.want {
			t.Errorf("%d executions in %v of %v: %v", c.runs, c.passed, c.repeat, got)
		}
	}
}

func TestExecPassesThroughWithoutJSON(t *testing.T) {
	out, errs, code := run(t, "exec", "--", "/bin/sh", "-c", "echo hello; exit 4")
	if out != "hello\n" || code != 4 || !strings.Contains(errs, "s wall") {
		t.Errorf("printed %q and %q, code %d", out, errs, code)
	}
}

func TestListNamesLoops(t *testing.T) {
	out, _, code := run(t, "list", "--json")
	if code != 0 || !strings.Contains(out, `"name":"good"`) || !strings.Contains(out, `"default":"3"`) {
		t.Errorf("printed %q", out)
	}
}

// What a command left behind holds the pipe of its output open: the command's time has
// ended, and what it printed is there.
func TestExecDoesNotTimeWhatACommandLeavesBehind(t *testing.T) {
	start := time.Now()
	r := execResult(t, "--", "/bin/sh", "-c", "echo $$; sleep 100 & echo out")
	took := time.Since(start)
	pid, said, _ := strings.Cut(string(r.Stdout), "\n")
	if said != "out\n" || r.Code != 0 {
		t.Errorf("printed %q, code %d", r.Stdout, r.Code)
	}
	if took-time.Duration(r.ElapsedNS) < outputDelay {
		t.Errorf("%d ns of %v: the rest of the pipe was timed", r.ElapsedNS, took)
	}
	if err := exec.Command("/bin/kill", "-KILL", "--", "-"+pid).Run(); err != nil {
		t.Errorf("the group %s: %v", pid, err)
	}
}
