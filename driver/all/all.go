// Package all lists the drivers.
package all

import (
	"bakeoff/driver"
	"bakeoff/driver/chroot"
	"bakeoff/driver/host"
	"bakeoff/driver/qemu"
)

// Drivers returns every driver, in order of its name.
func Drivers() []driver.Driver {
	return []driver.Driver{
		chroot.Driver{},
		host.Driver{},
		qemu.New(),
	}
}
