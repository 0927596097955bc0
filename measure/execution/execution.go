// Package execution is the contract of what runs a workload: it prepares an
// environment, resets it and runs trials there. Package all lists the runners.
package execution

import (
	"context"
	"net/netip"
	"time"

	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Runner runs a workload and parses its output.
type Runner interface {
	workload.Parser
	// Prepare creates what trials need in an environment: files, servers.
	// It is called once per environment and cell, and is idempotent.
	Prepare(ctx context.Context, t Target, p param.Values) error
	// Reset restores the documented state before each trial, untimed.
	Reset(ctx context.Context, t Target, p param.Values) error
	// Run runs one trial and returns its raw output. A failure of what is
	// measured is an error of kind fault.Subject; Raw is kept even then.
	Run(ctx context.Context, t Target, p param.Values) (workload.Raw, error)
}

// Checker is a Runner that can check its parameters before bakeoff creates
// anything: they may contradict each other, or name a file on the controller's
// machine that does not exist. Its error is of kind fault.Invalid: wrong input,
// not a failure of what is measured.
type Checker interface {
	Check(p param.Values) error
}

// Finder is a Runner that uses files named by its parameters, which bakeoff
// does not create. Planning checks that they exist.
type Finder interface {
	// Files lists what must exist in an environment before Prepare.
	Files(p param.Values) []File
}

// File is something that must exist in an environment.
type File struct {
	Param string // the parameter that names it
	// Path is absolute, or the name of a program in PATH.
	Path   string
	Folder bool
}

// Starter is a Runner whose programs start as the image of their environment says: as
// its user, in its folder, and its own program if the parameters name none.
type Starter interface {
	// ProgramParam is the parameter that names the program to start; "" if with these
	// parameters nothing starts as the image says.
	ProgramParam(p param.Values) string
}

// Server is a Runner that starts servers in environments.
type Server interface {
	// Ports are the TCP ports at which they listen with these parameters: an environment
	// behind address translation publishes them.
	Ports(p param.Values) []uint16
}

// ProgramParam is that of r; "" if nothing starts as the image says.
func ProgramParam(r Runner, p param.Values) string {
	if s, ok := r.(Starter); ok {
		return s.ProgramParam(p)
	}
	return ""
}

// StartsImage reports whether r starts the program that the image names.
func StartsImage(r Runner, p param.Values) bool {
	name := ProgramParam(r, p)
	return name != "" && len(p.List(name)) == 0
}

// Target is where a trial runs.
type Target struct {
	// Subject is what is measured.
	Subject driver.Instance
	// Properties are those that the lab file sets, by the declared path of a volume.
	Properties map[string]map[string]string
	// Start is what the image of Subject says about its programs. Their variables are
	// already those of Subject.
	Start driver.Start
	// Peer is the load generator's side, with its own CPUs or host; nil
	// unless Doc.Peer is set. PeerAgent is the agent's path there, PeerDir
	// a directory.
	Peer      conn.Conn
	PeerAgent string
	PeerDir   string
	// PeerShares says that Peer uses the CPUs of Subject: a process with
	// priority there would take them from Subject.
	PeerShares bool
	// Addr is the address of Subject for Peer, over a real network path.
	// The workload chooses the port.
	Addr netip.Addr
	// Listen is where a server in Subject listens if Addr is not an address of Subject but
	// leads to one of its published ports; the zero Addr means Addr.
	Listen netip.Addr
	// Ports is added to the port of a server that the workload starts: subjects that are one
	// machine have one address.
	Ports uint16
	// Forward returns where Peer reaches a port of Subject that has no address of its
	// own; nil: at Addr.
	Forward func(ctx context.Context, port uint16) (netip.AddrPort, error)
	// AddIPv6 gives Subject an address of IPv6 for Peer, and returns it; nil: it cannot have
	// one.
	AddIPv6 func(ctx context.Context) (netip.Addr, error)
	// Fresh creates another environment of this contender and returns marks
	// on the host's clock, to measure life cycle and boot. The caller
	// closes it.
	Fresh func(ctx context.Context) (driver.Instance, []Mark, error)
	// Warn tells the person who runs this something about the cell in this environment
	// before its first trial; nil discards.
	Warn func(text string)
	// State persists between the calls for one environment and cell: a
	// workload may store there what Prepare found.
	State map[string]string
	// Shared is the same for all cells of one environment; it may be nil.
	Shared map[string]string
}

// ListenAddr is where a server in Subject listens that Peer reaches at addr.
func (t Target) ListenAddr(addr netip.AddrPort) netip.AddrPort {
	if t.Listen.IsValid() {
		return netip.AddrPortFrom(t.Listen, addr.Port())
	}
	return addr
}

// Mark is a named moment on the host's clock.
type Mark struct {
	Name string
	At   time.Time
	// Count is the moment on the instruction clock of the environment instead (see
	// driver.Counted); 0 for a moment on the host's clock.
	Count int64
	// Program is that of the count, see driver.Count.
	Program string
}

// Parsers returns the parsers of the runners.
func Parsers(runners []Runner) []workload.Parser {
	out := make([]workload.Parser, len(runners))
	for i, r := range runners {
		out[i] = r
	}
	return out
}

// Named returns the runner of the workload called name; nil if there is none.
func Named(runners []Runner, name string) Runner {
	r, _ := lists.Find(runners, func(r Runner) bool { return r.Doc().Name == name })
	return r
}
