package runner

import (
	"context"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
)

// Server is the workload's web server, for other generators of load: the same
// nginx, with the same configuration and the same page.
type Server struct{ s *server }

// NewServer returns the server that p asks for in t; nothing is touched yet.
func NewServer(t execution.Target, p param.Values) (*Server, error) {
	s, err := newServer(t, p)
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

// Start brings the server up and waits until the peer gets the page. It does
// nothing when it is up already with the same configuration.
func (s *Server) Start(ctx context.Context) error { return fault.Op("nginx", s.s.start(ctx)) }

// Check gets the page once, as a client of the peer's, and compares it. An
// error is of kind fault.Subject: what was there before is not any more.
func (s *Server) Check(ctx context.Context) error {
	if err := s.s.get(ctx, answerTime); err != nil {
		return fault.Wrap(fault.Subject, "nginx", s.s.explain(ctx, fmt.Errorf("the server no longer answers: %w", err)))
	}
	return nil
}

// URL is the page's, as the peer reaches it.
func (s *Server) URL() string {
	scheme := "http"
	if s.s.params.Bool("tls") {
		scheme = "https"
	}
	return scheme + "://" + s.s.addr.String() + pagePath
}

// Version is what `nginx -v` says; "" where it cannot be asked.
func (s *Server) Version(ctx context.Context) string {
	said, err := s.s.said(ctx, "-v")
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(said), "nginx version: ")
}
