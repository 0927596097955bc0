// Command http compares bakeoff's load generator with wrk and, over HTTP/2, with
// h2load, side by side in one run on this machine's loopback interface: requests per
// second of the generator's CPU time with and without TLS, punctuality of the open
// loop, and latency quantiles against known references. Over HTTP/2 both have the same
// number of connections, with one stream each.
//
//	go run ./bench/http [-blocks 6] [-time 1s] [-realtime] [-against PROGRAM]
//
// It needs nginx, wrk, h2load and taskset, and two CPUs: servers run on the first, generators
// on the second.
//
// The ratio is of CPU seconds (rusage), from mirrored pairs, so a neighbor affects both
// generators alike. Its effects on caches and on the number of sleeps remain. With the
// server on another CPU both generators sleep for every few responses, and the faster
// one sleeps more often. On a virtual machine, sleeping and waking are exits to the
// hypervisor, which can cost more than the faster loop saved. On an idle machine use
//
//	go run ./bench/http -blocks 20 -time 2s
//
// On a busy machine add -realtime, as root: the server then has real-time priority as
// well.
//
// Neither wrk nor h2load sets a priority. The comparison therefore runs the native generator at
// ordinary priority (priority=normal), or both with real-time priority (-realtime). As
// the workload http runs it, as root, the native generator alone would be protected
// from neighbors.
//
// The open loop alternates between the generator's own choice of priority and the
// ordinary one. 535 sends at 20,000/s that were late by over 60 µs had these causes:
// neighbors that had the CPU (without real-time priority 20 to 30 % of the time under a
// load of 10; a server that waits for its CPU in the same way keeps all connections
// busy, which is queueing, not lateness); a sleep that ended late; and single system
// calls of 100 to 500 µs of CPU time, in which the kernel does work of the server and of
// other programs on this thread. Garbage collection is off during the loop, and between
// two receptions everything that is due is sent.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	http "bakeoff/measure/workload/http/load"
	"bakeoff/reach/agent"
	"bakeoff/reach/loop"
)

// lab holds what every part of the benchmark needs.
type lab struct {
	self     string // this program, which is also the generator and a server
	dir      string // temporary
	blocks   int
	length   time.Duration // of one run
	realtime bool          // real-time priority for servers and generators
	against  string        // another build of this program, instead of wrk and h2load
	// generatorCPU is the CPU of the generators.
	generatorCPU string
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "work": // this program is its own agent
			os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, []loop.Loop{http.Loop()}))
		case "serve":
			os.Exit(serveDrawn(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		}
	}
	l := lab{generatorCPU: "1"}
	flag.IntVar(&l.blocks, "blocks", 6, "number of mirrored blocks: native, peer, peer, native, or the reverse")
	flag.DurationVar(&l.length, "time", time.Second, "length of one run; the peers take whole seconds")
	flag.BoolVar(&l.realtime, "realtime", false, "run servers and generators with real-time priority (root), for a "+
		"busy machine")
	flag.StringVar(&l.against, "against", "", "compare the closed loop with another build of this program instead of "+
		"wrk and h2load, to measure a change to the loop")
	flag.Parse()
	if err := runBenchmark(&l); err != nil {
		fmt.Fprintln(os.Stderr, "bench/http:", err)
		os.Exit(1)
	}
}

func runBenchmark(l *lab) (err error) {
	if flag.NArg() > 0 || l.blocks < 1 || l.length < time.Second || l.length%time.Second != 0 {
		return fmt.Errorf("usage: http [-blocks N] [-time SECONDS] [-realtime] [-against PROGRAM], with at least one " +
			"block and whole seconds")
	}
	for _, program := range []string{"nginx", "wrk", "h2load", "taskset"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: run apt-get install nginx wrk nghttp2-client util-linux", err)
		}
	}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "bench-http-"); err != nil {
		return err
	}
	defer os.RemoveAll(l.dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute+time.Duration(32*l.blocks)*l.length)
	defer cancel()
	if err := l.againstOthers(ctx); err != nil || l.against != "" {
		return err
	}
	return l.quantiles(ctx)
}

// pinTo runs argv on one CPU.
func (l *lab) pinTo(ctx context.Context, cpu string, argv ...string) *exec.Cmd {
	prefix := []string{"taskset", "-c", cpu}
	if l.realtime {
		prefix = append([]string{"chrt", "-r", "10"}, prefix...) // in turn: two of them may share a CPU
	}
	argv = append(prefix, argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// serverCPU is the CPU of the servers.
const serverCPU = "0"
