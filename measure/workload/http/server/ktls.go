package server

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/measure/workload/http"
)

// Kernel TLS: OpenSSL passes the keys of a connection to the kernel, and nginx
// then sends files without reading them. This depends on nginx, OpenSSL and the
// kernel, and none of them reports when it does not happen: the server would
// silently fall back.

// kernelTLS refuses an environment whose server does not support kernel TLS.
func (s *Server) kernelTLS(ctx context.Context) error {
	if !s.params.Bool("ktls") {
		return nil
	}
	counts, err := readText(ctx, s.target.Subject, http.TLSCounters)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	build, err := s.programOutput(ctx, "-V")
	if err != nil {
		return err
	}
	if why := withoutKernelTLS(counts, build); why != "" {
		return http.WithoutKernelTLS(why)
	}
	return nil
}

var (
	nginxVersion   = lazy.Compile(`nginx/(\d+)\.(\d+)\.(\d+)`)
	opensslVersion = lazy.Compile(`OpenSSL (\d+)\.`)
)

// withoutKernelTLS returns why an nginx with this build (nginx -V) cannot use
// kernel TLS, given the kernel's counters; "" if it can.
func withoutKernelTLS(counts, build string) string {
	if !strings.Contains(counts, "TlsTxSw") {
		return http.NoKernelTLS
	}
	v := nginxVersion.FindStringSubmatch(build)
	if v == nil || !atLeast(v[1:], 1, 21, 4) {
		return "nginx is older than 1.21.4, which was the first to use it"
	}
	all := opensslVersion.FindAllStringSubmatch(build, -1)
	if len(all) == 0 || !atLeast(all[len(all)-1][1:], 3) {
		return "nginx is not linked with OpenSSL 3.0 or later"
	}
	return ""
}

// atLeast compares versions number by number.
func atLeast(version []string, least ...int) bool {
	got := make([]int, len(least))
	for i := range least {
		got[i], _ = strconv.Atoi(version[i]) // digits
	}
	return slices.Compare(got, least) >= 0
}

// sessions returns the number of connections that the kernel has started to
// encrypt.
func (s *Server) sessions(ctx context.Context) (int64, error) {
	text, err := readText(ctx, s.target.Subject, http.TLSCounters)
	if err != nil {
		return 0, err
	}
	var n int64
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && (f[0] == "TlsTxSw" || f[0] == "TlsTxDevice") {
			k, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, fault.New(fault.Lab, "%s: %q", http.TLSCounters, line)
			}
			n += k
		}
	}
	return n, nil
}

// proveKernelTLS gets the page and verifies that the kernel encrypted it.
func (s *Server) proveKernelTLS(ctx context.Context) error {
	if !s.params.Bool("ktls") {
		return nil
	}
	before, err := s.sessions(ctx)
	if err != nil {
		return err
	}
	if err := s.fetchPage(ctx, answerTime); err != nil {
		return err
	}
	after, err := s.sessions(ctx)
	if err == nil && after == before {
		return fault.New(fault.Unsupported, "ktls: nginx answers, but the kernel encrypted nothing (%s): OpenSSL is "+
			"built without kernel TLS, or the kernel does not support the cipher", http.TLSCounters)
	}
	return err
}
