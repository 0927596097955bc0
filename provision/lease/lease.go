// Package lease keeps leases: records of what is about to be created on a host. A lease is
// on the disk before anything of it exists, so that a later process finds what a killed one
// left.
package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/reach/conn"
)

// Schema is the schema of a Lease.
const Schema = "bakeoff/lease/v1"

// Lifetime says when what a lease names is no longer needed.
type Lifetime string

// The lifetimes. A lease of an older program has none: it is Run.
const (
	Run  Lifetime = "run"  // when its run ends; what remains then is a leftover
	Kept Lifetime = "kept" // when its owner removes it
)

// Lease is the record of an environment, of an engine or of the experiment's network.
type Lease struct {
	Schema string `json:"schema"`
	Label  string `json:"label"`
	Driver string `json:"driver"`
	Name   string `json:"name"` // the contender's
	Host   string `json:"host"`
	Dir    string `json:"dir"`
	// Owner is the name of the run, or of what keeps it.
	Owner    string    `json:"run"`
	Lifetime Lifetime  `json:"lifetime,omitempty"`
	PID      int       `json:"pid"` // of the controller
	Started  time.Time `json:"started"`
	// Place says who holds the lock of the lease, which lies beside the folder of leases:
	// see Folder.InUse. It is empty in a lease of an older program.
	lock.Place
	// Network is the namespace of the experiment's network; "" in the lease of
	// an environment.
	Network string `json:"network,omitempty"`
	// Settings are in the lease of an engine: the kernel settings of the host that it may
	// change. Interfaces are the network interfaces that the host had before.
	Settings   map[string]Setting `json:"settings,omitempty"`
	Interfaces []string           `json:"interfaces,omitempty"`
}

// IsKept reports whether a lease outlives the process that wrote it: only its owner removes
// it and what it names.
func (l Lease) IsKept() bool { return l.Lifetime == Kept }

// Machine is what leases need of a host.
type Machine interface {
	conn.Files
	// Keep writes a small file atomically and syncs it.
	Keep(ctx context.Context, path string, data []byte) error
	// Remove removes path with its contents. A path that does not exist is not an error.
	Remove(ctx context.Context, path string) error
}

// The names of files and folders in a state folder.
const (
	leaseDir = "lease"
	envDir   = "env"
	lockFile = "lock"
)

// Folder is where the leases of a host are.
type Folder struct {
	At    Machine
	State string // the state folder
	// Local says that the host is the machine that this program runs on.
	Local bool
}

// Dir is the folder of the leases. LockFile is that of the lock that a process holds while
// it writes or removes leases. EnvDir holds the directories that leases name.
func (f Folder) Dir() string      { return filepath.Join(f.State, leaseDir) }
func (f Folder) LockFile() string { return filepath.Join(f.State, lockFile) }
func (f Folder) EnvDir() string   { return filepath.Join(f.State, envDir) }

// Place is the directory of the lease with a label.
func (f Folder) Place(label string) string { return filepath.Join(f.EnvDir(), label) }

func (f Folder) path(label string) string { return filepath.Join(f.Dir(), label+".json") }

// Write writes a lease atomically and syncs it.
func (f Folder) Write(ctx context.Context, l Lease) error {
	l.Schema = Schema
	b, err := json.Marshal(l)
	if err != nil {
		return fault.Op("lease", err)
	}
	return fault.Op("lease", f.At.Keep(ctx, f.path(l.Label), append(b, '\n')))
}

// Remove removes a lease. What it names is gone.
func (f Folder) Remove(ctx context.Context, l Lease) error {
	return fault.Op("lease", f.At.Remove(ctx, f.path(l.Label)))
}

// All reads the leases, oldest first. A file that is not a lease, or that names a directory
// outside the state folder, is an error of kind fault.Invalid: bakeoff removes nothing that
// such a file names.
func (f Folder) All(ctx context.Context) ([]Lease, error) {
	names, err := f.At.ReadDir(ctx, f.Dir())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, fault.Op("leases", err)
	}
	var out []Lease
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		p := filepath.Join(f.Dir(), name)
		b, err := f.At.ReadFile(ctx, p)
		if fault.Is(err, fault.NotFound) {
			continue // given back meanwhile
		}
		if err != nil {
			return nil, fault.Op("leases", err)
		}
		l, err := f.decode(b)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, p, err)
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b Lease) int { return a.Started.Compare(b.Started) })
	return out, nil
}

// decode reads one lease and checks that it names only bakeoff's own objects.
func (f Folder) decode(b []byte) (Lease, error) {
	var l Lease
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("not a lease: %w", err)
	}
	if l.Schema != Schema {
		return l, fmt.Errorf("schema is %q, but this program reads %q", l.Schema, Schema)
	}
	if l.Lifetime != "" && l.Lifetime != Run && l.Lifetime != Kept {
		return l, fmt.Errorf("lifetime is %q, but this program knows %q and %q", l.Lifetime, Run, Kept)
	}
	if l.Label == "" || strings.ContainsAny(l.Label, "/ \n") || strings.HasPrefix(l.Label, ".") {
		return l, fmt.Errorf("label %q is not valid", l.Label)
	}
	if err := checkSettings(l.Settings); err != nil {
		return l, err
	}
	if l.Network == "" && l.Dir != f.Place(l.Label) {
		return l, fmt.Errorf("directory %q does not belong to the lease", l.Dir)
	}
	if l.Network != "" && (l.Dir != "" || !strings.HasPrefix(l.Network, "bo-")) {
		return l, fmt.Errorf("network %q does not belong to bakeoff", l.Network)
	}
	return l, nil
}
