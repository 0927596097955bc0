package runner

import (
	"bytes"
	"context"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/siege"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/http/path"
	"bakeoff/reach/conn"
)

// maxExec bounds what siege prints, in bytes.
const maxExec = 8 << 20

// runNative runs the agent's generator on the pages in turn. It compares the
// bodies with the verified ones.
func (s *site) runNative(ctx context.Context, raw workload.Raw) error {
	var urls []load.URL
	for _, page := range s.askedPages() {
		known, ok := s.known.Pages[page.path]
		if !ok {
			return fault.New(fault.Lab, "the page %s was not verified", page.path)
		}
		urls = append(urls, load.URL{Path: page.path, Status: 200, Length: int64(known.Length), Sum: known.SHA256})
	}
	list := s.target.PeerDir + "/cms-urls-" + s.params.Text("pages")
	if err := s.target.Peer.Push(ctx, list, 0o644, bytes.NewReader(load.FormatURLs(urls))); err != nil {
		return err
	}
	v := param.Values{"addr": s.addr.String(), "list": list}
	for _, name := range []string{"connections", "time", "timeout", "keepalive"} {
		v[name] = s.params.Text(name)
	}
	if s.target.PeerShares {
		v["priority"] = http.Ordinary
	}
	out, said, exit, err := s.target.Generate(ctx, v.Args())
	raw[workload.Work] = out.Bytes()
	switch {
	case err != nil:
		return fault.Op("generator", err)
	case out.Lost > 0:
		return fault.New(fault.Lab, "the generator's output is longer than %d bytes", execution.MaxGenerated)
	case !exit.OK():
		return fault.New(fault.Lab, "generator: %s: %s", exit, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// measurePath measures the path to the application, with responses of the mean length.
func (s *site) measurePath(ctx context.Context) error {
	pages, length := s.askedPages(), int64(0)
	for _, page := range pages {
		length += int64(s.known.Pages[page.path].Length)
	}
	priority := "auto"
	if s.target.PeerShares {
		priority = http.Ordinary
	}
	p := s.params
	return path.Measure(ctx, s.target, path.Use{Addr: s.addr.Addr(), Connections: p.Int("connections"),
		KeepAlive: p.Bool("keepalive"), Protocol: http.One, Priority: priority,
		Page: max(length/int64(max(len(pages), 1)), webroot.MinPage),
		Time: p.Duration("time")})
}

// runSiege runs siege on the pages in turn, in its own home directory.
func (s *site) runSiege(ctx context.Context, raw workload.Raw) error {
	at := tool.Place{Dir: s.target.PeerDir + "/bakeoff-cms"}
	for _, page := range s.askedPages() {
		at.URLs = append(at.URLs, "http://"+s.addr.String()+page.path)
	}
	cmd, err := siege.New().Command(s.params, at)
	if err != nil {
		return err
	}
	if err := execution.WriteFiles(ctx, s.target.Peer, at.Dir, cmd.Files); err != nil {
		return err
	}
	limit := 2*s.params.Duration("time") + 2*s.params.Duration("timeout")
	out, said := conn.Tail{Limit: maxExec}, conn.Tail{Limit: 4096}
	exit, err := s.target.Peer.Exec(ctx, conn.Cmd{
		Argv: append([]string{s.target.PeerAgent, "exec", "--json", "--waits", "--dir", at.Dir,
			"--timeout", limit.String(), "--"}, cmd.Argv...),
		Env:    append([]string{"LC_ALL=C", "HOME=" + at.Dir}, cmd.Env...),
		Stdout: &out, Stderr: &said,
	})
	raw[workload.ExecBlob] = out.Bytes()
	switch {
	case err != nil:
		return fault.Op("siege", err)
	case out.Lost > 0:
		return fault.New(fault.Lab, "bakeoff-agent's output is longer than %d bytes", maxExec)
	case !exit.OK():
		return fault.New(fault.Lab, "siege: bakeoff-agent failed with %s: %s", exit, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// findSiege checks that siege is installed on the load generator's side, and
// reads its version.
func (s *site) findSiege(ctx context.Context) error {
	said, aside := conn.Tail{Limit: 64 << 10}, conn.Tail{Limit: 64 << 10}
	if _, err := conn.Output(ctx, s.target.Peer, "mkdir", "-p", s.target.PeerDir+"/bakeoff-cms"); err != nil {
		return err
	}
	_, err := s.target.Peer.Exec(ctx, conn.Cmd{Argv: []string{"siege", "--version"},
		Env: []string{"LC_ALL=C", "HOME=" + s.target.PeerDir + "/bakeoff-cms"}, Stdout: &said, Stderr: &aside})
	if fault.Is(err, fault.NotFound) {
		return fault.WithFix(fault.New(fault.Unsupported, "siege is not installed where the load generator runs"),
			"install it there: apt-get install siege")
	}
	if err != nil {
		return err
	}
	facts, err := siege.New().Version(append(said.Bytes(), aside.Bytes()...))
	if err != nil {
		return fault.Wrap(fault.Lab, "siege --version", err)
	}
	s.known.Facts["siege"] = facts["version"]
	return nil
}
