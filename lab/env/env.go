// Package env creates environments on a host and keeps a lease for each: a
// record that is written before anything is created, so that the next
// controller finds what a killed one left (provision/lease).
//
// It locks the host, divides its CPUs (some for the subject, the others for the
// load generator and the controller), creates the experiment's network, and
// provides the image and the agent.
package env

import (
	"bakeoff/provision/lease"
	"bakeoff/reach/conn"
)

// Config is what a Manager needs.
type Config struct {
	// StateDir holds leases, locks and the directories of environments,
	// CacheDir images and kernels. Both are on the host.
	StateDir, CacheDir string
	// HostLock is the file of the lock that all runs on the host share, whatever
	// their StateDir; "" locks only StateDir.
	HostLock string
	// Host reaches the host: a Machine, or another Conn to this machine. Name
	// is the host's name in the lab file; "" is LocalHost.
	Host conn.Conn
	Name string
	// Ship says where images are built for a host that is not this machine; nil
	// builds them on the host.
	Ship *Ship
	// Agent is the path on the host of bakeoff-agent for its system.
	Agent string
	// Run is the name of the run, for the leases.
	Run string
	// Uplink is an interface of the host that leads to the other hosts of the
	// experiment; "" keeps the network local. Place, 0 to 254, is different for
	// each host and is part of its addresses.
	Uplink string
	Place  byte
	// Meter is a command that prints the reading of an energy meter on the
	// host, in joules; empty for none.
	Meter []string
	// Progress receives a line for a person when something takes long or goes
	// wrong; nil discards it. Several managers may call it at the same time.
	Progress func(string)
}

// LocalHost is the name of this machine in lab files.
const LocalHost = "local"

// Ship says where images are built and from where they are sent.
type Ship struct {
	Here  conn.Conn // this machine
	Cache string    // the cache here
}

// Found is what a lease left behind.
type Found struct {
	Lease lease.Lease `json:"lease"`
	// Left has one line for each thing: a mount, a process, a control group.
	Left    []string `json:"left"`
	Removed bool     `json:"removed"`
	// Kept means that the lease outlives its process: only its owner removes it.
	Kept bool `json:"kept,omitempty"`
	// InUse means that a run that measures now holds the lease: nothing of it is left over.
	// With Err, that is not known, and nothing was removed.
	InUse bool   `json:"in_use,omitempty"`
	Err   string `json:"error,omitempty"`
}
