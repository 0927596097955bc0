package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// The second server sleeps a random time before each answer, so that the latencies
// are known without measuring them.

const (
	shortestService = 5 * time.Millisecond
	meanService     = 50 * time.Millisecond
)

// drawn returns random service times in the order in which requests arrive.
type drawn struct {
	sync.Mutex
	rng  *rand.Rand
	used []time.Duration
}

func (d *drawn) nextService() time.Duration {
	d.Lock()
	defer d.Unlock()
	s := shortestService + time.Duration(d.rng.ExpFloat64()*float64(meanService-shortestService))
	d.used = append(d.used, s)
	return s
}

// serveDrawn runs the server: it prints its address, serves until its input ends, and
// then prints the times that it slept, in nanoseconds.
func serveDrawn(_ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintln(stdout, l.Addr())
	d := &drawn{rng: rand.New(rand.NewPCG(3, 4))}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveConn(c, d)
		}
	}()
	io.Copy(io.Discard, stdin)
	d.Lock()
	defer d.Unlock()
	if err := json.NewEncoder(stdout).Encode(d.used); err != nil {
		return 1
	}
	return 0
}

func serveConn(c net.Conn, d *drawn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if line != "\r\n" {
			continue
		}
		arrived := time.Now()
		time.Sleep(time.Until(arrived.Add(d.nextService())))
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nslept"); err != nil {
			return
		}
	}
}

// drawnServer is the process of the server.
type drawnServer struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

func (l *lab) startDrawn(ctx context.Context) (*drawnServer, error) {
	s := &drawnServer{cmd: l.pinTo(ctx, serverCPU, l.self, "serve")}
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.stdin, s.out = stdin, bufio.NewReader(stdout)
	line, err := s.out.ReadString('\n')
	s.addr = strings.TrimSpace(line)
	return s, err
}

// stopServer ends the server and returns the times that it slept.
func (s *drawnServer) stopServer() ([]time.Duration, error) {
	s.stdin.Close()
	var used []time.Duration
	err := json.NewDecoder(s.out).Decode(&used)
	if werr := s.cmd.Wait(); err == nil {
		err = werr
	}
	return used, err
}

// queueLatencies returns the latencies of requests that arrive every gap and are served first
// come, first served, by a number of servers. An open loop over that many connections
// must find these latencies. service holds one time per request.
func queueLatencies(service []time.Duration, gap time.Duration, servers int) []time.Duration {
	free := make([]time.Duration, servers) // when each becomes free
	out := make([]time.Duration, len(service))
	for i, s := range service {
		due := time.Duration(i) * gap
		k := 0
		for j := range free {
			if free[j] < free[k] {
				k = j
			}
		}
		free[k] = max(free[k], due) + s
		out[i] = free[k] - due
	}
	return out
}

// quantile returns the value at the nearest rank, in seconds.
func quantile(xs []time.Duration, percent float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	rank := int(percent/100*float64(len(s)) + 0.5)
	return s[min(max(rank, 1), len(s))-1].Seconds()
}

// quantiles compares latencies with their references.
func (l *lab) quantiles(ctx context.Context) error {
	const connections = 10
	seconds := max(4*time.Second, l.length)
	long := *l
	long.length = seconds
	fmt.Printf("Latencies against a server that sleeps %v plus an exponential time, %v on average; %d connections, "+
		"%v\n\n", shortestService, meanService, connections, seconds)
	closed := []string{"length=5", fmt.Sprint("time=", seconds), fmt.Sprint("connections=", connections)}
	const rate = 160 // 80 % of what ten connections can do
	for _, c := range []struct {
		name string
		run  func(addr string) (measured, error)
		want func(used []time.Duration) []time.Duration
	}{
		{"native, closed loop", func(addr string) (measured, error) { return long.runNative(ctx, addr, closed...) },
			func(used []time.Duration) []time.Duration { return used[connections:] }}, // without the warm-up
		{"wrk", func(addr string) (measured, error) { return long.runWrk(ctx, "http://"+addr, connections) },
			func(used []time.Duration) []time.Duration { return used }},
		{fmt.Sprintf("native, open loop at %d/s", rate), func(addr string) (measured, error) {
			return long.runNative(ctx, addr, append(closed, fmt.Sprintf("rate=%d/s", rate), "timeout=30s")...)
		}, func(used []time.Duration) []time.Duration {
			return queueLatencies(used[connections:], time.Second/rate, connections)
		}},
	} {
		s, err := l.startDrawn(ctx)
		if err != nil {
			return err
		}
		m, err := c.run(s.addr)
		used, serr := s.stopServer()
		if err != nil || serr != nil {
			return fmt.Errorf("%s: %v, %v", c.name, err, serr)
		}
		compare(c.name, m, c.want(used))
	}
	fmt.Fprintln(os.Stdout, "goal: native within 5 % of the reference")
	return nil
}

func compare(name string, m measured, want []time.Duration) {
	fmt.Printf("%s: %d requests, utilisation %.1f%%\n", name, len(want), 100*m.utilisation)
	fmt.Printf("%12s %12s %12s %9s\n", "", "reference", "reported", "error")
	for _, q := range []struct {
		metric  string
		percent float64
	}{{"latency-p50", 50}, {"latency-p90", 90}, {"latency-p99", 99}} {
		ref, got := quantile(want, q.percent), m.quantiles[q.metric]
		fmt.Printf("%12s %9.2f ms %9.2f ms %+8.1f%%\n", q.metric, 1e3*ref, 1e3*got, 100*(got/ref-1))
	}
	fmt.Println()
}
