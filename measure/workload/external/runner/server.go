package runner

import (
	"context"

	"bakeoff/base/param"
	"bakeoff/measure/tool"
	httprunner "bakeoff/measure/workload/http/runner"
)

// Check is that of the server which the tool needs, for execution.Checker.
func (r Runner) Check(p param.Values) error {
	if r.Tool().Doc().Server != tool.Web {
		return nil
	}
	return httprunner.Check(p)
}

// serve brings up what must answer before the tool can start, and says where
// it is.
func (s *site) serve(ctx context.Context, at *tool.Place) error {
	switch s.tool.Doc().Server {
	case tool.Web:
		web, err := httprunner.NewServer(s.target, s.params)
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
	case tool.Database:
		return s.startDatabase(ctx, at)
	}
	return nil
}

// check sees, before each trial, that the server is still there.
func (s *site) check(ctx context.Context) error {
	switch s.tool.Doc().Server {
	case tool.Web:
		web, err := httprunner.NewServer(s.target, s.params)
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
