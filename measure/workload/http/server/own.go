package server

import (
	"context"
	"encoding/json"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
)

// own tells that the environment's own system has started the server: bakeoff neither
// configures nor starts it, and does not know what it serves.
func (s *Server) own() bool { return s.name == http.Own }

// ownURLs returns what the generator requests from such a server: one page, whose first
// response is the reference for the others, or a list.
func ownURLs(p param.Values) ([]load.URL, error) {
	invalid := func(fix, format string, args ...any) ([]load.URL, error) {
		return nil, fault.WithFix(fault.New(fault.Invalid, format, args...), fix)
	}
	if p.Int("port") == 0 {
		return invalid("set for example port: 80", "server own needs the port of the server")
	}
	for _, name := range []string{"tls", "http2", "ktls", "tcp-nopush"} {
		if p.Bool(name) {
			return invalid("remove "+name, "%s cannot be set for server own, which bakeoff does not configure", name)
		}
	}
	if p.Text("site") != "" {
		return invalid("remove site, and name the page with path or urls",
			"site cannot be set for server own, which serves its own files")
	}
	switch list := p.Text("urls"); {
	case list == "home" || list == "":
		u := load.URL{Path: "/", Length: -1}
		if p.Text("path") != "" {
			u.Path = p.Text("path")
		}
		return []load.URL{u}, fault.Wrap(fault.Invalid, "path", u.Check())
	case p.Text("path") != "":
		return invalid("remove one of them", "path and urls both name what to request")
	case path.IsAbs(list):
		return firstResult("own urls "+list, func() ([]load.URL, error) { return load.ReadURLs(list) })
	default:
		return invalid("set path: /page, or urls: /path/of/a/list", "urls of server own must be home or an absolute path "+
			"(got %q)", list)
	}
}

// forwardKey is the key in Target.State of the address of a server in an environment
// without one.
const forwardKey = "http.forward"

// Forward asks where the peer reaches the server of an environment that has no address
// of its own.
func Forward(ctx context.Context, t execution.Target, p param.Values) error {
	if t.Forward == nil || p.Text("server") != http.Own || t.State[forwardKey] != "" {
		return nil
	}
	at, err := t.Forward(ctx, uint16(p.Int("port")))
	if err == nil {
		t.State[forwardKey] = at.String()
	}
	return err
}

// meet waits until the server answers, and notes what it says about itself.
func (s *Server) meet(ctx context.Context) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	d := Description{Server: http.Own}
	if !s.http2() {
		var err error
		if d.Version, err = s.banner(ctx); err != nil {
			return fault.Wrap(fault.Subject, "", err)
		}
	}
	b, err := json.Marshal(d)
	if s.target.State != nil {
		s.target.State[stateKey] = string(b)
	}
	return err
}

// banner is the field Server of a response; "" if it has none.
func (s *Server) banner(ctx context.Context) (string, error) {
	head, err := s.peer().Get(ctx, s.urls[0], checkTime)
	for line := range strings.Lines(head) {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Server") {
			return safetext.Line(strings.TrimSpace(value)), err
		}
	}
	return "", err
}
