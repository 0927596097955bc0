package load

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"bakeoff/measure/workload/http"
)

// selfSigned makes a certificate for this machine.
func selfSigned(t *testing.T) (sum string, cert tls.Certificate) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	cert = s.TLS.Certificates[0]
	return SumOf(cert.Certificate[0]), cert
}

// serveTLS is serve over HTTPS. It returns the sum of the certificate as well.
func serveTLS(t *testing.T, script func(c net.Conn, n int64) bool) (addr, sum string, requests *atomic.Int64) {
	t.Helper()
	sum, cert := selfSigned(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert},
		NextProtos: []string{"h2", "http/1.1"}})
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
	return l.Addr().String(), sum, requests
}

// HTTPS is counted as HTTP is, in either engine.
func TestSecureCountsEveryResponseOnce(t *testing.T) {
	for _, engine := range engines {
		for _, threads := range []string{"1", "2"} {
			addr, sum, requests := serveTLS(t, func(c net.Conn, _ int64) bool { return good(c) })
			r := generate(t, addr, "tls=true", "certificate="+sum, "time=200ms", "connections=5", "threads="+threads,
				"engine="+engine, "timeout=20s")
			h, err := http.DecodeHistogram(r.Histogram)
			if err != nil {
				t.Fatal(err)
			}
			if n := h.TotalCount(); len(r.Errors) > 0 || !r.Check.Verified || r.Work == 0 || n != requests.Load()-5 {
				t.Errorf("%s: errors %v, %d of %d responses", engine, r.Errors, n, requests.Load())
			}
		}
	}
}

// Bodies of many records, an open loop, and servers that hang up.
func TestSecureTrouble(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<15) // 512 KiB
	for _, c := range []struct {
		name   string
		script func(c net.Conn, n int64) bool
		args   []string
		errors string // class of all errors; "" for none
	}{
		{"many records", func(c net.Conn, n int64) bool {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(long))
			_, err := c.Write([]byte(long))
			return err == nil
		}, []string{"length=-1", "sha256=" + SumOf([]byte(long))}, ""},
		{"open loop", func(c net.Conn, n int64) bool { return good(c) }, []string{"rate=200/s"}, ""},
		{"hangs up politely", func(c net.Conn, n int64) bool {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello)
			return false
		}, nil, ""},
		{"hangs up instead", func(c net.Conn, n int64) bool { return n%5 != 4 && good(c) }, nil, "connection closed"},
		{"cut short", func(c net.Conn, n int64) bool {
			if n%5 != 4 {
				return good(c)
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello[:3])
			return false
		}, nil, "short body"},
	} {
		for _, engine := range engines {
			addr, sum, _ := serveTLS(t, c.script)
			r := generate(t, addr, append([]string{"tls=true", "certificate=" + sum, "time=250ms", "connections=3",
				"engine=" + engine, "timeout=20s"}, c.args...)...)
			if r.Work == 0 || c.errors == "" && len(r.Errors) > 0 || c.errors != "" &&
				(r.Errors[c.errors] == 0 || len(r.Errors) > 1) {
				t.Errorf("%s, %s: %g requests, errors %v", c.name, engine, r.Work, r.Errors)
			}
		}
	}
}

func TestSecureTrustsOneCertificate(t *testing.T) {
	for _, engine := range engines {
		addr, _, _ := serveTLS(t, func(c net.Conn, _ int64) bool { return good(c) })
		r := generate(t, addr, "tls=true", "certificate="+SumOf([]byte("another")), "time=100ms", "connections=2",
			"engine="+engine)
		if r.Work > 0 || http.Failures(r.Errors) == 0 || r.Check.Verified {
			t.Errorf("%s: %g requests, errors %v", engine, r.Work, r.Errors)
		}
	}
}

// A handshake that never ends is a timeout, and holds nothing else up.
func TestSecureHandshakeTimesOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // accepts nothing, which the kernel does for it
	for _, engine := range engines {
		r := generate(t, l.Addr().String(), "tls=true", "certificate="+SumOf(nil), "time=50ms", "timeout=100ms",
			"connections=2", "engine="+engine)
		if r.Errors["timeout"] != 2 || len(r.Errors) != 1 {
			t.Errorf("%s: errors %v", engine, r.Errors)
		}
	}
}
