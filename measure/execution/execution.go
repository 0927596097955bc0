// Package execution is the contract of what runs a workload: it prepares an
// environment, resets it and runs trials there. Package all lists the runners.
package execution

import (
	"context"
	"net/netip"
	"time"

	"bakeoff/base/param"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Runner executes a workload, and parses what came back.
type Runner interface {
	workload.Parser
	// Prepare brings an environment to where trials can run: files,
	// servers. It is called once an environment and cell, and is idempotent.
	Prepare(ctx context.Context, t Target, p param.Values) error
	// Reset brings it back to the stated state before each trial, untimed.
	Reset(ctx context.Context, t Target, p param.Values) error
	// Run does one trial and returns raw bytes. A failure of what is
	// measured is an error of kind fault.Subject; what there is of Raw is
	// kept even then.
	Run(ctx context.Context, t Target, p param.Values) (workload.Raw, error)
}

// Checker is a Runner that can tell, before anything is made, that there can
// be no trial with these parameters: they contradict each other, or name a file
// on the controller's machine that is not there. Its error is of kind
// fault.Invalid: the person's input, and no failure of what is measured.
type Checker interface {
	Check(p param.Values) error
}

// Finder is a Runner that uses files which its parameters name and which
// nothing of ours puts there: whoever plans looks whether they are there.
type Finder interface {
	// Files lists what must be in an environment before Prepare.
	Files(p param.Values) []File
}

// File is something that must be in an environment.
type File struct {
	Param string // that names it
	// Path is absolute, or the bare name of a program that is looked up in PATH.
	Path   string
	Folder bool
}

// Target is where a trial happens.
type Target struct {
	// Subject is what is measured.
	Subject driver.Instance
	// Peer is the other end, with CPUs or a host of its own; nil unless Doc
	// asks for it. PeerAgent is the agent's path there, PeerDir a directory.
	Peer      conn.Conn
	PeerAgent string
	PeerDir   string
	// PeerShares tells that Peer has no CPUs of its own, but those of Subject:
	// what runs there before everything else would take them from it.
	PeerShares bool
	// Addr is where Peer reaches Subject: a real path. Port is the
	// workload's to choose.
	Addr netip.Addr
	// Fresh creates another environment of this contender, with marks on the
	// host's clock: for life cycle and boot. The caller closes it.
	Fresh func(ctx context.Context) (driver.Instance, []Mark, error)
	// State is kept by the runner between the calls for one environment and
	// cell: a workload may store there what Prepare found out.
	State map[string]string
	// Shared is the same for all cells of one environment; it may be nil.
	Shared map[string]string
}

// Mark is a named moment on the host's clock.
type Mark struct {
	Name string
	At   time.Time
}

// Parsers returns the runners as what they parse with.
func Parsers(runners []Runner) []workload.Parser {
	out := make([]workload.Parser, len(runners))
	for i, r := range runners {
		out[i] = r
	}
	return out
}
