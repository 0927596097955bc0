// Package all lists the systems.
package all

import (
	"bakeoff/system"
	"bakeoff/system/alpine"
	"bakeoff/system/debian"
	"bakeoff/system/dragonfly"
	"bakeoff/system/freebsd"
	"bakeoff/system/netbsd"
	"bakeoff/system/openbsd"
	"bakeoff/system/smartos"
	"bakeoff/system/void"
)

// Systems returns every system, in order of its name.
func Systems() []system.System {
	return []system.System{
		alpine.System{},
		debian.System{},
		dragonfly.System{},
		freebsd.System{},
		netbsd.System{},
		openbsd.System{},
		smartos.System{},
		void.System{},
	}
}
