package runner

import (
	"context"
	"fmt"

	"bakeoff/base/fault"
)

// Start starts the server and waits until the peer gets the page. It does
// nothing if the server runs with the same configuration.
func (s *Server) Start(ctx context.Context) error { return fault.Op(s.name, s.start(ctx)) }

// Check gets the page once, from the peer, and compares it. An error is of kind
// fault.Subject: the server worked before.
func (s *Server) Check(ctx context.Context) error {
	if err := s.get(ctx, checkTime); err != nil {
		return fault.Wrap(fault.Subject, s.name, s.explain(ctx, fmt.Errorf("the server does not answer: %w", err)))
	}
	return nil
}

// URL is the URL of the page for the peer.
func (s *Server) URL() string {
	scheme := "http"
	if s.params.Bool("tls") {
		scheme = "https"
	}
	return scheme + "://" + s.addr.String() + pagePath
}

// Version is what the program prints with -v; "" if it cannot be run.
func (s *Server) Version(ctx context.Context) string {
	said, err := s.ask(ctx, "-v")
	if err != nil {
		return ""
	}
	return s.version(said)
}
