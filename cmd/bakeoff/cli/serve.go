package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
)

// CheckPort refuses a number that is not a port.
func CheckPort(c *cobra.Command, port int) error {
	if port < 0 || port > 65535 {
		return Usage(c, fmt.Errorf("--port must be between 0 and 65535; 0 selects a free port (got %d)", port))
	}
	return nil
}

// Serve serves a handler on 127.0.0.1 until the context ends, and prints the address with
// the path start. Only browsers on this machine get an answer (Local).
func (s *Streams) Serve(ctx context.Context, h http.Handler, start string, port int) error {
	return s.ServeGuarded(ctx, Local(h), start, port)
}

// ServeGuarded is Serve for a handler that refuses other machines itself.
func (s *Streams) ServeGuarded(ctx context.Context, h http.Handler, start string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return fault.WithFix(fault.Wrap(fault.Lab, "serve", err), "name another --port; 0 selects a free one")
	}
	fmt.Fprintf(s.Out, "http://%s/%s\n", l.Addr(), start)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fault.Wrap(fault.Lab, "serve", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if srv.Shutdown(end) != nil {
		srv.Close()
	}
	return nil
}

// Local answers only requests that name this machine, and only those that change nothing.
// A name that points here from elsewhere (DNS rebinding) is refused.
func Local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		switch {
		case host != "127.0.0.1" && host != "localhost":
			http.Error(w, "use 127.0.0.1 or localhost", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "use GET or HEAD", http.StatusMethodNotAllowed)
		default:
			h.ServeHTTP(w, r)
		}
	})
}
