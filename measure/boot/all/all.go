// Package all lists the sources of boot recordings.
package all

import (
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/dmesg"
	"bakeoff/measure/boot/ftrace"
	"bakeoff/measure/boot/linux"
	"bakeoff/measure/boot/qemu"
	"bakeoff/measure/boot/systemd"
	"bakeoff/measure/boot/tslog"
)

// Sources returns every source. Of sources that recognize the same file, the one that
// reads more of it comes first.
func Sources() []boot.Source {
	return []boot.Source{
		tslog.New(),
		ftrace.New(),
		systemd.New(),
		linux.New(),
		qemu.New(),
		dmesg.New(),
	}
}

// Recognize returns the sources that a file may be of, the one that reads most of it first.
func Recognize(data []byte) []boot.Source {
	return boot.Recognize(Sources(), data[:min(len(data), boot.HeadBytes)])
}
