package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"path"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/http"
)

// own tells that the environment's own system has started the server: bakeoff neither
// configures nor starts it, and does not know what it serves.
func (s *Server) own() bool { return s.name == http.Own }

// ownURLs returns what the generator requests from such a server: one page, whose first
// response is the reference for the others, or a list.
func ownURLs(p param.Values) ([]URL, error) {
	invalid := func(fix, format string, args ...any) ([]URL, error) {
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
		u := URL{Path: "/", Length: -1}
		if p.Text("path") != "" {
			u.Path = p.Text("path")
		}
		return []URL{u}, fault.Wrap(fault.Invalid, "path", u.check())
	case p.Text("path") != "":
		return invalid("remove one of them", "path and urls both name what to request")
	case path.IsAbs(list):
		return once("own urls "+list, func() ([]URL, error) { return readURLs(list) })
	default:
		return invalid("set path: /page, or urls: /path/of/a/list", "urls of server own must be home or an absolute path "+
			"(got %q)", list)
	}
}

// forwardKey is the key in Target.State of the address of a server in an environment
// without one.
const forwardKey = "http.forward"

// forward asks where the peer reaches the server of an environment that has no address
// of its own.
func forward(ctx context.Context, t execution.Target, p param.Values) error {
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
	d := description{Server: http.Own}
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
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	c, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", s.urls[0].Path,
		s.addr); err != nil {
		return "", err
	}
	r, err := nethttp.ReadResponse(bufio.NewReader(io.LimitReader(c, maxHead)), nil)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	return safetext.Line(r.Header.Get("Server")), nil
}
