// Package spawn is starting a program and waiting for its end.
package spawn

import (
	"context"
	"fmt"
	"os"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Summary: "Starting a program and waiting for its end, repeatedly",
		Metrics: []sample.Metric{sample.Throughput("op/s", "programs started and ended per second")},
		Source: []string{
			"UnixBench, Execl Throughput and Process Creation combined: fork, exec, exit, wait. The program is " +
				"bakeoff-agent, the same binary for all contenders, which ends at once; the start of a static Go program is " +
				"part of the measurement",
		},
	}, Loop())
}

const (
	child = "spawn-child"
	code  = 42 // an exit code that only this program returns
)

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{Name: "spawn", Params: []param.Spec{workload.TimeParam}, Run: runLoop,
		Children: map[string]func([]string) int{child: func([]string) int { return code }}}
}

func runLoop(ctx context.Context, p param.Values, _ loop.Env) (wire.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return wire.Result{}, fault.Wrap(fault.Lab, "find the agent", err)
	}
	return loop.Timed{
		For: p.Duration("time"),
		Do:  func(n int) error { return spawnPrograms(self, n) },
	}.Operations(ctx, func() (string, error) {
		return fmt.Sprintf("every program ended with %d", code), nil
	})
}

// spawnPrograms runs the program at path n times, one after another.
func spawnPrograms(path string, n int) error {
	for range n {
		if err := spawnProgram(path); err != nil {
			return err
		}
	}
	return nil
}
