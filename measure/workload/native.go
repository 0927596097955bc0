package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// nativeParser is the version of Parse; see Doc.Parser.
const nativeParser = 2 // 2: no shares from ticks

// Stderr is the blob with a program's standard error, if there was any.
const Stderr = "stderr.txt"

// CPUPerOp is the metric that Native adds to every workload: how long the
// environment's CPUs were busy, as its host saw it, per unit of work. It is
// absent if the host cannot measure it.
var CPUPerOp = sample.Metric{
	Name: "cpu-per-op", Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio, CPUTime: true,
	Doc: "CPU time of the host on the environment's CPUs per unit of work, hypervisor included; the resolution is " +
		"nanoseconds if the host's kernel counts them, otherwise clock ticks",
}

// NativeParser is a workload whose work is a loop of the agent.
type NativeParser struct {
	doc  Doc
	loop loop.Loop
}

// Native returns the workload of a loop that runs on the subject, in the same
// agent everywhere. doc describes it; its name and parameters are the loop's, and
// CPUPerOp and JoulesPerOp are added to its metrics. If doc does not say
// otherwise, its environment and caches are carried from trial to trial, and a
// trial takes its timed part. Package execution runs it.
//
// The loop's directory lies in the volume that the parameter doc.Volume names,
// or in the environment's scratch directory.
func Native(doc Doc, loop loop.Loop) NativeParser {
	doc.Name, doc.Params = loop.Name, loop.Params
	doc.State, doc.Cache = cmp.Or(doc.State, "carried"), cmp.Or(doc.Cache, "warm")
	if doc.Time == nil {
		doc.Time = TimedFor(0)
	}
	doc.Parser = max(doc.Parser, nativeParser)
	doc.Metrics = append(doc.Metrics[:len(doc.Metrics):len(doc.Metrics)], CPUPerOp, JoulesPerOp)
	return NativeParser{doc, loop}
}

// Doc describes the workload.
func (n NativeParser) Doc() Doc { return n.doc }

// Loop is what runs on the subject.
func (n NativeParser) Loop() loop.Loop { return n.loop }

// Parse reads the samples of a trial.
func (n NativeParser) Parse(raw Raw, p param.Values) ([]sample.Value, error) {
	values, err := n.parse(raw, p)
	return values, fault.Op(n.doc.Name+": "+Work, err)
}

func (n NativeParser) parse(raw Raw, p param.Values) ([]sample.Value, error) {
	res, err := ParseWork(raw, n.doc, p)
	if err != nil {
		return nil, err
	}
	cost, err := cpuPerOp(raw, res)
	if err != nil {
		return nil, err
	}
	energy, err := Costs(raw, res.Work, time.Duration(res.ElapsedNS), JoulesPerOp)
	return slices.Concat(res.Values, cost, energy), err
}

// ParseWork parses the blob Work: a wire.Result of the workload doc with the
// parameters p. It must contain all metrics in their units, except those that
// the controller adds (CPUPerOp, JoulesPerOp). An error of kind fault.Subject
// says that the loop refuted itself.
func ParseWork(raw Raw, doc Doc, p param.Values) (wire.Result, error) {
	var res wire.Result
	b, ok := raw[Work]
	if !ok {
		return res, ErrNoBlob
	}
	if err := strictjson.Decode(b, &res); err != nil {
		return res, err
	}
	switch {
	case res.Schema != wire.WorkSchema:
		return res, fmt.Errorf("schema is %q, expected %q", res.Schema, wire.WorkSchema)
	case res.Loop != doc.Name:
		return res, fmt.Errorf("the result belongs to another workload: %q", res.Loop)
	case len(res.Agent) != 64:
		return res, fmt.Errorf("agent_sha256 is %q", res.Agent)
	case res.ElapsedNS <= 0 || !positive(res.Work):
		return res, fmt.Errorf("impossible result: %g units of work in %d ns", res.Work, res.ElapsedNS)
	}
	for name, want := range p {
		if got := res.Params[name]; got != want {
			return res, fmt.Errorf("the loop ran with %s=%s instead of %s", name, got, want)
		}
	}
	if !res.Check.Verified {
		return res, fault.New(fault.Subject, "the loop did not verify its result %q", res.Check.Answer)
	}
	return res, checkValues(res.Values, doc)
}

// checkValues compares what came with what doc declares.
func checkValues(values []sample.Value, doc Doc) error {
	seen := map[string]bool{}
	for _, v := range values {
		m, ok := doc.Metric(v.Metric)
		switch {
		case !ok || fromController(v.Metric):
			return fmt.Errorf("unknown metric %q", v.Metric)
		case seen[v.Metric]:
			return fmt.Errorf("duplicate metric %s", v.Metric)
		case v.Unit != m.Unit:
			return fmt.Errorf("the metric %s has the unit %q instead of %q", v.Metric, v.Unit, m.Unit)
		case m.Scale == sample.Ratio && !positive(v.Value), math.IsNaN(v.Value), math.IsInf(v.Value, 0):
			return fmt.Errorf("%s is %g", v.Metric, v.Value)
		}
		seen[v.Metric] = true
	}
	for _, m := range doc.Metrics {
		if !seen[m.Name] && !fromController(m.Name) {
			return fmt.Errorf("%s is missing", m.Name)
		}
	}
	return nil
}

// fromController reports whether the controller adds a metric.
func fromController(metric string) bool { return metric == CPUPerOp.Name || metric == JoulesPerOp.Name }

func positive(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// cpuPerOp returns how long the host's CPUs were busy per unit of work, or nothing
// if that is unknown.
//
// The host's counters cover the whole trial, including the start of the agent
// and its work before the timed part. The timed part is charged with its share
// of the agent's CPU time as the agent's own system measured it; that share
// does not depend on the overhead of the technology. There is no share if that
// system counts in ticks: gVisor finds a thread that computes without a break
// running at half of its ticks or less.
func cpuPerOp(raw Raw, res wire.Result) ([]sample.Value, error) {
	if res.WorkerCPUSeconds == nil || res.Usage == nil {
		return nil, nil
	}
	busy, known, err := raw.Busy()
	total := res.Usage.CPUSeconds()
	if err != nil || !known || !positive(*res.WorkerCPUSeconds) || !positive(total) ||
		InTicks(*res.WorkerCPUSeconds, res.Usage.UserSeconds, res.Usage.SystemSeconds) {
		return nil, err
	}
	part := min(1, *res.WorkerCPUSeconds/total)
	cost := busy * part / res.Work
	if !positive(cost) {
		return nil, nil // less than a tick, on a host that counts only ticks
	}
	return []sample.Value{CPUPerOp.Of(cost)}, nil
}
