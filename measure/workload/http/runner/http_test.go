package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/http/server"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// bare is this machine as an environment on the loopback network, and as the
// other end. What nginx it starts is ended with the test.
func bare(t *testing.T) execution.Target {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real nginx")
	}
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("needs nginx: apt-get install nginx")
	}
	return here(t)
}

// here is bare without the programs of servers.
func here(t *testing.T) execution.Target {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	t.Cleanup(func() {
		workloadtest.Stop(t, syscall.SIGTERM, scratch+"/http-*/nginx.pid")
		workloadtest.Stop(t, syscall.SIGTERM, scratch+"/http-*/lighttpd.pid")
	})
	return execution.Target{
		Subject: &workloadtest.Instance{Information: driver.Info{Agent: self, Scratch: scratch}},
		Peer:    local.Conn{}, PeerAgent: self, PeerDir: t.TempDir(),
		Addr: workloadtest.Loopback(), State: map[string]string{},
	}
}

// silent reports whether others kept the server from its CPU for a whole trial.
func silent(err error) bool {
	return strings.Contains(err.Error(), "the server sent no response within the time")
}

func TestSuite(t *testing.T) {
	workloadtest.Run(t, New(), workloadtest.Options{
		Target: bare, Partial: true, Void: silent,
		Common: param.Values{"time": "300ms", "timeout": "10s", "connections": "10"},
		Cells: []param.Values{
			{"rate": "2000/s"}, {"rate": "500/s", "spacing": "exponential"},
			{"tls": "true", "connections": "4"}, {"tls": "true", "key": "rsa-4096", "rate": "50/s"},
			{"keepalive": "false"}, {"page": "1MiB", "workers": "2"}, {"threads": "2"},
		},
	})
}

// lighttpd serves what nginx serves, over the same protocols.
func TestLighttpd(t *testing.T) {
	if _, err := exec.LookPath("lighttpd"); err != nil {
		t.Skip("needs lighttpd: apt-get install lighttpd lighttpd-mod-openssl")
	}
	workloadtest.Run(t, New(), workloadtest.Options{
		Target: bare, Partial: true, Void: silent,
		Common: param.Values{"server": "lighttpd", "time": "150ms", "warmup": "10ms", "timeout": "10s", "connections": "10"},
		Cells: []param.Values{
			{"site": "example", "urls": "all"}, {"workers": "2", "keepalive": "false"}, {"tls": "true", "http2": "true"},
			{"protocol": "http/2"}, {"protocol": "http/2", "tls": "true"},
		},
	})
	target := bare(t)
	p := param.Defaults(New().Doc().Params)
	p["server"] = "lighttpd"
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	var d server.Description
	if err := json.Unmarshal([]byte(target.State["http.server"]), &d); err != nil || d.Server != "lighttpd" ||
		!strings.HasPrefix(d.Version, "lighttpd/1.") || strings.Contains(d.Version, "webserver") ||
		!strings.Contains(d.Config, "server.port = ") {
		t.Errorf("the description is %+v, %v", d, err)
	}
}

// What a server program does not have is refused before anything runs.
func TestParametersOfAServer(t *testing.T) {
	for _, c := range []struct {
		set  param.Values
		want string
	}{
		{param.Values{"server": "lighttpd", "tls": "true", "http2": "true"}, ""},
		{param.Values{"server": "nginx", "tcp-nopush": "true"}, ""},
		{param.Values{"server": "lighttpd", "tcp-nopush": "true"}, "tcp-nopush cannot be set for server lighttpd: lighttpd " +
			"decides itself when it holds packets back; remove tcp-nopush, or set server: nginx"},
		{param.Values{"server": "lighttpd", "tls": "true", "ktls": "true"},
			"ktls cannot be set for server lighttpd: bakeoff " +
				"proves kernel TLS with nginx only; remove ktls, or set server: nginx"},
	} {
		p := param.Defaults(New().Doc().Params)
		for name, text := range c.set {
			p[name] = text
		}
		err := server.Check(p)
		if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Invalid) || err.Error() != c.want) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
		programs, packages := New().Doc().Needed(p)
		if server := p.Text("server"); programs[0] != server || packages["debian"][0] != server ||
			(len(packages["debian"]) == 2) != (server == "lighttpd" && p.Bool("tls")) {
			t.Errorf("%v: needs %q of %q", c.set, programs, packages)
		}
	}
}

// prepared returns a target whose server is up, and where its page is.
func prepared(t *testing.T, p param.Values) (execution.Target, param.Values, string) {
	t.Helper()
	target := bare(t)
	v := param.Defaults(New().Doc().Params)
	for name, text := range map[string]string{"time": "500ms", "connections": "5", "timeout": "10s"} {
		v[name] = text
	}
	for name, text := range p {
		v[name] = text
	}
	if err := New().Prepare(t.Context(), target, v); err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob(target.Subject.Info().Scratch + "/http-*/www/index.html")
	if len(pages) != 1 {
		t.Fatalf("pages: %q", pages)
	}
	return target, v, pages[0]
}

