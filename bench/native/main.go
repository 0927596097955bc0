// Command native compares bakeoff's native workloads with well-known programs, side by
// side in one run on this machine: reads and writes of files with fio's engine psync, and
// cpu and memory with sysbench.
//
//	go run ./bench/native [-pairs 6] [-time 1s] [-dir DIR]
//
// It needs fio and sysbench, and some 130 MB below -dir, whose file system the file tests
// measure.
//
// For each comparison it prints native / program with its interval, the time of an
// operation on either side and how much of it the process spent on a CPU. If the interval
// shows a difference, it also prints what the two do differently. Six pairs of everything
// take about four minutes; fewer pairs give no interval.
//
// On a busy machine both sides wait for CPUs, and not for the same time. In that case
// build the program and run it with real-time priority as root, which both sides inherit:
//
//	go build -o native ./bench/native && chrt -f 1 ./native
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"bakeoff/base/fault"
	"bakeoff/bench/start"
	"bakeoff/measure/workload/cpu"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/memory"
	"bakeoff/provision/driver"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/loop"
)

// machine is the local machine as an environment.
type machine struct {
	local.Conn
	info driver.Info
}

func (m *machine) Info() driver.Info               { return m.info }
func (m *machine) Diagnose(context.Context) []byte { return nil }
func (m *machine) Close(context.Context) error     { return nil }

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "work" || os.Args[1] == "exec" || os.Args[1] == "probe") {
		// This program is its own agent.
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, []loop.Loop{files.Loop(), cpu.Loop(), memory.Loop()}))
	}
	pairs := flag.Int("pairs", 6, "mirrored pairs of each comparison: native, program, program, native, or the reverse")
	length := flag.Duration("time", time.Second, "length of one run, whole seconds")
	dir := flag.String("dir", "", "folder for the files (default: the folder for temporary files)")
	flag.Parse()
	start.Main("bench/native", func(ctx context.Context) error {
		return runPairs(ctx, *pairs, *length, *dir)
	})
}

func runPairs(ctx context.Context, pairs int, length time.Duration, dir string) error {
	if pairs < 1 || length < time.Second || length%time.Second != 0 || flag.NArg() > 0 {
		return fault.New(fault.Invalid, "usage: native [-pairs N] [-time SECONDS] [-dir DIR], with at least one pair "+
			"and whole seconds")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "bench-native-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, d := range []string{"/data", "/scratch"} {
		if err := os.Mkdir(tmp+d, 0o755); err != nil {
			return err
		}
	}
	here := &machine{info: driver.Info{Agent: self, Scratch: tmp + "/scratch",
		Volumes: map[string]string{"/data": tmp + "/data"}}}
	fmt.Printf("native / program in %d mirrored pairs of %v, with intervals of 95 %%\n", pairs, length)
	var failed error
	for _, c := range comparisons(length) {
		r, err := c.measure(ctx, here, pairs)
		if err != nil {
			// The other comparisons are valid without this one.
			failed = errors.Join(failed, fault.Op(c.name, err))
			fmt.Printf("\n%s: %v\n", c.name, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		c.printResult(os.Stdout, r)
	}
	return failed
}
