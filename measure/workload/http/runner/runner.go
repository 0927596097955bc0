// Package runner runs the workload http: it brings up the environment's web server,
// and its load generator asks for pages over a real network path.
package runner

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"
)

// Runner runs the workload.
type Runner struct{ http.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Prepare starts the server, waits until the peer gets the page, and measures
// what the network path between them can carry.
func (Runner) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	if err := forward(ctx, t, p); err != nil {
		return fault.Op("http: prepare", err)
	}
	s, err := NewServer(t, p)
	if err != nil {
		return fault.Op("http: prepare", err)
	}
	if err := s.start(ctx); err != nil {
		return fault.Op("http: prepare "+s.name, err)
	}
	if s.listed() {
		if _, err := s.sendList(ctx); err != nil {
			return fault.Op("http: prepare the list of URLs", err)
		}
	}
	return fault.Op("http: measure the path", s.measurePath(ctx))
}

// Reset checks that the server still answers: its state is carried over between
// trials.
func (Runner) Reset(ctx context.Context, t execution.Target, p param.Values) error {
	s, err := NewServer(t, p)
	if err != nil {
		return fault.Op("http: reset", err)
	}
	if err := s.get(ctx, checkTime); err != nil {
		return fault.Wrap(fault.Subject, "http: reset", s.explain(ctx, fmt.Errorf("the server does not answer: %w", err)))
	}
	return nil
}

// Run runs one trial: the load generator on the peer.
func (Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	s, err := NewServer(t, p)
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
	raw := workload.Raw{workload.Work: out.Bytes(), http.ServerBlob: s.describe()}
	if path := s.pathBlob(); path != nil {
		raw[workload.PathBlob] = path
	}
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return raw, fault.New(fault.Lab, "http: the generator did not end within %v (warmup + time + 3 × timeout + 30 s): %s",
			limit, bytes.TrimSpace(log.Bytes()))
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

// listed reports whether the generator needs a list; a single page is passed by
// arguments.
func (s *Server) listed() bool {
	return len(s.urls) > 1 || s.urls[0].Status != 0 || s.urls[0].Varies()
}

// loopArgs returns the generator's parameters.
func (s *Server) loopArgs(ctx context.Context) ([]string, error) {
	v := param.Values{"addr": s.addr.String()}
	if u := s.urls[0]; !s.listed() {
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
	if s.params.Bool("tls") {
		if err := s.loadCertificate(ctx); err != nil {
			return nil, err
		}
		v["certificate"] = s.certificate
	}
	return v.Args(), nil
}

// priority is the priority to request: a generator that shares the server's
// CPUs must not preempt it.
func (s *Server) priority() string {
	if s.target.PeerShares {
		return http.Ordinary
	}
	return s.params.Text("priority")
}

// NewServer returns the server for p in t; it changes nothing yet.
func NewServer(t execution.Target, p param.Values) (*Server, error) {
	switch {
	case t.Subject == nil:
		return nil, fault.New(fault.Lab, "no environment")
	case t.Peer == nil || t.PeerAgent == "":
		return nil, fault.New(fault.Lab, "no load generator's side")
	case !t.Addr.IsValid() && t.State[forwardKey] == "":
		return nil, fault.New(fault.Unsupported, "the environment has no address for the load generator")
	}
	scratch := t.Subject.Info().Scratch
	if !strings.HasPrefix(scratch, "/") || strings.ContainsAny(scratch, " \t\n;\"'{}\\$#") {
		return nil, fault.New(fault.Lab, "the path of the scratch directory, %q, cannot be used in a server's configuration",
			scratch)
	}
	site, urls, err := content(p)
	if err != nil {
		return nil, err
	}
	s := &Server{program: programOf(p), target: t, params: p, site: site, urls: urls}
	port := s.port()
	s.dir = strings.TrimRight(scratch, "/") + "/http-" + strconv.Itoa(int(port))
	if text := t.State[forwardKey]; text != "" {
		s.addr, err = netip.ParseAddrPort(text)
	} else {
		s.addr = netip.AddrPortFrom(t.Addr.Unmap(), port)
	}
	return s, err
}
