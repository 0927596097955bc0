package runner

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/connect"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/conn/local"
)

func TestMain(m *testing.M) { workloadtest.Main(m, connect.Loop()) }

// serve starts a server that handles every connection by the function each. It returns
// the address of the server.
func serve(t *testing.T, each func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(workloadtest.Loopback(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	suite.Accept(t, l, func(c net.Conn) {
		each(c)
		io.Copy(io.Discard, c) // the client ends it
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func banner(c net.Conn) { io.WriteString(c, "SSH-2.0-test\r\n") }

func target(t *testing.T) execution.Target {
	tg := workloadtest.Local(t)
	tg.Peer, tg.PeerAgent, tg.PeerDir = local.Conn{}, tg.Subject.Info().Agent, t.TempDir()
	tg.Addr, tg.State = workloadtest.Loopback(), map[string]string{}
	return tg
}

func cell(answer string, more ...string) param.Values {
	p := param.Defaults(connect.Workload{}.Doc().Params)
	p[connect.ParamAnswer], p[connect.ParamTime] = answer, "100ms"
	for i := 0; i < len(more); i += 2 {
		p[more[i]] = more[i+1]
	}
	return p
}

// tried is a cell with Prepare and one trial.
func tried(t *testing.T, tg execution.Target, p param.Values) (map[string]float64, error) {
	t.Helper()
	r := New()
	if err := r.Prepare(t.Context(), tg, p); err != nil {
		return nil, err
	}
	return once(t, tg, p)
}

func once(t *testing.T, tg execution.Target, p param.Values) (map[string]float64, error) {
	t.Helper()
	raw, err := New().Run(t.Context(), tg, p)
	if err != nil {
		return nil, err
	}
	values, err := New().Parse(raw, p)
	got := map[string]float64{}
	for _, v := range values {
		got[v.Metric] = v.Value
	}
	return got, err
}

func TestSuite(t *testing.T) {
	port := strconv.Itoa(int(serve(t, banner).Port()))
	workloadtest.Run(t, New(), workloadtest.Options{Target: target, Partial: true,
		Common: param.Values{connect.ParamAnswer: "ssh:" + port, connect.ParamTime: "100ms"},
		Cells:  []param.Values{{connect.ParamAnswer: "tcp:" + port}}})
}

// The time is that until the answer, not until the connection. A forwarded port accepts
// before the server does, and so its first byte counts.
func TestTheAnswerIsMeasured(t *testing.T) {
	const late = 20 * time.Millisecond
	slow := serve(t, func(c net.Conn) {
		time.Sleep(late)
		banner(c)
	})
	port := strconv.Itoa(int(slow.Port()))
	got, err := tried(t, target(t), cell("ssh:"+port))
	if err != nil || got["latency-p50"] < late.Seconds() || got["latency-max"] < got["latency-p50"] {
		t.Errorf("a banner: %v, %v", got, err)
	}
	mute := target(t)
	mute.Addr = netip.Addr{}
	mute.Forward = func(_ context.Context, p uint16) (netip.AddrPort, error) {
		if p != 22 {
			t.Errorf("asked for port %d", p)
		}
		return slow, nil
	}
	if got, err := tried(t, mute, cell("tcp:22")); err != nil || got["latency-p50"] < late.Seconds() {
		t.Errorf("a forwarded port: %v, %v", got, err)
	}
	web := serve(t, func(c net.Conn) {
		request := make([]byte, 4)
		if _, err := io.ReadFull(c, request); err == nil && string(request) == "GET " {
			io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n")
		}
	})
	if got, err := tried(t, target(t), cell("http:"+strconv.Itoa(int(web.Port()))+"/")); err != nil ||
		!(got["latency-p50"] > 0) {
		t.Errorf("a page: %v, %v", got, err)
	}
}

// A server that stops to answer is a result of the subject, with the classes of errors.
func TestNoAnswerIsTheSubjects(t *testing.T) {
	for says, answer := range map[string]func(net.Conn){
		"closed":       func(c net.Conn) { c.Close() },
		"wrong answer": func(c net.Conn) { io.WriteString(c, "220 mail\r\n") },
		"timeout":      func(net.Conn) {},
	} {
		at := serve(t, answer)
		_, err := once(t, target(t), cell("ssh:"+strconv.Itoa(int(at.Port())), connect.ParamTimeout, "200ms"))
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(workloadtest.Loopback(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	if _, err := once(t, target(t), cell("tcp:"+strconv.Itoa(port))); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("a closed port: %v", err)
	}
}

// Errors among answers are counted, for the gate.
func TestErrorsAreCounted(t *testing.T) {
	var n atomic.Int64
	at := serve(t, func(c net.Conn) {
		if n.Add(1)%2 == 0 {
			c.Close()
			return
		}
		banner(c)
	})
	p := cell("ssh:" + strconv.Itoa(int(at.Port())))
	raw, err := New().Run(t.Context(), target(t), p)
	if err != nil || !strings.Contains(string(raw[workload.Work]), `"closed":`) {
		t.Errorf("%s, %v", raw[workload.Work], err)
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"", "udp:53", "tcp:0", "http:80"} {
		if err := (Runner{}).Check(param.Values{connect.ParamAnswer: text}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	tg := target(t)
	tg.Addr = netip.Addr{}
	if _, err := New().Run(t.Context(), tg, cell("tcp:22")); !fault.Is(err, fault.Unsupported) {
		t.Errorf("no address: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/work/v1","loop":"connect","work":0,"elapsed_ns":5,"errors":{"refused":2}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := New().Parse(workload.Raw{workload.Work: b}, nil)
		for _, v := range values {
			if err != nil || !(v.Value > 0) {
				t.Errorf("%q gave %v, %v", b, values, err)
			}
		}
	})
}
