package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

func TestMain(m *testing.M) {
	if run := programs[filepath.Base(os.Args[0])]; run != nil {
		os.Exit(run(os.Args[1:]))
	}
	workloadtest.Main(m, Loop())
}

// programs are what the test binary is by other names, beside the agent.
var programs = map[string]func(args []string) int{}

// engines are run through the same tests.
var engines = []string{"auto", "portable"}

// serve starts a server that misbehaves as its script says: script writes the
// answer to the nth request, from 0, and returns false to hang up.
func serve(t *testing.T, script func(c net.Conn, n int64) bool) (addr string, requests *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	requests = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c, script, requests)
		}
	}()
	return l.Addr().String(), requests
}

func answer(c net.Conn, script func(net.Conn, int64) bool, requests *atomic.Int64) {
	defer c.Close()
	var have []byte
	buf := make([]byte, 4096)
	for {
		for !bytes.Contains(have, blankLine) {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			have = append(have, buf[:n]...)
		}
		_, have, _ = bytes.Cut(have, blankLine)
		if !script(c, requests.Add(1)-1) {
			return
		}
	}
}

const hello = "hello, world"

func good(c net.Conn) bool {
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(hello))+"\r\n\r\n"+hello)
	return err == nil
}

// besideOthers is for generators of parallel tests. Real-time priority belongs to the
// process: the first generator that ends would take it from the others, and one that
// starts meanwhile would believe that the process was started with it.
const besideOthers = "priority=" + http.Ordinary

