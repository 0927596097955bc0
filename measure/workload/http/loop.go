package http

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Loop is the load generator: `bakeoff-agent work http --json addr=…`.
//
// A closed loop keeps every connection busy with one request at a time. An
// open loop (rate given) sends by a schedule that does not depend on the
// server, and measures each latency from the intended send time, so that a
// server that stalls is charged for every request that had to wait.
//
// Every body is compared with the expected one, byte for byte. What is not a
// 2xx with that body is an error by its class, and counts for nothing else.
// That the server fails is a result, not an error of Run.
func Loop() loop.Loop {
	return loop.Loop{Name: "http", Params: loopParams, Run: runLoop,
		Children: map[string]func([]string) int{responderName: runResponder}}
}

// outcome is what an engine brings back.
type outcome struct {
	tally    *tally
	elapsed  time.Duration // of the timed part with its drain
	cpu      float64       // seconds that the process spent in it
	verified bool          // a body was verified
	sum      string        // of that body
	engine   string        // epoll, portable
	floor    bool          // latencies below the lateness are not claimed
	priority string        // of its threads, in words
	stolen   float64       // share of its CPUs' time, -1 where it is not known
}

// epoch is what the engines' clock counts from.
var epoch = time.Now()

// now is the monotonic clock in nanoseconds.
func now() int64 { return int64(time.Since(epoch)) }

func runLoop(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	started, err := takeTurns()
	if err != nil {
		return wire.Result{}, fmt.Errorf("change the class of real-time threads: %w", err)
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
		fmt.Fprintf(env.Log, "http: %s engine, %d expected responses, %d errors\n", o.engine, o.tally.good, failures(o.tally.errors))
	}
	return o.result(l, p)
}

func (o outcome) result(l *load, p param.Values) (wire.Result, error) {
	t := o.tally
	text, err := encodeHistogram(t.latency)
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
		r.Generator = &wire.Generator{Utilisation: min(1, o.cpu/(o.elapsed.Seconds()*float64(cpus)*o.share())), Priority: o.priority}
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
			p50, p99 := seconds(t.lateness, 50), seconds(t.lateness, 99)
			r.Generator.LatenessP50, r.Generator.LatenessP99 = &p50, &p99
			if t.own.TotalCount() > 0 {
				own := seconds(t.own, 99)
				r.Generator.LatenessOwnP99 = &own
			}
			add("queued-share", "1", float64(t.queued)/float64(n))
		}
		if o.floor {
			floor = t.lateness.ValueAtPercentile(99)
			add("latency-floor", "s", float64(floor)/1e9)
		}
	}
	r.Values = append(r.Values, latencies(t.latency, floor)...)
	return r, nil
}

// share is the share of the time that the generator's threads may run: the
// kernel takes the CPU away from real-time ones before it is all used up, and
// one that meets that limit is at its ceiling.
func (o outcome) share() float64 {
	if strings.HasPrefix(o.priority, ordinary) {
		return 1
	}
	return realtimeShare()
}

// quantiles are the latencies that are reported, in percent.
var quantiles = []struct {
	metric  string
	percent float64
}{
	{"latency-p50", 50}, {"latency-p90", 90}, {"latency-p99", 99}, {"latency-p999", 99.9}, {"latency-max", 100},
}

// latencies returns the quantiles of h, in seconds, that are above floor (in
// nanoseconds): what is finer than the generator's own lateness says nothing
// about the server.
func latencies(h *hdrhistogram.Histogram, floor int64) []sample.Value {
	var out []sample.Value
	if h.TotalCount() == 0 {
		return nil
	}
	for _, q := range quantiles {
		if ns := h.ValueAtPercentile(q.percent); ns > floor {
			out = append(out, sample.Value{Metric: q.metric, Unit: "s", Value: float64(ns) / 1e9})
		}
	}
	return out
}

func seconds(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtPercentile(percent)) / 1e9
}
