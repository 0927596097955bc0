package cli

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// A port that another program has is an error with a remedy.
func TestServeOnATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out strings.Builder
	s := &Streams{Out: &out, Err: &out}
	err = s.Serve(t.Context(), http.NotFoundHandler(), "", l.Addr().(*net.TCPAddr).Port)
	if !fault.Is(err, fault.Lab) || !strings.Contains(fault.Fix(err), "another --port") || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
