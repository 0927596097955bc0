// Package all lists the sources of boot recordings.
package all

import (
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/dmesg"
	"bakeoff/measure/boot/linux"
	"bakeoff/measure/boot/tslog"
)

// Sources returns every source. Of sources that recognize the same file, the one that
// reads more of it comes first.
func Sources() []boot.Source {
	return []boot.Source{
		tslog.New(),
		linux.New(),
		dmesg.New(),
	}
}
