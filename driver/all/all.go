// Package all lists the drivers.
package all

import (
	"bakeoff/driver"
	"bakeoff/driver/bhyve"
	"bakeoff/driver/bwrap"
	"bakeoff/driver/chroot"
	"bakeoff/driver/docker"
	"bakeoff/driver/firecracker"
	"bakeoff/driver/gvisor"
	"bakeoff/driver/host"
	"bakeoff/driver/jail"
	"bakeoff/driver/lxc"
	"bakeoff/driver/nspawn"
	"bakeoff/driver/oci"
	"bakeoff/driver/podman"
	"bakeoff/driver/qemu"
	"bakeoff/driver/vmm"
	"bakeoff/driver/zone"
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
		nspawn.Driver{},
		oci.Driver{},
		podman.Driver{},
		qemu.New(),
		vmm.Driver{},
		zone.Driver{},
	}
}
