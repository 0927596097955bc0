// Command http measures bakeoff's load generator against wrk, side by side in
// one run on this machine's loopback: requests for each second of the
// generator's CPU time, punctuality of the open loop, and latency quantiles
// against references that are known.
//
//	go run ./bench/http [-blocks 6] [-time 1s] [-realtime] [-against PROGRAM]
//
// It needs nginx, wrk and taskset, and two CPUs: servers run on the first,
// generators on the second.
//
// The ratio is of CPU seconds (rusage), from mirrored pairs, so that a neighbour
// meets both generators alike; what it does to caches and to the number of
// sleeps stays. With the server on another CPU both generators sleep for every
// few responses, and the one that is done sooner sleeps more often; on a virtual
// machine, where to sleep and to wake are exits to the hypervisor, that can cost
// more than it saved. A machine that does nothing else is measured with
//
//	go run ./bench/http -blocks 20 -time 2s
//
// and one that does with -realtime as well, as root: then the server, too, comes
// before its neighbours.
//
// wrk takes no priority of its own, so the native generator is run at the ordinary
// one beside it (priority=normal), or both are real-time with -realtime; as the
// workload http runs it, as root, it would alone be spared what neighbours do.
//
// The open loop is run with the generator's own choice of priority and without,
// in turn. Where 20,000/s were sent late, by looking at 535 sends late by over 60 µs:
// neighbours that had the CPU (without real-time priority 20 to 30 % of the time
// beside a load of 10; a server that waits for its CPU in the same way keeps all
// connections busy, which is no lateness but queueing); a sleep that ended late;
// and single system calls of 100 to 500 µs of CPU time, in which the kernel does
// the server's and other people's work on this thread. Garbage is not collected
// meanwhile, and between two receptions all that is due is sent.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"bakeoff/measure/workload/http"
	"bakeoff/reach/agent"
	"bakeoff/reach/loop"
)

// lab is what every part of the benchmark is given.
type lab struct {
	self     string // this program, which is also the generator and a server
	dir      string // temporary
	blocks   int
	length   time.Duration // of one run
	realtime bool          // above everything else on the machine
	against  string        // another build of this program, instead of wrk
	// generatorCPU is where the generators run.
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
	flag.IntVar(&l.blocks, "blocks", 6, "blocks of native, wrk, wrk, native, or the other way round")
	flag.DurationVar(&l.length, "time", time.Second, "length of one run; wrk takes whole seconds")
	flag.BoolVar(&l.realtime, "realtime", false, "run servers and generators with real-time priority (root): for a machine that does other work as well")
	flag.StringVar(&l.against, "against", "", "another build of this program to compare the closed loop with, instead of wrk: what a change to the loop did")
	flag.Parse()
	if err := run(&l); err != nil {
		fmt.Fprintln(os.Stderr, "bench/http:", err)
		os.Exit(1)
	}
}

func run(l *lab) (err error) {
	if flag.NArg() > 0 || l.blocks < 1 || l.length < time.Second || l.length%time.Second != 0 {
		return fmt.Errorf("usage: http [-blocks N] [-time SECONDS] [-realtime] [-against PROGRAM], with at least one block and whole seconds")
	}
	for _, program := range []string{"nginx", "wrk", "taskset"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; apt-get install nginx wrk util-linux", err)
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
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute+time.Duration(8*l.blocks)*l.length)
	defer cancel()
	if err := l.againstWrk(ctx); err != nil || l.against != "" {
		return err
	}
	return l.quantiles(ctx)
}

// pinned puts argv on one CPU.
func (l *lab) pinned(ctx context.Context, cpu string, argv ...string) *exec.Cmd {
	prefix := []string{"taskset", "-c", cpu}
	if l.realtime {
		prefix = append([]string{"chrt", "-f", "10"}, prefix...)
	}
	argv = append(prefix, argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// serverCPU is where servers run.
const serverCPU = "0"
