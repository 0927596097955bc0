package guestinit

import (
	"encoding/binary"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"bakeoff/reach/nsenter"
)

// What the kernel writes for a key (linux/input-event-codes.h).
const (
	eventKey = 1
	keyPower = 116
)

// inputEvent is struct input_event of a 64-bit system.
type inputEvent struct {
	Seconds, Microseconds int64
	Type, Code            uint16
	Value                 int32
}

// watchPowerButton calls press when somebody presses the power button of this machine. A
// machine without one has nothing to watch: the drivers that were loaded before have created
// the device.
func watchPowerButton(press func()) {
	names, err := filepath.Glob("/sys/class/input/event*/device/name")
	if err != nil {
		return
	}
	for _, name := range names {
		if !reads(name, "Power Button") {
			continue
		}
		event := filepath.Base(filepath.Dir(filepath.Dir(name)))
		if f, err := os.OpenFile("/dev/input/"+event, os.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			go readPowerButton(f, press)
		}
	}
}

func readPowerButton(f *os.File, press func()) {
	defer f.Close()
	for {
		var e inputEvent
		if err := binary.Read(f, binary.NativeEndian, &e); err != nil {
			return
		}
		if e.Type == eventKey && e.Code == keyPower && e.Value == 1 {
			press()
		}
	}
}

// watchKeyboard calls press when somebody presses Ctrl, Alt and Del. Without a process that
// watches, the kernel restarts the machine at once.
//
// Source: reboot(2) and ctrl_alt_del in kernel/reboot.c of Linux.
func watchKeyboard(press func()) {
	pressed := make(chan os.Signal, 1)
	signal.Notify(pressed, unix.SIGINT)
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		signal.Stop(pressed)
		return
	}
	go func() {
		for range pressed {
			press()
		}
	}()
}

// terminate asks the program of a service to end. The process that init has started is the
// agent, which would kill the program if it was asked itself.
func (p *reaped) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	for _, pid := range nsenter.Children(p.child.PID) {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
}
