// Package systemcall is the cost of entering the kernel and coming back.
package systemcall

import (
	"context"
	"fmt"
	"syscall"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Refuse:  workload.OnlyUnix,
		Summary: "The shortest system call, getppid, repeatedly",
		Metrics: []sample.Metric{sample.Throughput("op/s", "system calls per second")},
		Source: []string{
			"UnixBench, System Call Overhead: a loop of the shortest system calls. Neither a C library nor the Go " +
				"runtime caches getppid(2). On Linux, FreeBSD, NetBSD and DragonFly, the loop executes the bare " +
				"instruction; on OpenBSD and illumos, the call goes through the system's libc, as all system calls " +
				"must",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{Name: "syscall", Params: []param.Spec{workload.TimeParam}, Run: runLoop}
}

func runLoop(ctx context.Context, p param.Values, _ loop.Env) (wire.Result, error) {
	parent := syscall.Getppid()
	return loop.Timed{
		For: p.Duration("time"),
		Do: func(n int) error {
			for range n {
				if got := syscall.Getppid(); got != parent {
					return loop.Mismatch("the parent's process id", got, parent)
				}
			}
			return nil
		},
	}.Operations(ctx, func() (string, error) {
		return fmt.Sprint(parent), nil
	})
}
