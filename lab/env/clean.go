package env

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// The names of files and folders in StateDir.
const (
	leaseDir = "lease"
	envDir   = "env"
	imageDir = "image"
	lockFile = "lock"
)

// Cleaner finds and removes the leftovers of dead controllers.
type Cleaner struct {
	StateDir string
	HostLock string // as in Config
	Host     conn.Conn
	Name     string // of the host; "" is LocalHost
	Drivers  []driver.Driver
}

// Clean checks every lease and removes what it left, unless dryRun. While another
// controller runs on the host, Clean fails with an error of kind fault.Unsupported;
// with dryRun it lists the leases of that controller as in use.
func (c Cleaner) Clean(ctx context.Context, dryRun bool) ([]Found, error) {
	m := of(c.Host)
	if _, err := m.ReadDir(ctx, filepath.Join(c.StateDir, leaseDir)); fault.Is(err, fault.NotFound) {
		return nil, nil // nothing was ever leased here
	}
	hostLock := c.HostLock
	if dryRun {
		hostLock = "" // whatever another run measures, its leases are elsewhere
	}
	unlock, err := lockHost(ctx, m, c.StateDir, hostLock, ownerFor("", cmp.Or(c.Name, LocalHost)))
	if dryRun && fault.Is(err, fault.Unsupported) {
		inUse, err := c.held(ctx)
		if err != nil {
			return nil, fault.Op("clean", err)
		}
		here := placeOn(ctx, m, c.StateDir)
		here.Holder, here.PIDNamespace = 0, "" // they are the holder's
		return c.clean(ctx, true, here, inUse)
	}
	if err != nil {
		return nil, fault.Op("clean", err)
	}
	defer unlock()
	return c.clean(ctx, dryRun, placeOn(ctx, m, c.StateDir), func(Lease) bool { return false })
}

// held reports of a lease whether the run that has the lock of StateDir took it. If that
// run is not known, all leases count.
func (c Cleaner) held(ctx context.Context) (func(Lease) bool, error) {
	m := of(c.Host)
	by, err := m.Holder(ctx, filepath.Join(c.StateDir, lockFile))
	if err != nil {
		return nil, err
	}
	_, here := m.(Here)
	return func(l Lease) bool {
		switch {
		case by == nil: // it ended meanwhile
			return false
		case by.Owner.Token != "":
			return l.Run == by.Owner.Run && l.PID == by.Owner.PID
		case here && by.PID != 0: // an older program does not write its run
			return l.PID == by.PID
		}
		return true
	}, nil
}

// lockHost takes the locks of a host and of a state folder on it.
func lockHost(ctx context.Context, m Machine, stateDir, hostLock string,
	owner lock.Owner) (release func() error, err error) {
	whole := func() error { return nil }
	if hostLock != "" {
		if whole, err = m.Lock(ctx, hostLock, owner); err != nil {
			return nil, err
		}
	}
	state, err := m.Lock(ctx, filepath.Join(stateDir, lockFile), owner)
	if err != nil {
		return nil, errors.Join(err, whole())
	}
	return func() error { return errors.Join(state(), whole()) }, nil
}

// Lock takes the locks of this machine, as a run does.
func Lock(ctx context.Context, stateDir, hostLock string) (release func() error, err error) {
	return lockHost(ctx, Here{local.Conn{}}, stateDir, hostLock, ownerFor("", LocalHost))
}

// ownerFor is this process as the owner of the locks of a host.
func ownerFor(run, host string) lock.Owner {
	o := lock.Me(run)
	o.Host = host
	return o
}

// clean is Clean with the host's lock held at a place, except for the leases in use.
func (c Cleaner) clean(ctx context.Context, dryRun bool, here lock.Place, inUse func(Lease) bool) ([]Found, error) {
	leases, err := LeasesOn(ctx, of(c.Host), c.StateDir)
	if err != nil {
		return nil, err
	}
	// The experiment's network is removed last: environments use it.
	slices.SortStableFunc(leases, func(a, b Lease) int { return strings.Compare(a.Network, b.Network) })
	var found []Found
	for _, r := range leases {
		f := Found{Lease: r, InUse: inUse(r)}
		var unknown error
		if !f.InUse {
			f.InUse, unknown = c.live(ctx, here, r)
		}
		if r.Boot != here.Boot {
			r.Settings = nil // they ended with that boot
		}
		f.Left, err = c.reap(ctx, r, dryRun || f.InUse)
		if err = errors.Join(err, unknown); err != nil {
			f.Err = err.Error()
		} else if !dryRun && !f.InUse {
			f.Removed = true
		}
		found = append(found, f)
	}
	return found, nil
}

