package runner

import (
	"context"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// openssl speed divides by its CPU time. Beside other work on its CPU it then
// seems as fast as without, whatever the clock says; with -elapsed it does not.
func TestCPUTimeForTimeIsGated(t *testing.T) {
	if testing.Short() {
		t.Skip("keeps a CPU busy")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl: apt-get install openssl")
	}
	target := workloadtest.Local(t)
	target.Subject.(*workloadtest.Instance).Conn = local.Conn{CPUs: []int{0}}
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	for range 2 {
		began, says := io.Pipe()
		busy.Go(func() {
			argv := []string{"sh", "-c", "echo; while :; do :; done"}
			_, err := local.Conn{CPUs: []int{0}}.Exec(ctx, conn.Cmd{Argv: argv, Stdout: says})
			says.CloseWithError(err)
		})
		if _, err := began.Read(make([]byte, 1)); err != nil {
			t.Fatalf("a busy loop did not start: %v", err)
		}
	}
	for _, c := range []struct {
		argv  []string
		gated bool
	}{
		{[]string{"openssl", "speed"}, true},
		{[]string{"openssl", "speed", "-elapsed"}, false},
	} {
		var trial evidence.Trial
		for seconds := 4; ; seconds *= 2 {
			argv := append(slices.Clone(c.argv), "-seconds", strconv.Itoa(seconds), "-bytes", "16384", "sha256")
			trial = reported(t, target, argv)
			// Its start is part of its CPU time. Beside much other work the start is
			// most of what it gets in a few seconds.
			if trial.Reported.CPUSeconds >= 1 || seconds == 64 {
				break
			}
		}
		why := ""
		for _, g := range evidence.Gates() {
			if g.Name == "cpu-time" {
				why = g.Failed(trial)
			}
		}
		t.Logf("%q: %+v: %s", c.argv, *trial.Reported, why)
		if strings.Contains(why, "its CPU time is") != c.gated {
			t.Errorf("%q: %+v: %q", c.argv, *trial.Reported, why)
		}
	}
}

// reported runs a program that says how long it took.
func reported(t *testing.T, target execution.Target, argv []string) evidence.Trial {
	t.Helper()
	p := param.Defaults(New().Doc().Params)
	p["argv"], p["seconds"] = strings.Join(argv, "\n"), `regexp: in ([0-9.]+)s$`
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	raw, err := New().Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	trial := evidence.TrialOf(New(), plan.Cell{Cell: manifest.Cell{Params: p}},
		store.Line{Trial: &store.Trial{Start: from, End: time.Now()}}, raw)
	if trial.Reported == nil {
		t.Fatalf("it says no time: %s", raw[workload.ExecBlob])
	}
	return trial
}
