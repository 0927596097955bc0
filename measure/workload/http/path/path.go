// Package path measures what the network path from a load generator to an environment
// can carry, for all workloads whose load comes from outside.
package path

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
	"bakeoff/measure/execution"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/http/responder"
	"bakeoff/measure/workload/http/server"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// key is where the measured path is kept between calls.
const key = "http.path"

const (
	// connections fill a path whatever its delay; fewer would measure
	// the delay.
	connections = 32
	// inFlight is how many bytes of responses these wait for at most. A slow path takes long
	// to carry them before and after the measurement.
	inFlight = 512 << 10
	// timeout bounds the wait for one response of the responder.
	timeout = 2 * time.Second
	// readyTime bounds the start of the responder, which takes seconds on
	// an emulated machine.
	readyTime = 20 * time.Second
	// enough responses make a rate, although those of one round of the connections can
	// arrive together.
	enough = 4 * connections
	// slowTime is how long a path is measured that carries fewer in the usual time.
	slowTime = time.Second
	// fillTime is the load before the measurement: a queue that holds back by a bucket of
	// tokens, as clouds do, lets the first bytes pass at once.
	fillTime = 50 * time.Millisecond
)

// Use is how a workload uses the path. The responder is asked in the same way.
type Use struct {
	Addr                 netip.Addr // of the server, for the generator
	Connections, Threads int64
	KeepAlive            bool
	Protocol             string        // http.One or http.Two
	Priority             string        // of the generator
	Page                 int64         // bytes of a mean response
	Workers              int64         // CPUs that the server can use; 0 is any number
	Time                 time.Duration // of a trial
}

// duration is how long a path is measured: short compared with the trials.
func (u Use) duration() time.Duration {
	return min(max(u.Time/10, 100*time.Millisecond), 400*time.Millisecond)
}

// Measure measures what the network path to the environment can carry, once
// per environment and kind of request: the native generator requests responses
// of the trials' size from a responder there, which only answers, with the protocol of
// the trials. Cells with the same kind of request share the result, whatever their server does
// otherwise. If the measurement fails, the path is unknown, with the reason;
// that is not an error. Nor is it one that the responder cannot run there.
func Measure(ctx context.Context, t execution.Target, u Use) error {
	if t.State == nil || t.State[key] != "" {
		return nil
	}
	asks := u.responderLoad()
	shared := fmt.Sprintf("%s of %d workers: %s", key, u.Workers, strings.Join(asks.Args(), " "))
	if text := t.Shared[shared]; text != "" {
		t.State[key] = text
		return nil
	}
	path, err := u.measure(ctx, t, asks)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path.Schema, path.Workers, path.Connections = workload.PathSchema, int(u.Workers), int(asks.Int("connections"))
	if err != nil {
		path.Reason = fmt.Sprintf("%.300s", err)
	}
	b, err := json.Marshal(path)
	t.State[key] = string(b)
	if t.Shared != nil && path.Reason == "" {
		t.Shared[shared] = string(b)
	}
	return err
}

// Keep adds the path that Measure measured to the raw output of a trial.
func Keep(t execution.Target, raw workload.Raw) {
	if text := t.State[key]; text != "" {
		raw[workload.PathBlob] = []byte(text)
	}
}

// responderLoad is the load for the responder, without its address.
func (u Use) responderLoad() param.Values {
	page := webroot.Page(u.Page).Home().Body
	v := param.Values{
		"path": server.PagePath, "length": strconv.Itoa(len(page)), "sha256": load.SumOf(page),
		"priority": cmp.Or(
			u.Priority,
			http.Ordinary,
		), "connections": strconv.FormatInt(max(u.Connections, min(connections, inFlight/u.Page), 1), 10),
		"threads": strconv.FormatInt(max(u.Threads, 1), 10), "keepalive": strconv.FormatBool(u.KeepAlive),
		"warmup": fillTime.String(), "time": u.duration().String(), "timeout": timeout.String(),
	}
	if u.Protocol == http.Two {
		v["protocol"] = http.Two
	}
	return v
}

// measure measures the network path.
func (u Use) measure(ctx context.Context, t execution.Target, asks param.Values) (workload.Path, error) {
	var out workload.Path
	ctx, cancel := context.WithTimeout(ctx, readyTime+3*timeout)
	defer cancel()
	addr, stop, err := u.startResponder(ctx, t)
	if err != nil {
		return out, err
	}
	defer stop()
	asks["addr"] = addr.String()
	defer delete(asks, "addr")
	r, err := request(ctx, t, asks)
	if err == nil && r.Work < enough && len(r.Errors) == 0 {
		slow := maps.Clone(asks)
		slow["time"] = slowTime.String()
		r, err = request(ctx, t, slow)
	}
	if err != nil {
		return out, err
	}
	if why := http.Failed(r); why != "" || r.ElapsedNS <= 0 {
		return out, fault.New(fault.Lab, "the responder: %s", why)
	}
	out.PerSecond = r.Work / (float64(r.ElapsedNS) / 1e9)
	response := responder.Response(asks["protocol"], webroot.Page(u.Page).Home().Body)
	out.BytesPerSecond = out.PerSecond * float64(len(response))
	if r.Generator != nil {
		out.Utilisation = r.Generator.Utilisation
	}
	if r.Counters == nil {
		return out, nil
	}
	received, sent, name := workload.Carried(*r.Counters, "")
	// The interfaces also carried the warm-up and what was in progress at the end. Beside a
	// few slow responses that is much, so there their bytes are those of the whole time.
	per := out.PerSecond / max(r.Work, http.Stated(r, "requests"))
	if passed := float64(r.Counters.After.AtNS-r.Counters.Before.AtNS) / 1e9; r.Work < enough && passed > 0 {
		per = 1 / passed
	}
	out.Interface, out.ReceivedPerSecond, out.SentPerSecond = name, received*per, sent*per
	return out, nil
}

// request lets the generator request responses for a time.
func request(ctx context.Context, t execution.Target, asks param.Values) (r wire.Result, err error) {
	result, said, exit, err := t.Generate(ctx, asks.Args())
	if err != nil {
		return r, err
	}
	if !exit.OK() || result.Lost > 0 {
		return r, fault.New(fault.Lab, "the generator failed with %s: %s", exit, bytes.TrimSpace(said.Bytes()))
	}
	return r, json.Unmarshal(result.Bytes(), &r)
}

// startResponder starts a responder in the environment, at a port that the
// system chooses, and returns its address and a function that stops it.
func (u Use) startResponder(ctx context.Context, t execution.Target) (addr netip.AddrPort, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	listen := netip.AddrPortFrom(u.Addr, 0)
	if t.Listen.IsValid() {
		listen = t.ListenAddr(netip.AddrPortFrom(u.Addr, server.ResponderPort))
	}
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		said := conn.Tail{Limit: 2048}
		exit, err := t.Subject.Exec(ctx, conn.Cmd{Argv: []string{t.Subject.Info().Agent, responder.Name,
			"--listen", listen.String(), "--page", strconv.FormatInt(u.Page, 10),
			"--workers", strconv.FormatInt(max(u.Workers, 1), 10), "--protocol", cmp.Or(u.Protocol, http.One),
			"--for", (2 * readyTime).String()}, Stdout: in, Stderr: &said})
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
	return netip.AddrPortFrom(u.Addr, addr.Port()), stop, nil
}
