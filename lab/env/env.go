// Package env leases environments on a host: it writes down what will be made
// before it is made, so that whatever a killed controller leaves behind is
// found by the next one.
//
// It locks the host, lays out its CPUs (the subject's, and the others for
// the load generator and the controller), makes the experiment's network,
// and puts the image and the agent where a driver finds them.
package env

import (
	"time"

	"bakeoff/reach/conn"
)

// Config is what a Manager needs.
type Config struct {
	// StateDir is for leases, locks and the directories of environments,
	// CacheDir for images and kernels; both are on the host.
	StateDir, CacheDir string
	// Host is the way to the host: a Machine, or something else that reaches
	// this machine. Name is the host's in the lab file, "" is LocalHost.
	Host conn.Conn
	Name string
	// Ship tells where images are built for a host that is not this machine;
	// nil builds them on it.
	Ship *Ship
	// Agent is the path on the host of bakeoff-agent for its system.
	Agent string
	// Run is the name of the run, for the leases.
	Run string
	// Uplink is an interface of the host that leads to other hosts of the
	// experiment; "" keeps its network to itself. Place tells their addresses
	// apart: 0 to 254, another for each.
	Uplink string
	Place  byte
	// Meter prints on the host the reading of an energy meter, in joules; empty
	// is none.
	Meter []string
	// Progress receives a line for a person when something takes long, or is
	// not as it should be; nil discards. Two hosts are read at the same time, so
	// those of several managers may be called at the same time.
	Progress func(string)
}

// LocalHost is the name of this machine in lab files.
const LocalHost = "local"

// Ship is where images are built and from where they are sent.
type Ship struct {
	Here  conn.Conn // this machine
	Cache string    // the cache here
}

// LeaseSchema is the schema of a Lease.
const LeaseSchema = "bakeoff/lease/v1"

// Lease is a lease as it is written down before an environment is made.
type Lease struct {
	Schema  string    `json:"schema"`
	Label   string    `json:"label"`
	Driver  string    `json:"driver"`
	Name    string    `json:"name"` // the contender's
	Host    string    `json:"host"`
	Dir     string    `json:"dir"`
	Run     string    `json:"run"`
	PID     int       `json:"pid"` // of the controller
	Started time.Time `json:"started"`
	// Network names the namespace of a lease that is the experiment's
	// network and not an environment.
	Network string `json:"network,omitempty"`
}

// Found is something that a lease left behind.
type Found struct {
	Lease Lease `json:"lease"`
	// Left is one line for each thing: a mount, a process, a control group.
	Left    []string `json:"left"`
	Removed bool     `json:"removed"`
	Err     string   `json:"error,omitempty"`
}

// Dirs returns the directories for state and cache: those of BAKEOFF_STATE
// and BAKEOFF_CACHE, else /var/lib/bakeoff and /var/cache/bakeoff for root,
// else below the XDG directories of the user.
func Dirs(getenv func(string) string, uid int) (state, cache string) {
	dir := func(own, root, xdg, home string) string {
		switch {
		case getenv(own) != "":
			return getenv(own)
		case uid == 0:
			return root
		case getenv(xdg) != "":
			return getenv(xdg) + "/bakeoff"
		}
		return getenv("HOME") + home
	}
	return dir("BAKEOFF_STATE", "/var/lib/bakeoff", "XDG_STATE_HOME", "/.local/state/bakeoff"),
		dir("BAKEOFF_CACHE", "/var/cache/bakeoff", "XDG_CACHE_HOME", "/.cache/bakeoff")
}
