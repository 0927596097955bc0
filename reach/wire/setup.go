package wire

import "net/netip"

// Setup describes the network namespace and the root of an environment on a
// Linux host. `bakeoff-agent setup` creates both in one process, because a
// program per step would take longer than the steps.
type Setup struct {
	Network *Netns `json:"network,omitempty"`
	Root    *Root  `json:"root,omitempty"`
}

// Netns is the network namespace of an environment.
type Netns struct {
	// Name is its name for ip(8).
	Name string `json:"name"`
	// Of is a process whose network namespace gets the name; 0 creates a
	// new namespace.
	Of int `json:"of,omitempty"`
	// Link connects it; nil: it has only a loopback interface.
	Link *Link `json:"link,omitempty"`
}

// Link is a pair of virtual Ethernet devices between an environment's
// namespace and a bridge in another.
type Link struct {
	Inside    string       `json:"inside"`    // name of the end in the environment's namespace
	MAC       string       `json:"mac"`       // of that end
	Addr      netip.Prefix `json:"addr"`      // IPv4, of that end
	Outer     string       `json:"outer"`     // name of the end at the bridge
	Namespace string       `json:"namespace"` // name of the namespace in which the bridge is
	Bridge    string       `json:"bridge"`
}

// Root describes a root file system that `bakeoff-agent setup` creates on a
// Linux host: an overlay over an image, with what programs expect in it.
type Root struct {
	// At is the mount point, Lower the image, which is not changed; Upper
	// and Work are directories on one file system. All are existing
	// directories of the host.
	At    string `json:"at"`
	Lower string `json:"lower"`
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// System adds /proc, /sys (read-only) and a minimal /dev.
	System bool `json:"system"`
	// Dev adds the minimal /dev alone.
	Dev bool `json:"dev,omitempty"`
	// Dirs are created inside, with mode 1777.
	Dirs []string `json:"dirs"`
	// Binds are mounted inside.
	Binds []Bind `json:"binds"`
}

// Bind is a file or directory of the host that is visible inside a root.
type Bind struct {
	From     string `json:"from"` // on the host
	To       string `json:"to"`   // inside
	ReadOnly bool   `json:"read_only"`
}

// MaxPlaced is how many entries the nearest existing folder above a placed file may
// have. Each takes a mount of its own in the namespace of every program.
const MaxPlaced = 256
