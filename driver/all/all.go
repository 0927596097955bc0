// Package all lists the drivers.
package all

import (
	"bakeoff/driver"
	"bakeoff/driver/qemu"
)

// Drivers returns every driver, in order of its name.
func Drivers() []driver.Driver {
	return []driver.Driver{
		qemu.New(),
	}
}
