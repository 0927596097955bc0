package vm

import (
	"context"
	"os"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/firecracker"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/driver/lxc"
	"bakeoff/provision/driver/nspawn"
	"bakeoff/provision/driver/oci"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// Technology makes containers.
type Technology struct {
	driver.Driver
	Options param.Values
	// runtime is the program of an OCI runtime. If it is there, nothing else is checked before
	// a start: that would take as long as the start.
	runtime string
}

// technologies make the containers of the drivers of manifests.
var technologies = map[string]Technology{
	manifest.Crun:   {oci.Driver{}, param.Values{"runtime": manifest.Crun}, manifest.Crun},
	manifest.Runc:   {oci.Driver{}, param.Values{"runtime": manifest.Runc}, manifest.Runc},
	manifest.Nspawn: {nspawn.Driver{}, nil, ""},
	manifest.LXC:    {lxc.Driver{}, nil, ""},
	manifest.Jail:   {jail.Driver{}, nil, ""},
}

// TechnologyOf is what makes the container of a guest.
func TechnologyOf(g manifest.Guest) Technology {
	t := technologies[manifest.DriverOf(g)]
	if jailed(g) && systemOf(g.Brand) == "linux" {
		t.Options = jail.Linux()
	}
	return t
}

// containers makes and removes the container of a guest.
func (s *Store) containers(g manifest.Guest) Containers {
	if s.Containers != nil {
		return s.Containers
	}
	return TechnologyOf(g)
}

// driverOf is the driver of a guest, as lab files name it.
func driverOf(g manifest.Guest) string {
	if g.Brand.Machine() {
		return manifest.DriverOf(g)
	}
	return TechnologyOf(g).Doc().Name
}

// withAgent is a host that knows its agent.
type withAgent struct {
	conn.Conn
	agent string
}

// Agent is the path of the agent.
func (h withAgent) Agent() string { return h.agent }

var errNotRoot = fault.WithFix(fault.New(fault.Unsupported, "only root can start a container"), "run bakeoff with sudo")

// checkDriver refuses a driver that does not work on this machine. "" is the usual one of the
// brand; without a brand it is not known yet. QEMU itself says what it lacks.
func (s *Store) checkDriver(ctx context.Context, brand manifest.Brand, name string) error {
	g := manifest.Guest{Brand: brand, Driver: name}
	switch {
	case brand == "":
		return nil
	case name == manifest.DriverBhyve:
		return s.checkBhyve(ctx)
	case name == manifest.Firecracker:
		a := firecracker.Driver{}.Check(ctx, withAgent{s.Host, s.Agent}, nil)
		if a.OK {
			return nil
		}
		return fault.WithFix(fault.New(fault.Unsupported, "driver %s: %s", name, a.Reason), a.Fix)
	case brand.Machine():
		return nil
	case os.Getuid() != 0:
		return errNotRoot
	}
	t := TechnologyOf(g)
	if t.runtime != "" {
		if _, err := findProgram(t.runtime); err == nil {
			return nil
		}
	}
	a := t.Check(ctx, s.Host, t.Options)
	switch {
	case a.OK && jailed(g):
		return checkJail(a)
	case a.OK:
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "driver %s: %s", manifest.DriverOf(g), a.Reason), a.Fix)
}
