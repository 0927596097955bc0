package runner

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/ab"
	"bakeoff/measure/tool/h2load"
	"bakeoff/measure/tool/hey"
	"bakeoff/measure/tool/siege"
	"bakeoff/measure/tool/wrk"
	"bakeoff/measure/workload"
)

// The real generators before a server that offers HTTP/2 and writes down what they speak: it
// is what bakeoff says of them.
func TestGeneratorsSpeakWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		tool tool.Tool
		set  param.Values
		want string
	}{
		{wrk.New(), nil, workload.HTTP11},
		{siege.New(), nil, workload.HTTP11},
		{siege.New(), param.Values{"keepalive": "false"}, workload.HTTP11},
		{ab.New(), nil, workload.HTTP10},
		{hey.New(), nil, workload.HTTP11},
		{hey.New(), param.Values{"keepalive": "false"}, workload.HTTP11},
		{h2load.New(), nil, workload.HTTP11},
		{h2load.New(), param.Values{"protocol": "http/2", "streams": "2"}, workload.HTTP2},
	} {
		d := c.tool.Doc()
		t.Run(d.Name+" "+strings.Join(c.set.Args(), " "), func(t *testing.T) {
			needs(t, c.tool)
			heard, url := recorder(t)
			p := param.Defaults(d.Params)
			p["time"], p["connections"] = "1s", "2"
			for name, text := range c.set {
				p[name] = text
			}
			dir := t.TempDir()
			cmd, err := c.tool.Command(p, tool.Place{Dir: dir, URL: url})
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range cmd.Files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out, said bytes.Buffer
			run := exec.CommandContext(t.Context(), cmd.Argv[0], cmd.Argv[1:]...)
			run.Dir, run.Env, run.Stdout, run.Stderr = dir, append(os.Environ(), "HOME="+dir), &out, &said
			if err := run.Run(); err != nil {
				t.Fatalf("%v: %s%s", err, out.Bytes(), said.Bytes())
			}
			files := map[string][]byte{}
			for blob, name := range cmd.Keep {
				if files[blob], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			r, err := c.tool.Parse(tool.Output{Stdout: out.Bytes(), Stderr: said.Bytes(), Files: files}, p)
			if err != nil {
				t.Fatal(err)
			}
			used := r.Protocol
			if d.Protocol != nil {
				used = d.Protocol(p)
			}
			if got := heard(); used != c.want || !slices.Equal(got, []string{c.want}) {
				t.Errorf("the server heard %q, and bakeoff says %q; want %q", got, used, c.want)
			}
		})
	}
}

// recorder is a server that offers HTTP/2 and HTTP/1.1 over TLS. It returns what it heard.
func recorder(t *testing.T) (heard func() []string, url string) {
	t.Helper()
	var guard sync.Mutex
	seen := map[string]bool{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard.Lock()
		defer guard.Unlock()
		seen[r.Proto] = true
		w.Write([]byte("hello\n"))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return func() (out []string) {
		guard.Lock()
		defer guard.Unlock()
		for name := range seen {
			out = append(out, strings.TrimSuffix(name, ".0"))
			if name == workload.HTTP10 {
				out[len(out)-1] = name
			}
		}
		slices.Sort(out)
		return out
	}, s.URL + "/index.html"
}

// nginx with HTTP/2 before wrk: a real handshake finds both protocols, and the trial says
// which of them the requests used.
func TestOfferedProtocolsAreKept(t *testing.T) {
	needs(t, wrk.New())
	for offers, want := range map[string][]string{"true": {workload.HTTP2, workload.HTTP11}, "false": {workload.HTTP11}} {
		target, w := web(t), New(wrk.New())
		p := param.Defaults(w.Doc().Params)
		p["time"], p["connections"], p["tls"], p["http2"] = "1s", "2", "true", offers
		if err := w.Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		raw, err := w.Run(t.Context(), target, p)
		if err != nil {
			t.Fatal(err)
		}
		var got workload.Protocol
		if err := json.Unmarshal(raw[workload.ProtocolBlob], &got); err != nil || got.Used != workload.HTTP11 ||
			!slices.Equal(got.Offered, want) {
			t.Errorf("http2=%s: %+v, %v; want %q", offers, got, err, want)
		}
	}
}
