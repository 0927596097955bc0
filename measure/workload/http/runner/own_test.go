package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/server"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// ownServer is a server that bakeoff did not start, and its port.
func ownServer(t *testing.T) string {
	t.Helper()
	n := 0
	all, err := net.Listen("tcp4", ":0") // each environment has a loopback address of its own
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("Server", "mine/1.0")
		switch r.URL.Path {
		case "/page":
			io.WriteString(w, "a page")
		case "/dynamic":
			n++
			fmt.Fprintf(w, "answer %d", n)
		default:
			nethttp.NotFound(w, r)
		}
	}))
	s.Listener.Close()
	s.Listener = all
	s.Start()
	t.Cleanup(s.Close)
	return strconv.Itoa(all.Addr().(*net.TCPAddr).Port)
}

// agentless is an environment in which nothing can be started.
type agentless struct{ driver.Instance }

func (agentless) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	return conn.Exit{}, fault.New(fault.Unsupported, "it has no agent")
}

// tried is a cell in an environment with Prepare, Reset and one trial.
func tried(t *testing.T, target execution.Target, p param.Values) (map[string]float64, workload.Raw, error) {
	t.Helper()
	p, err := param.Complete(http.Workload{}.Doc().Params, p)
	if err != nil {
		t.Fatal(err)
	}
	r := Runner{}
	if err := r.Check(p); err != nil {
		return nil, nil, err
	}
	if err := r.Prepare(t.Context(), target, p); err != nil {
		return nil, nil, err
	}
	if err := r.Reset(t.Context(), target, p); err != nil {
		return nil, nil, err
	}
	raw, err := r.Run(t.Context(), target, p)
	if err != nil {
		return nil, raw, err
	}
	values, err := r.Parse(raw, p)
	got := map[string]float64{}
	for _, v := range values {
		got[v.Metric] = v.Value
	}
	return got, raw, err
}

// The generator measures a server that bakeoff did not start, also in an environment
// without an agent, which has the address that its driver forwards.
func TestOwnServer(t *testing.T) {
	if testing.Short() {
		t.Skip("generates load")
	}
	port := ownServer(t)
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	cell := func(more param.Values) param.Values {
		v := param.Values{"server": "own", "port": port, "path": "/page", "time": "200ms", "warmup": "10ms",
			"connections": "4", "timeout": "30s"}
		for name, value := range more {
			v[name] = value
		}
		return v
	}
	list := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(list, []byte("/page\n/dynamic contains=answer min=8 max=30\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		params param.Values
		mute   bool
	}{"an agent": {cell(nil), false}, "no agent": {cell(nil), true},
		"a list": {cell(param.Values{"urls": list, "path": ""}), true}} {
		t.Run(name, func(t *testing.T) {
			target := here(t)
			asked := []uint16{}
			if tt.mute {
				target.Subject, target.Addr = agentless{target.Subject}, netip.Addr{}
				target.Forward = func(_ context.Context, p uint16) (netip.AddrPort, error) {
					asked = append(asked, p)
					return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(n)), nil
				}
				tt.params["port"] = "80"
			}
			got, raw, err := tried(t, target, tt.params)
			if err != nil || !(got["throughput"] > 0) || !(got["latency-p99"] > 0) {
				t.Fatalf("it measured %v, %v", got, err)
			}
			var d server.Description
			if err := json.Unmarshal(raw[http.ServerBlob], &d); err != nil || d != (server.Description{Server: "own",
				Version: "mine/1.0"}) {
				t.Errorf("the server is %+v, %v", d, err)
			}
			var path workload.Path
			if err := json.Unmarshal(raw[workload.PathBlob], &path); err != nil {
				t.Fatal(err)
			}
			if unknown := strings.Contains(path.Reason, "it has no agent"); unknown != tt.mute ||
				tt.mute && (len(asked) != 1 || asked[0] != 80) {
				t.Errorf("the path is %+v; asked for the ports %v", path, asked)
			}
		})
	}
}

// What cannot be measured is refused before anything starts, or told with its reason.
func TestOwnServerIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		params param.Values
		says   string
	}{
		"no port":        {param.Values{"server": "own"}, "needs the port"},
		"a site":         {param.Values{"server": "own", "port": "80", "site": "example"}, "site cannot be set"},
		"TLS":            {param.Values{"server": "own", "port": "80", "tls": "true"}, "tls cannot be set"},
		"all":            {param.Values{"server": "own", "port": "80", "urls": "all"}, "home or an absolute path"},
		"both":           {param.Values{"server": "own", "port": "80", "urls": "/l", "path": "/"}, "both name what"},
		"a path":         {param.Values{"server": "own", "port": "80", "path": "page"}, "must begin with /"},
		"path of nginx":  {param.Values{"path": "/page"}, "the page of server own"},
		"list not there": {param.Values{"server": "own", "port": "80", "urls": "/no/such/list"}, "no such file"},
	} {
		p, err := param.Complete(http.Workload{}.Doc().Params, tt.params)
		if err == nil {
			err = server.Check(p)
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if doc := (http.Workload{}).Doc(); doc.StartsNothing(param.Values{}) ||
		!doc.StartsNothing(param.Values{"server": "own"}) {
		t.Error("only server own needs no agent")
	}
	if testing.Short() {
		t.Skip("generates load")
	}
	// A page that is not there is no page.
	p, err := param.Complete(http.Workload{}.Doc().Params, param.Values{"server": "own", "port": ownServer(t),
		"path": "/nothing"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(here(t), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a page that is not there: %v", err)
	}
}
