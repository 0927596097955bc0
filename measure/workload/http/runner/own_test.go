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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/server"
	"bakeoff/measure/workload/workloadtest"
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
			io.WriteString(w, "a page"+strings.Repeat(".", pageRest))
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

// pageRest is the length of the page of the user's server, but for its first words.
const pageRest = 20_000

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
		v := param.Values{"server": "own", "port": port, "path": "/page", "time": "500ms", "warmup": "10ms",
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
			if err := json.Unmarshal(raw[http.ServerBlob], &d); err != nil || d.Server != "own" || d.Version != "mine/1.0" ||
				len(d.Program) > 0 {
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
			// The responder's responses are as long as those of the user's server.
			if !tt.mute && !(path.BytesPerSecond > pageRest*path.PerSecond) {
				t.Errorf("the path was measured with other responses than the page: %+v", path)
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
		"kernel's TLS":   {param.Values{"server": "own", "port": "80", "ktls": "true"}, "ktls cannot be set"},
		"all":            {param.Values{"server": "own", "port": "80", "urls": "all"}, "home or an absolute path"},
		"both":           {param.Values{"server": "own", "port": "80", "urls": "/l", "path": "/"}, "both name what"},
		"a path":         {param.Values{"server": "own", "port": "80", "path": "page"}, "must begin with /"},
		"path of nginx":  {param.Values{"path": "/page"}, "the page of the server own"},
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

// userConfig is an nginx.conf that bakeoff does not write. It listens at an address of IPv4
// and at one of IPv6.
const userConfig = `worker_processes auto;
pid %[1]s/http-%[3]d/nginx.pid;
error_log stderr;
events { worker_connections 64; }
http {
  access_log /dev/stdout;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
  uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server { listen %[2]s:%[3]d; listen [::1]:%[3]d; location / { return 200 "the user's own"; } }
}
`

// userServer is a target and the command line of a user's nginx there, in the foreground.
func userServer(t *testing.T) (execution.Target, []string, string) {
	t.Helper()
	target := bare(t)
	target.Shared = map[string]string{}
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("needs IPv6:", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	scratch := target.Subject.Info().Scratch
	file := filepath.Join(scratch, "user.conf")
	text := fmt.Sprintf(userConfig, scratch, target.Addr, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return target, []string{"nginx", "-c", file, "-g", "daemon off;"}, strconv.Itoa(port)
}

// listensToo has the server of a file listen at another port of addr, and returns the port.
func listensToo(t *testing.T, file, addr, port string) string {
	t.Helper()
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := "listen " + strings.TrimSuffix(addr, "0") + port + ";"
	both := strings.Replace(string(text), at, at+" listen "+l.Addr().String()+";", 1)
	if err := os.WriteFile(file, []byte(both), 0o600); err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// bakeoff starts the program in run, or that of the image, with the user's configuration, and
// reaches it over IPv4 and IPv6. A second cell uses the same server, at the same port or at another
// one.
func TestUsersProgram(t *testing.T) {
	target, argv, port := userServer(t)
	second := listensToo(t, argv[2], netip.AddrPortFrom(target.Addr, 0).String(), port)
	target.AddIPv6 = func(context.Context) (netip.Addr, error) { return netip.IPv6Loopback(), nil }
	var said []string
	target.Warn = func(text string) { said = append(said, text) }
	cell := param.Values{"server": "own", "port": port, "time": "500ms", "warmup": "10ms", "connections": "2",
		"timeout": "30s", "run": param.Join(argv)}
	for _, family := range []string{"", "ipv6"} {
		if family != "" {
			cell["family"] = family
		}
		target.State = map[string]string{}
		got, raw, err := tried(t, target, cell)
		if err != nil || !(got["throughput"] > 0) {
			t.Fatalf("%q: it measured %v, %v", family, got, err)
		}
		var d server.Description
		if err := json.Unmarshal(raw[http.ServerBlob], &d); err != nil || !strings.HasPrefix(d.Version, "nginx/") ||
			!slices.Equal(d.Program, argv) || !strings.Contains(d.Config, "the user's own") {
			t.Errorf("the server is %+v, %v", d, err)
		}
	}
	delete(cell, "family")
	cell["port"], target.State = second, map[string]string{}
	if got, _, err := tried(t, target, cell); err != nil || !(got["throughput"] > 0) {
		t.Errorf("its second port: %v, %v", got, err)
	}
	cell["port"] = port
	// The image names the same program: it runs already.
	delete(cell, "run")
	target.State, target.Start.Argv = map[string]string{}, argv
	if got, _, err := tried(t, target, cell); err != nil || !(got["throughput"] > 0) {
		t.Errorf("the program of the image: %v, %v", got, err)
	}
	cell["run"] = param.Join([]string{"nginx"})
	target.State = map[string]string{}
	_, _, err := tried(t, target, cell)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "another cell") {
		t.Errorf("another program at the port: %v", err)
	}
	for _, text := range said {
		if !strings.Contains(text, "worker_processes auto") {
			t.Errorf("the user reads %q", text)
		}
	}
}

// The user's server has a certificate of its own, here of RSA; the generator speaks TLS with it
// over both protocols.
func TestUsersCertificate(t *testing.T) {
	target, argv, port := userServer(t)
	scratch := target.Subject.Info().Scratch
	pair, err := server.SelfSigned("rsa-4096", target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(argv[2])
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("listen %s:%s;", target.Addr, port)
	secure := strings.Replace(string(text), listen, strings.TrimSuffix(listen, ";")+" ssl http2; ssl_certificate "+scratch+
		"/mine.crt; ssl_certificate_key "+scratch+"/mine.key;", 1)
	for name, b := range map[string][]byte{"mine.crt": pair.Certificate, "mine.key": pair.Key,
		"user.conf": []byte(secure)} {
		if err := os.WriteFile(filepath.Join(scratch, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cell := param.Values{"server": "own", "port": port, "time": "500ms", "warmup": "10ms", "connections": "2",
		"timeout": "30s", "tls": "true", "run": param.Join(argv)}
	for _, protocol := range []string{http.One, http.Two} {
		cell["protocol"] = protocol
		target.State = map[string]string{}
		got, raw, err := tried(t, target, cell)
		if err != nil || !(got["throughput"] > 0) {
			t.Fatalf("%s: it measured %v, %v", protocol, got, err)
		}
		var d server.Description
		if err := json.Unmarshal(raw[http.ServerBlob], &d); err != nil || !strings.HasPrefix(d.TLS, "TLS 1.") ||
			!strings.HasSuffix(d.TLS, ", RSA 4096") {
			t.Errorf("%s: the server is %+v, %v", protocol, d, err)
		}
	}
}

// A program that ends is an error at once, with its exit code and its last lines. One that is
// missing, and one at a port that is taken, are errors before it.
func TestUsersProgramFails(t *testing.T) {
	target, argv, port := userServer(t)
	argv[2] += ".none"
	for name, tt := range map[string]struct {
		argv []string
		says []string
		port string
	}{
		"it ends":      {argv, []string{"ended with exit code 1", "user.conf.none"}, port},
		"missing":      {[]string{"no-such-server"}, []string{"no-such-server", "correct run"}, port},
		"a taken port": {argv, []string{"before bakeoff starts nginx"}, ownServer(t)},
	} {
		target.State, target.Shared = map[string]string{}, map[string]string{}
		_, _, err := tried(t, target, param.Values{"server": "own", "port": tt.port, "run": param.Join(tt.argv)})
		if !fault.Is(err, fault.Subject) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range tt.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v does not say %q", name, err, text)
			}
		}
	}
}

// TestWorkersAuto checks the warning about worker_processes auto in an environment with
// fewer CPUs than the machine.
func TestWorkersAuto(t *testing.T) {
	target, argv, port := userServer(t)
	one := 1
	in := target.Subject.(*workloadtest.Instance)
	in.Information.Limits.CPUs = &one
	said := ""
	target.Warn = func(text string) { said = text }
	if _, _, err := tried(t, target, param.Values{"server": "own", "port": port, "time": "50ms", "warmup": "10ms",
		"run": param.Join(argv)}); err != nil {
		t.Fatal(err)
	}
	if runtime.NumCPU() > 1 && !strings.Contains(said, "but this environment may use only 1") {
		t.Errorf("the user reads %q", said)
	}
}