// generate runs the loop against addr with these parameters.
func generate(t *testing.T, addr string, args ...string) wire.Result {
	t.Helper()
	args = append([]string{"addr=" + addr, "length=" + strconv.Itoa(len(hello)), "sha256=" + SumOf([]byte(hello)),
		"timeout=20s"}, args...)
	p, err := param.ParseArgs(loopParams, args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Loop().Run(ctx, p, loop.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// parsed parses the result as if it had come back from a trial.
func parsed(t *testing.T, r wire.Result) (map[string]float64, error) {
	t.Helper()
	r.Schema, r.Loop = wire.WorkSchema, "http"
	values, err := (http.Workload{}).Parse(workload.Raw{workload.Work: encode(t, r)}, nil)
	m := map[string]float64{}
	for _, v := range values {
		m[v.Metric] = v.Value
	}
	return m, err
}

func TestCountsEveryResponseOnce(t *testing.T) {
	for _, engine := range engines {
		for threads, warm := range map[string]string{"1": "", "2": "warmup=200ms", "3": ""} {
			addr, requests := serve(t, func(c net.Conn, _ int64) bool { return good(c) })
			args := append(strings.Fields(warm), "time=200ms", "connections=7", "threads="+threads, "engine="+engine)
			r := generate(t, addr, args...)
			if len(r.Errors) > 0 || !r.Check.Verified || r.Work == 0 {
				t.Errorf("%s, %s threads: errors %v, check %+v, %g requests", engine, threads, r.Errors, r.Check, r.Work)
			}
			h, err := http.DecodeHistogram(r.Histogram)
			if err != nil {
				t.Fatal(err)
			}
			// One response on each connection is warm-up, and more if there is a time for it.
			n, served := h.TotalCount(), requests.Load()
			if n > served-7 || (n == served-7) != (warm == "") || int64(r.Work) > n || int64(r.Work) < n-7 {
				t.Errorf("%s, %s threads: served %d, %d latencies, %g in time", engine, threads, served, n, r.Work)
			}
			if !slices.Contains(r.Values, sample.Value{Metric: "requests", Unit: "request", Value: float64(served)}) {
				t.Errorf("%s, %s threads: served %d, values %v", engine, threads, served, r.Values)
			}
			var windows float64
			for _, w := range r.Windows {
				windows += w
			}
			if windows != r.Work {
				t.Errorf("%s: the windows hold %g of %g requests", engine, windows, r.Work)
			}
		}
	}
}

// Every kind of wrong answer is an error of its class, as often as it was
// given, and never a request.
func TestErrorsByClass(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Length: "
	for _, c := range []struct {
		class  string
		answer string
		stays  bool
	}{
		{"status 404", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", true},
		{"status 503", "HTTP/1.1 503 Busy\r\nContent-Length: 12\r\nConnection: close\r\n\r\n" + hello, false},
		{"wrong body", head + "12\r\n\r\nhello, World", true},
		{"wrong body", head + "13\r\n\r\nhello, world!", true},
		{"short body", head + "11\r\n\r\nhello, worl", true},
		{"short body", head + "12\r\n\r\nhello", false},
		{"connection closed", "", false},
		{"connection closed", "HTTP/1.1 20", false},
		{"malformed response", "SSH-2.0-OpenSSH_9.2\r\n", false},
		{"malformed response", head + "12\r\n\r\n" + hello + "HTTP/1.1", false},
	} {
		for _, engine := range engines {
			t.Run(fmt.Sprintf("%s, %q", engine, c.answer), func(t *testing.T) {
				t.Parallel() // it waits
				var bad atomic.Int64
				addr, _ := serve(t, func(conn net.Conn, n int64) bool {
					if n < 4 || n%3 != 0 {
						return good(conn)
					}
					bad.Add(1)
					io.WriteString(conn, c.answer)
					return c.stays
				})
				r := generate(t, addr, "time=400ms", "connections=4", "engine="+engine, besideOthers)
				if want := map[string]int64{c.class: bad.Load()}; bad.Load() == 0 || !maps.Equal(r.Errors, want) || r.Work == 0 {
					t.Errorf("errors %v, want %v; %g requests", r.Errors, want, r.Work)
				}
				if v, err := parsed(t, r); err != nil || v["throughput"] <= 0 {
					t.Errorf("a trial with some good responses: %v, %v", v, err)
				}
			})
		}
	}
}

func TestReset(t *testing.T) {
	for _, engine := range engines {
		addr, _ := serve(t, func(c net.Conn, n int64) bool {
			if n < 4 || n%3 != 0 {
				return good(c)
			}
			c.(*net.TCPConn).SetLinger(0) // closing sends a reset
			return false
		})
		r := generate(t, addr, "time=150ms", "connections=4", "engine="+engine)
		if r.Errors["connection reset"] == 0 || len(r.Errors) > 1 || r.Work == 0 {
			t.Errorf("%s: errors %v, %g requests", engine, r.Errors, r.Work)
		}
	}
}

// A trial in which nothing went well has failed, and says how.
func TestNothingGood(t *testing.T) {
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	notFound, requests := serve(t, func(c net.Conn, _ int64) bool {
		_, err := io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	})
	other, _ := serve(t, func(c net.Conn, _ int64) bool {
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello, world")
		return err == nil
	})
	mute, _ := serve(t, func(net.Conn, int64) bool { time.Sleep(10 * time.Second); return false })
	for _, engine := range engines {
		before := requests.Load()
		for addr, want := range map[string]string{
			refused.Addr().String(): "3 of 3 requests failed: connection refused",
			notFound:                "server answered 404 to ",
			other:                   "requests failed: wrong body",
			mute:                    "3 of 3 requests failed: timeout",
		} {
			// Only where nothing is answered may the timeout be short: else a busy machine would add to the errors.
			timeout := "20s"
			if addr == mute {
				timeout = "200ms"
			}
			r := generate(t, addr, "time=50ms", "timeout="+timeout, "connections=3", "engine="+engine)
			if r.Work != 0 || r.Check.Verified {
				t.Errorf("%s, %s: %g requests, check %+v", engine, want, r.Work, r.Check)
			}
			_, err := parsed(t, r)
			if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", engine, err, want)
			}
			if n := requests.Load() - before; addr == notFound &&
				!strings.Contains(err.Error(), fmt.Sprintf("404 to %d of %d requests", n, n)) {
				t.Errorf("%s: %v, after %d requests", engine, err, n)
			}
		}
	}
}

// While the server stalls for a second, an open loop goes on: the stall is in
// its latencies. A closed loop waits with the server, and hardly sees it.
func TestCoordinatedOmission(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const stall = time.Second
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // it waits
			p99 := map[string]float64{}
			for name, args := range map[string][]string{"closed": nil, "open": {"rate=500/s"}} {
				var until atomic.Int64
				addr, _ := serve(t, func(c net.Conn, n int64) bool {
					if n == 400 {
						until.Store(nowNanos() + int64(stall))
					}
					time.Sleep(time.Duration(until.Load() - nowNanos()))
					return good(c)
				})
				args = append(args, "time=3s", "timeout=5s", "connections=3", "engine="+engine, besideOthers)
				v, err := parsed(t, generate(t, addr, args...))
				if err != nil {
					t.Fatal(err)
				}
				p99[name] = v["latency-p99"]
			}
			// 500 of 1500 requests were due during the stall, evenly: the last
			// percent of all waited for at least 97 % of it.
			if p99["open"] < 0.9*stall.Seconds() || p99["closed"] > stall.Seconds()/2 {
				t.Errorf("a stall of %v has a p99 of %v s", stall, p99)
			}
		})
	}
}

