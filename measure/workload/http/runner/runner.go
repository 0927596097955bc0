// Package runner runs the workload http: it brings up the environment's web server,
// and its load generator asks for pages over a real network path.
package runner

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/http/path"
	"bakeoff/measure/workload/http/server"
	"bakeoff/reach/wire"
)

// Runner runs the workload.
type Runner struct{ http.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Ports implements execution.Server.
func (Runner) Ports(p param.Values) []uint16 { return server.Ports(p) }

// Prepare starts the server, waits until the peer gets the page, and measures
// what the network path between them can carry.
func (Runner) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	if err := server.Forward(ctx, t, p); err != nil {
		return fault.Op("http: prepare", err)
	}
	s, err := newSides(t, p)
	if err != nil {
		return fault.Op("http: prepare", err)
	}
	if err := s.Start(ctx); err != nil {
		return fault.Op("http: prepare", err)
	}
	if err := s.AskOffered(ctx); err != nil {
		return fault.Op("http: prepare", err)
	}
	if s.Listed() {
		if _, err := s.sendList(ctx); err != nil {
			return fault.Op("http: prepare the list of URLs", err)
		}
	}
	return fault.Op("http: measure the path", path.Measure(ctx, t, s.pathUse(ctx)))
}

// Reset checks that the server still answers: its state is carried over between
// trials.
func (Runner) Reset(ctx context.Context, t execution.Target, p param.Values) error {
	s, err := newSides(t, p)
	if err == nil {
		err = s.Server.Check(ctx)
	}
	return fault.Op("http: reset", err)
}

// Run runs one trial: the load generator on the peer.
func (Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	s, err := newSides(t, p)
	if err != nil {
		return nil, fault.Op("http: run", err)
	}
	args, err := s.loopArgs(ctx)
	if err != nil {
		return nil, fault.Op("http: run", err)
	}
	limit := p.Duration("warmup") + p.Duration("time") + 3*p.Duration("timeout") + 30*time.Second
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, log, exit, err := t.Generate(limited, args)
	raw := workload.Raw{workload.Work: out.Bytes(), http.ServerBlob: s.Describe()}
	path.Keep(t, raw)
	if err := s.KeepProtocol(raw, server.ProtocolName(p.Text("protocol"))); err != nil {
		return raw, fault.Op("http: run", err)
	}
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return raw, fault.New(
			fault.Lab,
			"http: the generator did not end within %v (warmup + time + 3 × timeout + 30 s): %s",
			limit,
			bytes.TrimSpace(log.Bytes()),
		)
	case err != nil:
		return raw, fault.Op("http: generator", err)
	case out.Lost > 0:
		return raw, fault.New(fault.Lab, "http: the generator's output is longer than %d bytes", execution.MaxGenerated)
	case exit.Code == wire.ExitUnsupported:
		return raw, fault.New(fault.Unsupported, "http: generator: %s", bytes.TrimSpace(log.Bytes()))
	case !exit.OK():
		return raw, fault.New(fault.Lab, "http: generator: %s: %s", exit, bytes.TrimSpace(log.Bytes()))
	}
	return raw, nil
}

// pathUse is how the trials use the path: for a list, with responses of the mean length.
func (s sides) pathUse(ctx context.Context) path.Use {
	p := s.params
	return path.Use{Addr: s.Addr().Addr(), Connections: p.Int("connections"), Threads: p.Int("threads"),
		KeepAlive: p.Bool("keepalive"),
		Protocol:  p.Text("protocol"), Priority: s.priority(), Page: s.MeanResponse(ctx),
		Workers: p.Int("workers"), Time: p.Duration("time")}
}

// sides are both ends of a trial: the server, and the load generator's side.
type sides struct {
	*server.Server
	target execution.Target
	params param.Values
}

func newSides(t execution.Target, p param.Values) (sides, error) {
	s, err := server.New(t, p)
	return sides{s, t, p}, err
}

// Check implements execution.Checker.
func (Runner) Check(p param.Values) error { return server.Check(p) }

// loopArgs returns the generator's parameters.
func (s sides) loopArgs(ctx context.Context) ([]string, error) {
	v := param.Values{"addr": s.Addr().String()}
	if u := s.URLs()[0]; !s.Listed() {
		v["path"], v["length"] = u.Path, strconv.FormatInt(u.Length, 10)
		if u.Sum != "" { // otherwise the first response is the reference
			v["sha256"] = u.Sum
		}
	} else {
		file, err := s.sendList(ctx)
		if err != nil {
			return nil, err
		}
		v["list"] = file
	}
	for _, name := range []string{"connections", "threads", "rate", "spacing", "seed", "warmup", "time", "timeout",
		"keepalive", "tls", "protocol"} {
		if text := s.params.Text(name); text != "" {
			v[name] = text
		}
	}
	v["priority"] = s.priority()
	var err error
	if s.params.Bool("tls") {
		v["certificate"], err = s.Certificate(ctx)
	}
	return v.Args(), err
}

// priority is the priority to request: a generator that shares the server's
// CPUs must not preempt it.
func (s sides) priority() string {
	if s.target.PeerShares {
		return http.Ordinary
	}
	return s.params.Text("priority")
}

// listKey is the key in Target.State of the list that the peer has.
const listKey = "http.urls"

// sendList sends the list of URLs to the peer, and returns its path there.
func (s sides) sendList(ctx context.Context) (string, error) {
	sum := load.ListSum(s.URLs())
	if s.target.PeerDir == "" {
		return "", fault.New(fault.Lab, "bakeoff has no folder for a list of URLs where the load generator runs")
	}
	file := strings.TrimRight(s.target.PeerDir, "/") + "/urls-" + sum[:16]
	if s.target.State[listKey] == file {
		return file, nil
	}
	if err := s.target.Peer.Push(ctx, file, 0o644, bytes.NewReader(load.FormatURLs(s.URLs()))); err != nil {
		return "", err
	}
	if s.target.State != nil {
		s.target.State[listKey] = file
	}
	return file, nil
}
