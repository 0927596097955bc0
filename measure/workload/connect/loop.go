package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/loop"
	"bakeoff/reach/readiness"
	"bakeoff/reach/wire"
)

// Loop connects again and again: `bakeoff-agent work connect --json addr=…`. It opens one
// connection at a time, waits for the answer, and resets it, so that none of them waits
// for its end in this system.
func Loop() loop.Loop {
	return loop.Loop{Name: Name, Run: runLoop, Params: append([]param.Spec{
		{Name: "addr", Kind: param.Text, Required: true, Doc: "address and port of the server: 10.0.0.2:22"},
		{Name: "forwarded", Kind: param.Bool, Default: "false",
			Doc: "something else accepts connections for the server; one of tcp:PORT must then send a byte"},
	}, params...)}
}

// warmUp is how many connections are made before the timed part: the first one resolves
// the address of the network card.
const warmUp = 3

func runLoop(ctx context.Context, p param.Values, _ loop.Env) (wire.Result, error) {
	at, err := netip.ParseAddrPort(p.Text("addr"))
	if err != nil {
		return wire.Result{}, fault.WithFix(fault.New(fault.Invalid, "addr: %q is not an address with a port",
			p.Text("addr")), "write 10.0.0.2:22")
	}
	server, err := readiness.Parse(p.Text(ParamAnswer))
	if err != nil {
		return wire.Result{}, fault.Op(ParamAnswer, err)
	}
	length, timeout := p.Duration(ParamTime), p.Duration(ParamTimeout)
	if length <= 0 || timeout <= 0 {
		return wire.Result{}, fault.New(fault.Invalid, "time and timeout must be positive")
	}
	once := func() (time.Duration, error) { return connect(ctx, at.String(), server, p.Bool("forwarded"), timeout) }
	for range warmUp {
		if _, err := once(); err != nil {
			break // it counts below
		}
	}
	h, failed, begun := http.NewHistogram(), map[string]int64{}, time.Now()
	good := int64(0)
	for time.Since(begun) < length || good == 0 && len(failed) == 0 {
		took, err := once()
		if ctx.Err() != nil {
			return wire.Result{}, ctx.Err()
		}
		if err != nil {
			failed[errorClass(err)]++
			time.Sleep(time.Millisecond) // a port that refuses would be asked without a pause
			continue
		}
		good++
		http.Record(h, took.Nanoseconds())
	}
	text, err := http.EncodeHistogram(h)
	return wire.Result{Schema: wire.WorkSchema, Loop: Name, Params: p, Work: float64(good), WorkUnit: "request",
		ElapsedNS: time.Since(begun).Nanoseconds(), Errors: failed, Histogram: text, Values: http.Latencies(h, 0),
		Check: wire.Check{Verified: good > 0, Answer: server.String()}}, err
}

// connect opens a connection, waits for the answer and returns how long both took.
func connect(ctx context.Context, at string, server readiness.Server, forwarded bool,
	timeout time.Duration) (time.Duration, error) {
	begun := time.Now()
	c, err := (&net.Dialer{Deadline: begun.Add(timeout)}).DialContext(ctx, "tcp", at)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if t, ok := c.(*net.TCPConn); ok {
		if err := t.SetLinger(0); err != nil {
			return 0, err
		}
	}
	if err := c.SetDeadline(begun.Add(timeout)); err != nil {
		return 0, err
	}
	err = server.Read(c, forwarded)
	return time.Since(begun), err
}

// errorClass is the class of an error, for the gate that counts them.
func errorClass(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	case fault.Is(err, fault.Subject):
		return "wrong answer"
	}
	return fmt.Sprintf("%.60s", err)
}