// All requests that were due are accounted for, whatever became of them.
func TestOpenLoopSendsWhatIsDue(t *testing.T) {
	for _, engine := range engines {
		for _, spacing := range []string{"constant", "exponential"} {
			addr, requests := serve(t, func(c net.Conn, _ int64) bool { return good(c) })
			r := generate(t, addr, "time=300ms", "connections=5", "rate=1000/s", "seed=9", "spacing="+spacing,
				"engine="+engine, "timeout=20s")
			h, err := http.DecodeHistogram(r.Histogram)
			if err != nil {
				t.Fatal(err)
			}
			want := dueWithin(newSchedule(1000, spacing == "exponential", 9, 0, 1), 300*time.Millisecond)
			if h.TotalCount() != want || requests.Load() != want+5 || len(r.Errors) > 0 {
				t.Errorf("%s, %s: %d latencies of %d requests, %d due; errors %v", engine, spacing, h.TotalCount(),
					requests.Load(), want, r.Errors)
			}
			if g := r.Generator; g == nil || g.LatenessP50 == nil || g.LatenessP99 == nil || *g.LatenessP99 < *g.LatenessP50 {
				t.Errorf("%s: the generator's state is %+v", engine, r.Generator)
			}
		}
	}
}

func dueWithin(s *schedule, d time.Duration) (n int64) {
	for ; s.next < int64(d); s.advance() {
		n++
	}
	return n
}

// What could not be sent is an error, too: one connection and a server that
// takes 50 ms cannot do 1000 requests a second.
func TestOverload(t *testing.T) {
	for _, engine := range engines {
		addr, _ := serve(t, func(c net.Conn, _ int64) bool { time.Sleep(50 * time.Millisecond); return good(c) })
		r := generate(t, addr, "time=300ms", "connections=1", "rate=1000/s", "engine="+engine, "timeout=2s")
		h, err := http.DecodeHistogram(r.Histogram)
		if err != nil {
			t.Fatal(err)
		}
		if n := h.TotalCount() + http.Failures(r.Errors); n != 300 || r.Errors["unsent"] < 200 {
			t.Errorf("%s: %d latencies and %v of 300 requests", engine, h.TotalCount(), r.Errors)
		}
		if q := http.Stated(r, "queued-share"); q < 0.5 {
			t.Errorf("%s: %g of the requests waited for the connection", engine, q)
		}
	}
}

// A server that dies in the middle leaves errors, and the requests that it
// answered.
func TestServerDies(t *testing.T) {
	for _, engine := range engines {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var n atomic.Int64
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go answer(c, func(c net.Conn, i int64) bool {
					if i == 100 {
						l.Close()
					}
					return i < 100 && good(c)
				}, &n)
			}
		}()
		r := generate(t, l.Addr().String(), "time=1s", "connections=4", "engine="+engine)
		if r.Errors["connection refused"] == 0 || r.Work == 0 || r.Work > 100 {
			t.Errorf("%s: errors %v, %g requests", engine, r.Errors, r.Work)
		}
	}
}

