package load

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/responder"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// Loop is the load generator: `bakeoff-agent work http --json addr=…`. A closed
// loop keeps every connection busy with one request at a time. An open loop
// (with a rate) sends by a schedule that does not depend on the server, and
// measures each latency from the intended send time, so that a stall of the
// server counts for every request that had to wait. Every body is compared with
// the expected one, byte by byte. Anything but a 2xx status with that body
// counts only as an error of its class. A failure of the server is a result,
// not an error of Run.
func Loop() loop.Loop {
	return loop.Loop{Name: "http", Params: loopParams, Run: runLoop,
		Children: map[string]func([]string) int{responder.Name: responder.Run}}
}

// outcome is the result of an engine.
type outcome struct {
	tally    *tally
	elapsed  time.Duration // of the timed part with its drain
	cpu      float64       // seconds that the process spent in it
	verified bool          // a body was verified
	sum      string        // of that body
	engine   string        // epoll, portable
	floor    bool          // latencies below the lateness are not reported
	priority string        // of its threads, in words
	stolen   float64       // share of its CPUs' time; -1 if unknown
}

// epoch is the origin of the engines' clock.
var epoch = time.Now()

// nowNanos is the monotonic clock in nanoseconds.
func nowNanos() int64 { return int64(time.Since(epoch)) }

func runLoop(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	started, err := takeTurns()
	if err != nil {
		return wire.Result{}, fmt.Errorf("change the scheduling class of threads: %w", err)
	}
	l, err := parseLoad(p)
	if err != nil {
		return wire.Result{}, err
	}
	l.started = started
	engine := bestEngine
	if l.portable {
		engine = runPortable
	}
	o, err := engine(ctx, l)
	if err != nil {
		return wire.Result{}, err
	}
	if env.Log != nil {
		fmt.Fprintf(env.Log, "http: %s engine, %d expected responses, %d errors\n", o.engine, o.tally.good,
			http.Failures(o.tally.errors))
	}
	return o.result(l, p)
}

func (o outcome) result(l *load, p param.Values) (wire.Result, error) {
	t := o.tally
	text, err := http.EncodeHistogram(t.latency)
	if err != nil {
		return wire.Result{}, err
	}
	r := wire.Result{
		Schema: wire.WorkSchema, Loop: "http", Params: p,
		Work: float64(t.good), WorkUnit: "request", ElapsedNS: int64(l.time),
		WorkerCPUSeconds: &o.cpu, Windows: t.window[:], Errors: t.errors, Histogram: text,
		Check: wire.Check{Verified: o.verified, Answer: "sha256:" + o.sum},
	}
	cpus := min(l.threads, runtime.NumCPU())
	if o.engine == "portable" {
		cpus = min(l.connections, runtime.GOMAXPROCS(0))
	}
	if o.elapsed > 0 {
		r.Generator = &wire.Generator{Utilisation: min(1, o.cpu/(o.elapsed.Seconds()*float64(cpus)*o.runnableShare())),
			Priority: o.priority}
	}
	add := func(metric, unit string, v float64) {
		r.Values = append(r.Values, sample.Value{Metric: metric, Unit: unit, Value: v})
	}
	add("throughput", "request/s", float64(t.good)/l.time.Seconds())
	add("requests", "request", float64(t.all))
	if t.starved >= 0 && o.elapsed > 0 {
		add("generator-starved", "1", min(1, float64(t.starved)/(float64(o.elapsed)*float64(l.threads))))
	}
	if o.stolen >= 0 {
		add("generator-stolen", "1", o.stolen)
	}
	floor := int64(0)
	if l.rate > 0 && r.Generator != nil {
		if n := t.lateness.TotalCount(); n > 0 {
			p50, p99 := http.Seconds(t.lateness, 50), http.Seconds(t.lateness, 99)
			r.Generator.LatenessP50, r.Generator.LatenessP99 = &p50, &p99
			if t.own.TotalCount() > 0 {
				own := http.Seconds(t.own, 99)
				r.Generator.LatenessOwnP99 = &own
			}
			add("queued-share", "1", float64(t.queued)/float64(n))
		}
		if o.floor {
			floor = t.lateness.ValueAtPercentile(99)
			add("latency-floor", "s", float64(floor)/1e9)
		}
	}
	r.Values = append(r.Values, http.Latencies(t.latency, floor)...)
	return r, nil
}

// runnableShare is the share of time in which the generator's threads may run. The
// kernel limits real-time threads to less than the whole CPU, and a generator
// at that limit is saturated.
func (o outcome) runnableShare() float64 {
	if strings.HasPrefix(o.priority, http.Ordinary) {
		return 1
	}
	return realtimeShare()
}

// processCPU returns the user and system seconds of this process.
func processCPU() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