// reap removes one lease and what it left.
func (c Cleaner) reap(ctx context.Context, r Lease, dryRun bool) ([]string, error) {
	var left []string
	m := of(c.Host)
	if r.Network != "" {
		have, err := netns.Exists(ctx, c.Host, r.Network)
		if err != nil {
			return nil, err
		}
		if have {
			left = append(left, "network namespace "+r.Network)
		}
		if have && !dryRun {
			if err := netns.Remove(ctx, c.Host, r.Network); err != nil {
				return left, err
			}
		}
	} else {
		i := slices.IndexFunc(c.Drivers, func(d driver.Driver) bool { return d.Doc().Name == r.Driver })
		if i < 0 {
			return nil, fault.New(fault.Unsupported, "lease %s belongs to driver %q, which this program does not have", r.Label,
				r.Driver)
		}
		var err error
		left, err = c.Drivers[i].Reap(ctx, c.Host, driver.Leftover{Label: r.Label, Dir: r.Dir}, dryRun)
		if err != nil {
			return left, err
		}
		if _, err := m.ReadDir(ctx, r.Dir); err == nil {
			left = append(left, "directory "+r.Dir)
		}
	}
	changes, kept := r.restore(ctx, m, dryRun)
	left = append(left, changes...)
	if dryRun {
		return left, kept
	}
	if r.Dir != "" {
		if err := m.Remove(ctx, r.Dir); err != nil {
			return left, fault.Op("clean", err)
		}
	}
	if kept != nil {
		return left, fault.Op("clean", kept)
	}
	return left, fault.Op("clean", m.Remove(ctx, filepath.Join(c.StateDir, leaseDir, r.Label+".json")))
}

// ImageDir is the store of images in a cache folder.
func ImageDir(cache string) string { return filepath.Join(cache, imageDir) }

// Measuring returns the process that holds the lock of the machine or of stateDir on it;
// nil if there is none, in which case every lease is a leftover.
func Measuring(ctx context.Context, m Machine, stateDir, hostLock string) (*lock.Holder, error) {
	for _, path := range []string{filepath.Join(stateDir, lockFile), hostLock} {
		if path == "" {
			continue
		}
		if by, err := m.Holder(ctx, path); by != nil || err != nil {
			return by, err
		}
	}
	return nil, nil
}

// Leases reads the leases below stateDir on this machine; see LeasesOn.
func Leases(stateDir string) ([]Lease, error) {
	return LeasesOn(context.Background(), Here{local.Conn{}}, stateDir)
}

// LeasesOn reads the leases below stateDir on a machine, oldest first. A file
// that is not a lease, or that names a directory outside stateDir, is an error
// of kind fault.Invalid: bakeoff removes nothing that such a file names.
func LeasesOn(ctx context.Context, m Machine, stateDir string) ([]Lease, error) {
	dir := filepath.Join(stateDir, leaseDir)
	names, err := m.ReadDir(ctx, dir)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, fault.Op("leases", err)
	}
	var out []Lease
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		p := filepath.Join(dir, name)
		b, err := m.ReadFile(ctx, p)
		if fault.Is(err, fault.NotFound) {
			continue // given back meanwhile
		}
		if err != nil {
			return nil, fault.Op("leases", err)
		}
		r, err := decode(b, stateDir)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, p, err)
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Lease) int { return a.Started.Compare(b.Started) })
	return out, nil
}

// decode reads one lease and checks that it names only bakeoff's own objects.
func decode(b []byte, stateDir string) (Lease, error) {
	var r Lease
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("not a lease: %w", err)
	}
	if r.Schema != LeaseSchema {
		return r, fmt.Errorf("schema is %q, but this program reads %q", r.Schema, LeaseSchema)
	}
	if r.Label == "" || strings.ContainsAny(r.Label, "/ \n") || strings.HasPrefix(r.Label, ".") {
		return r, fmt.Errorf("label %q is not valid", r.Label)
	}
	if err := checkSettings(r.Settings); err != nil {
		return r, err
	}
	if r.Network == "" && r.Dir != filepath.Join(stateDir, envDir, r.Label) {
		return r, fmt.Errorf("directory %q does not belong to the lease", r.Dir)
	}
	if r.Network != "" && (r.Dir != "" || !strings.HasPrefix(r.Network, "bo-")) {
		return r, fmt.Errorf("network %q does not belong to bakeoff", r.Network)
	}
	return r, nil
}
