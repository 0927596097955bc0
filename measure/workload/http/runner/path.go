package runner

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/http/responder"
	"bakeoff/measure/workload/http/server"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// pathKey is where the measured path is kept between calls.
const pathKey = "http.path"

const (
	// pathConnections fill a path whatever its delay; fewer would measure
	// the delay.
	pathConnections = 32
	// pathTimeout bounds the wait for one response of the responder.
	pathTimeout = 2 * time.Second
	// readyTime bounds the start of the responder, which takes seconds on
	// an emulated machine.
	readyTime = 20 * time.Second
)

// pathTime is how long a path is measured: short compared with the trials.
func pathTime(p param.Values) time.Duration {
	return min(max(p.Duration("time")/10, 100*time.Millisecond), 400*time.Millisecond)
}

// measurePath measures what the network path to the environment can carry, once
// per environment and kind of request: the trials' generator requests responses
// of the trials' size from a responder there, which only answers, with the protocol of
// the trials. Cells with the same kind of request share the result, whatever their server does
// otherwise. If the measurement fails, the path is unknown, with the reason;
// that is not an error.
func (s sides) measurePath(ctx context.Context) error {
	if s.target.State == nil || s.target.State[pathKey] != "" {
		return nil
	}
	asks := s.pathLoad()
	key := fmt.Sprintf("%s of %d workers: %s", pathKey, s.params.Int("workers"), strings.Join(asks.Args(), " "))
	if text := s.target.Shared[key]; text != "" {
		s.target.State[pathKey] = text
		return nil
	}
	path, err := s.path(ctx, asks)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path.Schema, path.Workers, path.Connections = workload.PathSchema, int(s.params.Int("workers")),
		int(asks.Int("connections"))
	if err != nil {
		path.Reason = fmt.Sprintf("%.300s", err)
	}
	b, err := json.Marshal(path)
	s.target.State[pathKey] = string(b)
	if s.target.Shared != nil && path.Reason == "" {
		s.target.Shared[key] = string(b)
	}
	return err
}

// pathLoad is the load for the responder, without its address.
func (s sides) pathLoad() param.Values {
	page := webroot.Page(s.meanBody()).Home().Body
	v := param.Values{
		"path": server.PagePath, "length": strconv.Itoa(len(page)), "sha256": load.SumOf(page), "priority": s.priority(),
		"connections": strconv.FormatInt(max(s.params.Int("connections"), pathConnections), 10),
		"time":        pathTime(s.params).String(), "timeout": pathTimeout.String(),
	}
	for _, name := range []string{"threads", "keepalive"} {
		v[name] = s.params.Text(name)
	}
	if s.params.Text("protocol") == http.Two {
		v["protocol"] = http.Two
	}
	return v
}

// path measures the network path.
func (s sides) path(ctx context.Context, asks param.Values) (workload.Path, error) {
	var out workload.Path
	ctx, cancel := context.WithTimeout(ctx, readyTime+3*pathTimeout)
	defer cancel()
	addr, stop, err := s.startResponder(ctx)
	if err != nil {
		return out, err
	}
	defer stop()
	v := maps.Clone(asks)
	v["addr"] = addr.String()
	result, said, exit, err := s.target.Generate(ctx, v.Args())
	if err != nil {
		return out, err
	}
	if !exit.OK() || result.Lost > 0 {
		return out, fault.New(fault.Lab, "the generator failed with %s: %s", exit, bytes.TrimSpace(said.Bytes()))
	}
	var r wire.Result
	if err := json.Unmarshal(result.Bytes(), &r); err != nil {
		return out, err
	}
	if why := http.Failed(r); why != "" || r.ElapsedNS <= 0 {
		return out, fault.New(fault.Lab, "the responder: %s", why)
	}
	out.PerSecond = r.Work / (float64(r.ElapsedNS) / 1e9)
	response := responder.Response(asks["protocol"], webroot.Page(s.meanBody()).Home().Body)
	out.BytesPerSecond = out.PerSecond * float64(len(response))
	if r.Generator != nil {
		out.Utilisation = r.Generator.Utilisation
	}
	return out, nil
}

// meanBody is the length of the responder's page: for a list, the mean length
// of its bodies.
func (s sides) meanBody() int64 { return load.MeanLength(s.URLs(), webroot.MinPage) }

// startResponder starts a responder in the environment, at a port that the
// system chooses, and returns its address and a function that stops it.
func (s sides) startResponder(ctx context.Context) (addr netip.AddrPort, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		said := conn.Tail{Limit: 2048}
		exit, err := s.target.Subject.Exec(ctx, conn.Cmd{Argv: []string{s.target.Subject.Info().Agent, responder.Name,
			"--listen", netip.AddrPortFrom(s.Addr().Addr(), 0).String(), "--page", strconv.FormatInt(s.meanBody(), 10),
			"--workers", s.params.Text("workers"), "--protocol", cmp.Or(s.params.Text("protocol"),
				http.One), "--for", (2 * readyTime).String()}, Stdout: in, Stderr: &said})
		if err == nil {
			err = fmt.Errorf("the responder failed with %s: %s", exit, bytes.TrimSpace(said.Bytes()))
		}
		in.CloseWithError(err)
		ended <- err
	}()
	stop = func() {
		cancel()
		out.Close()
		<-ended
	}
	line, err := bufio.NewReader(io.LimitReader(out, 64)).ReadString('\n')
	if err == nil {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
		if addr, err = netip.ParseAddrPort(text); err == nil && !ok {
			err = errors.New("the responder did not report its address")
		}
	}
	if err != nil {
		stop()
		return addr, nil, err
	}
	return addr, stop, nil
}
