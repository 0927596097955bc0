package runner

import (
	"cmp"
	"context"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/path"
	"bakeoff/measure/workload/http/server"
)

// Check implements execution.Checker: it checks the parameters of the tool and of
// the server that the tool needs.
func (r Runner) Check(p param.Values) error {
	d := r.Tool().Doc()
	if d.Server == tool.Web {
		if err := server.Check(p); err != nil {
			return err
		}
	}
	// Any place will do, with little memory: how much there is is not known yet.
	at := tool.Place{Dir: "/", Data: "/", MemoryBytes: 1, URL: "http://localhost/", Host: "/", User: "x",
		Database: "x", Port: 1}
	if _, err := r.Tool().Command(p, at); fault.Is(err, fault.Invalid) {
		return fault.Op(d.Name, err)
	}
	return nil
}

// Ports implements execution.Server.
func (r Runner) Ports(p param.Values) []uint16 {
	if r.Tool().Doc().Server != tool.Web {
		return nil
	}
	return server.Ports(p)
}

// startServer starts the server that the tool needs, and writes its address to at.
func (s *site) startServer(ctx context.Context, at *tool.Place) error {
	switch s.tool.Doc().Server {
	case tool.Web:
		if err := server.Forward(ctx, s.target, s.params); err != nil {
			return err
		}
		web, err := server.New(s.target, s.params)
		if err != nil {
			return err
		}
		if err := web.Start(ctx); err != nil {
			return err
		}
		at.URL = web.URL()
		if v := web.Version(ctx); v != "" {
			s.known.Facts["server"] = v
		}
		if err := web.AskOffered(ctx); err != nil {
			return err
		}
		return s.measurePath(ctx, web)
	case tool.Database:
		return s.startDatabase(ctx, at)
	}
	return nil
}

// checkServer checks before each trial that the server answers.
func (s *site) checkServer(ctx context.Context) error {
	switch s.tool.Doc().Server {
	case tool.Web:
		web, err := server.New(s.target, s.params)
		if err != nil {
			return err
		}
		return web.Check(ctx)
	case tool.Database:
		at := s.known.At
		d, err := s.database(&at)
		if err != nil {
			return err
		}
		return d.Alive(ctx, at.Database)
	}
	return nil
}

// keepWeb adds to the raw output of a trial what is known of the path to the server, and of the
// protocol.
func (s *site) keepWeb(raw workload.Raw) error {
	path.Keep(s.target, raw)
	web, err := server.New(s.target, s.params)
	if err != nil {
		return err
	}
	used := ""
	if f := s.tool.Doc().Protocol; f != nil {
		used = f(s.params)
	}
	return web.KeepProtocol(raw, used)
}

// measurePath measures the path to the server, with the native generator.
func (s *site) measurePath(ctx context.Context, web *server.Server) error {
	p := s.params
	keep := true
	if text := p.Text("keepalive"); text != "" {
		keep = p.Bool("keepalive")
	}
	return path.Measure(ctx, s.target, path.Use{Addr: web.Addr().Addr(), Connections: p.Int("connections"),
		Threads: p.Int("threads"), KeepAlive: keep, Protocol: cmp.Or(p.Text("protocol"), http.One),
		Page: web.MeanResponse(ctx), Workers: p.Int("workers"), Time: p.Duration("time")})
}
