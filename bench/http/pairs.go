package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"bakeoff/bench/mirror"
)

// againstOthers compares the generator with wrk and, over HTTP/2, with h2load on the
// same nginx, and measures the punctuality of the open loop.
func (l *lab) againstOthers(ctx context.Context) error {
	n, err := l.startNginx(ctx)
	if err != nil {
		return err
	}
	defer n.stopServer()
	// On separate CPUs both sides constantly wait for each other, so a good
	// part of the cost is that of sleeping and waking. How much depends on
	// the machine and its other work. On one CPU neither wakes for less than
	// a batch, and only the work remains.
	apart, together := *l, *l
	together.generatorCPU = serverCPU
	secure, two := []string{"tls=true", "certificate=" + n.sum}, []string{"protocol=http/2"}
	for _, to := range []server{
		{"HTTP", "wrk", (*lab).runWrk, "http://", n.plain, nil, 1.05},
		{"HTTPS", "wrk", (*lab).runWrk, "https://", n.secure, secure, 1.2},
		{"HTTP/2", "h2load", (*lab).h2load, "http://", n.plain2, two, 1.2},
		{"HTTP/2 over TLS", "h2load", (*lab).h2load, "https://", n.secure2, slices.Concat(secure, two), 1.2},
	} {
		for _, at := range []*lab{&apart, &together} {
			if err := at.runPairs(ctx, to); err != nil {
				return err
			}
		}
	}
	if l.against != "" {
		return nil
	}
	return l.runOpenLoop(ctx, n.plain)
}

// server is one way to ask nginx for the page.
type server struct {
	name, peer   string
	run          func(l *lab, ctx context.Context, server string, connections int) (measured, error) // the peer
	scheme, addr string
	args         []string // of the native generator
	goal         float64  // requests per CPU second, against the peer
}

// runPairs runs mirrored blocks of both generators: native, peer, peer, native, or the
// reverse, drawn from a fixed seed.
func (l *lab) runPairs(ctx context.Context, to server) error {
	const connections = 50
	fmt.Printf("%s, closed loop, %d connections, one nginx worker, 4 KiB, runs of %v, server on CPU %s, generator on "+
		"CPU %s\n\n", to.name, connections, l.length, serverCPU, l.generatorCPU)
	fmt.Printf("%6s  %-7s %12s %12s %12s %12s %12s %12s\n", "block", "", "request/s", "per CPU s", "utilisation", "user",
		"system", "sleeps")
	rng := rand.New(rand.NewPCG(1, 2))
	other := to.peer
	if l.against != "" {
		other = "against"
	}
	e, err := mirror.Blocks(l.blocks, rng, func(block int, native bool) (float64, error) {
		m, name, err := measured{}, other, error(nil)
		// Neither generator is protected from delays, as wrk and h2load are not.
		args := append([]string{"path=/index.html", "length=4096", fmt.Sprint("time=", l.length),
			fmt.Sprint("connections=", connections), "priority=normal"}, to.args...)
		switch {
		case native:
			name = "native"
			m, err = l.runNative(ctx, to.addr, args...)
		case l.against != "":
			b := *l
			b.self = l.against
			m, err = b.runNative(ctx, to.addr, args...)
		default:
			m, err = to.run(l, ctx, to.scheme+to.addr, connections)
		}
		if err != nil {
			return 0, err
		}
		fmt.Printf("%6d  %-7s %12.0f %12.0f %11.0f%% %9.2f µs %9.2f µs %12.3f\n", block, name,
			m.requests/l.length.Seconds(), m.perCPU(), 100*m.utilisation,
			1e6*m.user/m.requests, 1e6*(m.cpu-m.user)/m.requests, m.sleeps/m.requests)
		return m.perCPU(), nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("\nrequests per generator CPU second, native / %s: %s; goal against %s ≥ %.2f\n\n", other,
		mirror.Text(e, 3, l.blocks, "blocks"), to.peer, to.goal)
	return nil
}

// runOpenLoop runs the open loop at 20,000 requests a second.
func (l *lab) runOpenLoop(ctx context.Context, addr string) error {
	fmt.Printf("Open loop at 20000/s, latency from the intended send time (wrk has none); own: without the time in " +
		"which other programs or the hypervisor had the generator's CPU\n\n")
	fmt.Printf("%8s %12s %12s %12s %12s %12s %12s %9s %9s %9s\n", "priority", "lateness p50", "p99", "own p99",
		"latency p50", "latency p99", "utilisation", "starved", "stolen", "queued")
	var got []string
	for run := range 6 {
		asked := []string{"auto", "normal"}[run%2]
		m, err := l.runNative(ctx, addr, "path=/index.html", "length=4096", fmt.Sprint("time=", l.length), "connections=50",
			"rate=20000/s", "priority="+asked)
		if err != nil {
			return err
		}
		fmt.Printf("%8s %9.1f µs %9.1f µs %9.1f µs %9.1f µs %9.1f µs %11.0f%% %8.1f%% %8.1f%% %8.1f%%\n", asked,
			1e6*m.latenessP50, 1e6*m.latenessP99, 1e6*m.latenessOwn,
			1e6*m.quantiles["latency-p50"], 1e6*m.quantiles["latency-p99"], 100*m.utilisation, 100*m.starved, 100*m.stolen,
			100*m.queued)
		if asked == "auto" && !slices.Contains(got, m.priority) {
			got = append(got, m.priority)
		}
	}
	fmt.Printf("\nauto selected %s\n", strings.Join(got, "; "))
	fmt.Printf("goal: lateness p99 ≤ 50 µs\n\n")
	return nil
}
