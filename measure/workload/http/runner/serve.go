package runner

import (
	"context"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
)

// Server is the workload's web server for other load generators: the same
// nginx, configuration and page.
type Server struct{ s *server }

// NewServer returns the server for p in t; it changes nothing yet.
func NewServer(t execution.Target, p param.Values) (*Server, error) {
	s, err := newServer(t, p)
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

// Start starts the server and waits until the peer gets the page. It does
// nothing if the server runs with the same configuration.
func (s *Server) Start(ctx context.Context) error { return fault.Op("nginx", s.s.start(ctx)) }

// Check gets the page once, from the peer, and compares it. An error is of kind
// fault.Subject: the server worked before.
func (s *Server) Check(ctx context.Context) error {
	if err := s.s.get(ctx, answerTime); err != nil {
		return fault.Wrap(fault.Subject, "nginx", s.s.explain(ctx, fmt.Errorf("the server does not answer: %w", err)))
	}
	return nil
}

// URL is the URL of the page for the peer.
func (s *Server) URL() string {
	scheme := "http"
	if s.s.params.Bool("tls") {
		scheme = "https"
	}
	return scheme + "://" + s.s.addr.String() + pagePath
}

// Version is the output of `nginx -v`; "" if it cannot be run.
func (s *Server) Version(ctx context.Context) string {
	said, err := s.s.said(ctx, "-v")
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(said), "nginx version: ")
}