// A page that is missing, cut or altered fails the trial, and Reset before
// the next one.
func TestDamagedPage(t *testing.T) {
	for want, damage := range map[string]func(file string, page []byte) error{
		"server answered 404 to ": func(file string, _ []byte) error { return os.Remove(file) },
		"failed: short body":      func(file string, page []byte) error { return os.WriteFile(file, page[:4000], 0o644) },
		"failed: wrong body": func(file string, page []byte) error {
			return os.WriteFile(file, bytes.Replace(page, []byte("</p>"), []byte("</P>"), 1), 0o644)
		},
	} {
		t.Run(want, func(t *testing.T) {
			target, p, file := prepared(t, nil)
			content, err := os.ReadFile(file)
			if err == nil {
				err = damage(file, content)
			}
			if err != nil {
				t.Fatal(err)
			}
			raw, err := New().Run(t.Context(), target, p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := New().Parse(raw, p); !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
			}
			if err := New().Reset(t.Context(), target, p); !fault.Is(err, fault.Subject) {
				t.Errorf("Reset with a damaged page: %v", err)
			}
		})
	}
}

func TestServerKilledInATrial(t *testing.T) {
	target, p, page := prepared(t, param.Values{"time": "1s"})
	var r wire.Result
	// On a busy machine a trial begins late, and the end comes before it; the next one may begin earlier.
	half := 500 * time.Millisecond
	for range 20 {
		if err := New().Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan struct{})
		time.AfterFunc(half, func() {
			defer close(stopped)
			workloadtest.Stop(t, syscall.SIGTERM, filepath.Dir(filepath.Dir(page))+"/nginx.pid")
		})
		raw, err := New().Run(t.Context(), target, p)
		<-stopped
		if err != nil {
			t.Fatal(err)
		}
		r = wire.Result{}
		if err := json.Unmarshal(raw[workload.Work], &r); err != nil {
			t.Fatal(err)
		}
		if r.Work > 0 && r.Errors["connection refused"] > 0 {
			break
		}
		if r.Work == 0 {
			half += 500 * time.Millisecond
		} else {
			half /= 2
		}
	}
	if r.Work == 0 || r.Errors["connection refused"] == 0 {
		t.Errorf("%g requests, errors %v", r.Work, r.Errors)
	}
	if err := New().Reset(t.Context(), target, p); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Reset without a server: %v", err)
	}
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Errorf("Prepare after its end: %v", err)
	}
}

// Cells that configure the server alike share it; others have their own.
func TestServersSideBySide(t *testing.T) {
	target, p, _ := prepared(t, nil)
	p["connections"] = "20"
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	p["page"] = "8KiB"
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	if pids, _ := filepath.Glob(target.Subject.Info().Scratch + "/http-*/nginx.pid"); len(pids) != 2 {
		t.Errorf("servers: %q", pids)
	}
	var d server.Description
	err := json.Unmarshal([]byte(target.State["http.server"]), &d)
	if err != nil || !strings.HasPrefix(d.Version, "nginx/") {
		t.Errorf("the description is %+v, %v", d, err)
	}
}

// without is an environment that lacks a program.
type without struct {
	driver.Instance
	program string
}

func (w without) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if cmd.Argv[0] == w.program {
		cmd.Argv = append([]string{w.program + "-is-not-here"}, cmd.Argv[1:]...)
	}
	return w.Instance.Exec(ctx, cmd)
}

func TestWithoutNginx(t *testing.T) {
	target := bare(t)
	target.Subject = without{target.Subject, "nginx"}
	err := New().Prepare(t.Context(), target, param.Defaults(New().Doc().Params))
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "nginx is not installed") ||
		!strings.Contains(fault.Fix(err), "apt-get install nginx") {
		t.Errorf("%v", err)
	}
}

// A configuration that nginx refuses is reported with its own words.
func TestPortTaken(t *testing.T) {
	target, p, _ := prepared(t, nil)
	s, err := server.New(target, p)
	if err != nil {
		t.Fatal(err)
	}
	p["page"], p["port"] = "8KiB", strconv.Itoa(int(s.Addr().Port()))
	if err := New().Prepare(t.Context(), target, p); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("a port that is taken: %v", err)
	}
}

func TestMain(m *testing.M) {
	if run := programs[filepath.Base(os.Args[0])]; run != nil {
		os.Exit(run(os.Args[1:]))
	}
	workloadtest.Main(m, load.Loop())
}

// programs are what the test binary is by other names, beside the agent.
var programs = map[string]func(args []string) int{}

// nginx serves HTTP/2 with and without TLS, and a page that is missing is an
// error over HTTP/2 as well.
func TestNginxOverHTTP2(t *testing.T) {
	for _, set := range []param.Values{{"tls": "false"}, {"tls": "true", "rate": "500/s"}} {
		t.Run("tls="+set.Text("tls"), func(t *testing.T) {
			t.Parallel() // it waits
			maps.Copy(set, param.Values{"protocol": "http/2", "site": "example", "urls": "all", "warmup": "50ms"})
			target, p := served(t, set)
			if p.Bool("tls") {
				return
			}
			s, err := server.New(target, p)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := param.ParseArgs(load.Loop().Params, []string{"addr=" + s.Addr().String(), "protocol=http/2",
				"path=/none", "time=20ms", "timeout=20s", "connections=2", "priority=" + http.Ordinary})
			if err != nil {
				t.Fatal(err)
			}
			r, err := load.Loop().Run(t.Context(), loaded, loop.Env{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := New().Parse(workload.Raw{workload.Work: text}, nil); !fault.Is(err, fault.Subject) ||
				!strings.Contains(err.Error(), "server answered 404 to ") {
				t.Errorf("%v", err)
			}
		})
	}
}
