package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/driver"
	"bakeoff/provision/lease"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Cleaner finds and removes the leftovers of dead controllers.
type Cleaner struct {
	StateDir string
	HostLock string // as in Config
	Host     conn.Conn
	Name     string // of the host; "" is LocalHost
	Drivers  []driver.Driver
}

// Clean checks every lease and removes what it left, unless dryRun. It reports kept leases
// and leaves them. While another
// controller runs on the host, Clean fails with an error of kind fault.Unsupported;
// with dryRun it lists the leases of that controller as in use.
func (c Cleaner) Clean(ctx context.Context, dryRun bool) ([]Found, error) {
	m := of(c.Host)
	if _, err := m.ReadDir(ctx, leasesOf(m, c.StateDir).Dir()); fault.Is(err, fault.NotFound) {
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
		here := leasesOf(m, c.StateDir).Holder(ctx)
		here.Holder, here.PIDNamespace = 0, "" // they are the holder's
		return c.clean(ctx, true, here, inUse)
	}
	if err != nil {
		return nil, fault.Op("clean", err)
	}
	defer unlock()
	return c.clean(ctx, dryRun, leasesOf(m, c.StateDir).Holder(ctx), func(lease.Lease) bool { return false })
}

// held reports of a lease whether the run that has the lock of StateDir took it. If that
// run is not known, all leases count.
func (c Cleaner) held(ctx context.Context) (func(lease.Lease) bool, error) {
	m := of(c.Host)
	by, err := m.Holder(ctx, leasesOf(m, c.StateDir).LockFile())
	if err != nil {
		return nil, err
	}
	_, here := m.(Here)
	return func(l lease.Lease) bool {
		switch {
		case by == nil: // it ended meanwhile
			return false
		case by.Owner.Token != "":
			return l.Owner == by.Owner.Run && l.PID == by.Owner.PID
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
	state, err := m.Lock(ctx, leasesOf(m, stateDir).LockFile(), owner)
	if err != nil {
		return nil, errors.Join(err, whole())
	}
	return func() error { return errors.Join(state(), whole()) }, nil
}

// Lock takes the locks of this machine, as a run does.
func Lock(ctx context.Context, stateDir, hostLock string) (release func() error, err error) {
	return LockFor(ctx, "", stateDir, hostLock)
}

// LockFor is Lock for an owner of leases.
func LockFor(ctx context.Context, owner, stateDir, hostLock string) (release func() error, err error) {
	return lockHost(ctx, Here{local.Conn{}}, stateDir, hostLock, ownerFor(owner, LocalHost))
}

// ownerFor is this process as the owner of the locks of a host.
func ownerFor(run, host string) lock.Owner {
	o := lock.Me(run)
	o.Host = host
	return o
}

// clean is Clean with the host's lock held at a place, except for the leases in use.
func (c Cleaner) clean(ctx context.Context, dryRun bool, here lock.Place,
	inUse func(lease.Lease) bool) ([]Found, error) {
	leases, err := LeasesOn(ctx, of(c.Host), c.StateDir)
	if err != nil {
		return nil, err
	}
	// The experiment's network is removed last: environments use it.
	slices.SortStableFunc(leases, func(a, b lease.Lease) int { return strings.Compare(a.Network, b.Network) })
	var found []Found
	for _, r := range leases {
		f := Found{Lease: r, Kept: r.IsKept()}
		if f.Kept {
			f.Left = []string{"directory " + r.Dir}
			if r.Network != "" {
				f.Left = []string{"network namespace " + r.Network}
			}
			found = append(found, f)
			continue
		}
		var unknown error
		if f.InUse = inUse(r); !f.InUse {
			f.InUse, unknown = leasesOf(of(c.Host), c.StateDir).InUse(ctx, here, r)
		}
		if r.Boot != here.Boot {
			r.Settings = nil // they ended with that boot
		}
		f.Left, err = c.reap(ctx, here, r, dryRun || f.InUse)
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
func (c Cleaner) reap(ctx context.Context, here lock.Place, r lease.Lease, dryRun bool) ([]string, error) {
	var left []string
	m := of(c.Host)
	_, local := m.(Here)
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
			return nil, fault.WithFix(fault.New(fault.Unsupported, "lease %s belongs to driver %q, but this program "+
				"does not have that driver", r.Label, r.Driver), "run the clean of the version of bakeoff that made the lease")
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
	if local {
		names, err := reapElsewhere(cmp.Or(r.Network, netns.Own(r.Label)), dryRun)
		if left = append(left, names...); err != nil {
			return left, err
		}
	}
	changes, kept := r.Restore(ctx, m, dryRun)
	left = append(left, changes...)
	if dryRun {
		return left, kept
	}
	if r.Dir != "" {
		if err := m.Remove(ctx, r.Dir); err != nil {
			return left, fault.Op("clean", err)
		}
	}
	if local && r.Boot == here.Boot && !here.Sees(r.Place) {
		kept = errors.Join(kept, fault.New(fault.Lab, "bakeoff removed everything except perhaps a network "+
			"namespace of the run. That run used another /run (%s) than this process (%s), and its processes are "+
			"not visible in this PID namespace. Run `bakeoff clean` where the run was started, or after a reboot", r.Runtime,
			here.Runtime))
	}
	if kept != nil {
		return left, fault.Op("clean", kept)
	}
	return left, fault.Op("clean", leasesOf(m, c.StateDir).Remove(ctx, r))
}

// reapElsewhere removes a network namespace in mount namespaces with another /run, where
// the run may have been, or its name would stay: nothing else knows of it.
func reapElsewhere(name string, dryRun bool) (left []string, err error) {
	for _, other := range netns.Namesakes(name) {
		left = append(left, fmt.Sprintf("network namespace %s (in the mount namespace of process %d)", name, other.PID))
		if !dryRun {
			err = errors.Join(err, other.Remove())
		}
	}
	return left, err
}

// Measuring returns the process that holds the lock of the machine or of stateDir on it;
// nil if there is none, in which case every lease is a leftover.
func Measuring(ctx context.Context, m Machine, stateDir, hostLock string) (*lock.Holder, error) {
	for _, path := range []string{leasesOf(m, stateDir).LockFile(), hostLock} {
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
func Leases(stateDir string) ([]lease.Lease, error) {
	return LeasesOn(context.Background(), Here{local.Conn{}}, stateDir)
}

// LeasesOn reads the leases below stateDir on a machine; see lease.Folder.All.
func LeasesOn(ctx context.Context, m Machine, stateDir string) ([]lease.Lease, error) {
	return leasesOf(m, stateDir).All(ctx)
}

// leasesOf is the folder of leases below stateDir on a machine.
func leasesOf(m Machine, stateDir string) lease.Folder {
	_, local := m.(Here)
	return lease.Folder{At: m, State: stateDir, Local: local}
}
