package hosts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/lock"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/lease"
	"bakeoff/provision/vm"
	"bakeoff/reach/conn/ssh"
)

// SSHConnection is the name of what connections of killed runs leave, which
// have no lease.
const SSHConnection = "SSH connection"

// ImageBuild is the name of what killed builds of images leave, which have no lease.
const ImageBuild = "image build"

// GuestGroup is the name of the control groups of guests whose supervisors were killed, which have no lease.
const GuestGroup = "guest"

// Clean removes what killed runs left on this machine and on the hosts that
// were leased on; with dryRun it only lists it. A host that cannot be reached
// is an error, and the others are cleaned all the same. With only this machine,
// a run that measures here is not an error, and keeps what it has.
func (c Controller) Clean(ctx context.Context, dryRun, onlyHere bool) ([]env.Found, error) {
	state, _ := c.Dirs()
	cleaner := env.Cleaner{StateDir: state, HostLock: c.HostLock(), Host: c.Conn(), Drivers: driverall.Drivers()}
	found, err := cleaner.Clean(ctx, dryRun)
	if onlyHere && lock.Refused(err) {
		err = nil
	}
	errs := []error{err}
	take := func(name, kind string, dirs []string, err error) {
		errs = append(errs, err)
		left := lists.Map(dirs, func(dir string) string { return kind + " " + dir })
		if len(left) > 0 {
			found = append(found, env.Found{Lease: lease.Lease{Name: name}, Left: left, Removed: !dryRun && err == nil})
		}
	}
	sockets, err := ssh.Reap(dryRun)
	take(SSHConnection, "directory", sockets, err)
	builds, err := c.images().Sweep(ctx, dryRun)
	take(ImageBuild, "directory", builds, err)
	groups, err := vm.SweepGroups(ctx, dryRun)
	take(GuestGroup, "control group", groups, err)
	if onlyHere {
		return found, errors.Join(errs...)
	}
	hosts, err := remembered(state)
	errs = append(errs, err)
	for _, file := range slices.Sorted(maps.Keys(hosts)) {
		name, _, _ := strings.Cut(file, "@")
		more, err := c.cleanHost(ctx, name, hosts[file], dryRun)
		found, errs = append(found, more...), append(errs, err)
		remains := slices.ContainsFunc(more, func(f env.Found) bool { return f.Err != "" || f.Kept })
		if err == nil && !dryRun && !remains {
			errs = append(errs, forget(state, file))
		}
	}
	return found, errors.Join(errs...)
}

func (c Controller) cleanHost(ctx context.Context, name string, h manifest.Host, dryRun bool) ([]env.Found, error) {
	to, err := c.Dial(ctx, name, h, nil)
	if err != nil {
		return nil, fault.Op("clean: host "+name, err)
	}
	defer to.Close()
	cleaner := env.Cleaner{StateDir: to.StateDir(), HostLock: to.HostLock(), Host: to, Name: name,
		Drivers: driverall.Drivers()}
	found, err := cleaner.Clean(ctx, dryRun)
	return found, fault.Op("clean: host "+name, err)
}

// LeaseText describes a lease in a few words.
func LeaseText(r lease.Lease) string {
	if (r.Name == SSHConnection || r.Name == ImageBuild) && r.Driver == "" {
		return r.Name + " of a killed run"
	}
	if r.Name == GuestGroup && r.Driver == "" {
		return r.Name + " of a killed supervisor"
	}
	where := ""
	if r.Host != "" && r.Host != env.LocalHost {
		where = " on host " + r.Host
	}
	if r.Network != "" && r.IsKept() {
		return "kept by " + r.Owner + where
	}
	if r.Network != "" {
		return "network of run " + r.Owner + where
	}
	owner := "run " + r.Owner
	if r.IsKept() {
		owner = "kept by " + r.Owner
	}
	return fmt.Sprintf("%s by driver %s, %s%s", r.Name, r.Driver, owner, where)
}
