// Package all lists the systems.
package all

import (
	"bakeoff/reach/system"
	"bakeoff/reach/system/alpine"
	"bakeoff/reach/system/debian"
	"bakeoff/reach/system/dragonfly"
	"bakeoff/reach/system/freebsd"
	"bakeoff/reach/system/netbsd"
	"bakeoff/reach/system/openbsd"
	"bakeoff/reach/system/smartos"
	"bakeoff/reach/system/void"
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
