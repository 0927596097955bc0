package contextswitch

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/loop"
	"bakeoff/reach/probe"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{Common: param.Values{"time": "50ms"}})
}

// Every round trip wakes two processes, as the kernel counts it.
func TestTripsAreSwitches(t *testing.T) {
	c, err := startPeer(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.roundTrips(10); err != nil {
		t.Fatal(err)
	}
	before := probe.ReadHost(nil)
	const n = 2000
	if err := c.roundTrips(n); err != nil {
		t.Fatal(err)
	}
	switches := probe.ReadHost(nil).Since(before).ContextSwitches
	if switches == nil {
		t.Skip("this system does not count context switches")
	}
	if *switches < n {
		t.Errorf("%d round trips made %g context switches", n, *switches)
	}
}

func TestCountsTheOtherProcess(t *testing.T) {
	c, err := startPeer(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	before, err := c.cpu()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.roundTrips(20000); err != nil {
		t.Fatal(err)
	}
	after, err := c.cpu()
	if err != nil || after <= before {
		t.Errorf("CPU went from %g to %g s (%v)", before, after, err)
	}
}

// The death of the other process ends the work; no process waits forever.
func TestPeerDies(t *testing.T) {
	var log bytes.Buffer
	c, err := startPeer(&log)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	time.AfterFunc(50*time.Millisecond, func() { c.cmd.Process.Kill() })
	_, err = loop.Timed{For: 20 * time.Second, Do: c.roundTrips, CPU: c.cpu}.Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "other process") {
		t.Errorf("error is %v", err)
	}
}

func TestIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	from := time.Now()
	if _, err := runLoop(ctx, param.Values{"time": "1m0s"}, loop.Env{Log: os.Stderr}); err == nil ||
		time.Since(from) > 20*time.Second {
		t.Errorf("error %v after %v", err, time.Since(from))
	}
}
