// Package all lists the drivers.
package all

import (
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/bhyve"
	"bakeoff/provision/driver/bwrap"
	"bakeoff/provision/driver/chroot"
	"bakeoff/provision/driver/docker"
	"bakeoff/provision/driver/firecracker"
	"bakeoff/provision/driver/gvisor"
	"bakeoff/provision/driver/host"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/driver/lxc"
	"bakeoff/provision/driver/machine"
	"bakeoff/provision/driver/nspawn"
	"bakeoff/provision/driver/oci"
	"bakeoff/provision/driver/podman"
	"bakeoff/provision/driver/qemu"
	"bakeoff/provision/driver/vm"
	"bakeoff/provision/driver/vmm"
	"bakeoff/provision/driver/zone"
)

// Drivers returns every driver, in order of its name.
func Drivers() []driver.Driver {
	return []driver.Driver{
		bhyve.Driver{},
		bwrap.Driver{},
		chroot.Driver{},
		docker.Driver{},
		firecracker.Driver{},
		gvisor.Driver{},
		host.Driver{},
		jail.Driver{},
		lxc.Driver{},
		machine.Driver{},
		nspawn.Driver{},
		oci.Driver{},
		podman.Driver{},
		qemu.New(),
		vm.New(),
		vmm.Driver{},
		zone.Driver{},
	}
}