func TestWithoutKeepalive(t *testing.T) {
	for _, engine := range engines {
		var conns atomic.Int64
		addr, requests := serve(t, func(c net.Conn, _ int64) bool {
			conns.Add(1)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 12\r\n\r\n"+hello)
			return false
		})
		for _, args := range [][]string{{"keepalive=false"}, {"keepalive=false", "rate=200/s"}, {"keepalive=true"}} {
			r := generate(t, addr, append(args, "time=150ms", "connections=4", "engine="+engine)...)
			if len(r.Errors) > 0 || r.Work == 0 {
				t.Errorf("%s, %v: errors %v, %g requests", engine, args, r.Errors, r.Work)
			}
		}
		if conns.Load() != requests.Load() {
			t.Errorf("%s: %d requests on %d connections", engine, requests.Load(), conns.Load())
		}
	}
}

func TestEndsWithItsContext(t *testing.T) {
	addr, _ := serve(t, func(c net.Conn, _ int64) bool { return good(c) })
	for _, engine := range engines {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		p, err := param.ParseArgs(loopParams, []string{"addr=" + addr, "time=1h", "engine=" + engine})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = Loop().Run(ctx, p, loop.Env{})
		cancel()
		if err == nil || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %v after %v", engine, err, time.Since(began))
		}
	}
}

func TestRefusedParameters(t *testing.T) {
	for _, bad := range []string{
		"addr=localhost:80", "addr=127.0.0.1", "path=index.html", "path=/a b", "path=/a\r\nX: y", "host=a\nb",
		"sha256=abc", "sha256=" + strings.Repeat("G", 64), "tls=true", "rate=1000000000/s",
	} {
		args := []string{"addr=127.0.0.1:80", bad}
		p, err := param.ParseArgs(loopParams, args)
		if err != nil {
			t.Fatalf("%q: %v", bad, err)
		}
		if _, err := parseLoad(p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, and an error of kind invalid is right", bad, err)
		}
	}
}

func TestSchedule(t *testing.T) {
	var all []int64
	for thread := range 3 {
		s := newSchedule(20000, false, 0, thread, 3)
		for range 20000 {
			all = append(all, s.next)
			s.advance()
		}
	}
	slices.Sort(all)
	for i, at := range all {
		if want := int64(i) * 50000; at < want-1 || at > want+1 {
			t.Fatalf("request %d of three threads is due at %d ns, want %d", i, at, want)
		}
	}
	// The mean of 100,000 exponential gaps is within 2 % of 1/rate (6 σ).
	s := newSchedule(1000, true, 1, 0, 1)
	for range 100000 {
		s.advance()
	}
	if mean := float64(s.next) / 100001; mean < 0.98e6 || mean > 1.02e6 {
		t.Errorf("the mean gap at 1000/s is %g ns", mean)
	}
}

func encode(t *testing.T, r wire.Result) []byte {
	t.Helper()
	r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(v sample.Value) bool { return v.Metric == "" })
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzParse(f *testing.F) {
	h := http.NewHistogram()
	for i := range int64(100) {
		http.Record(h, i*1000)
	}
	text, err := http.EncodeHistogram(h)
	if err != nil {
		f.Fatal(err)
	}
	r := wire.Result{Schema: wire.WorkSchema, Loop: "http", Work: 100, ElapsedNS: 1e9, Histogram: text}
	o := outcome{tally: newTally(1e9), verified: true}
	o.tally.latency = h
	o.tally.good, o.tally.all = 100, 101
	full, err := o.result(&load{time: time.Second, connections: 1, threads: 1}, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range []wire.Result{r, full} {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte(`{"before":{"cpu":{"user":1}},"after":{"cpu":{"user":2}}}`),
			[]byte(`{"before":{"at_ns":1,"joules":1},"after":{"at_ns":2,"joules":3}}`))
	}
	f.Add([]byte("{}"), []byte("null"), []byte("{"))
	f.Fuzz(func(t *testing.T, work, host, generator []byte) {
		values, err := (http.Workload{}).Parse(workload.Raw{workload.Work: work, workload.Host: host,
			workload.GeneratorHost: generator}, nil)
		for _, v := range values {
			m, ok := (http.Workload{}).Doc().Metric(v.Metric)
			if err != nil || !ok || m.Unit != v.Unit || !(v.Value >= 0) {
				t.Fatalf("%+v, %v", v, err)
			}
		}
	})
}
