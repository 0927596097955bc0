//go:build netbsd || freebsd

package guestinit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/clock"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/agent/sysctl"
	"bakeoff/reach/wire"
)

// Run is the subcommand `init`: process 1 of a guest, with the root that the kernel has mounted.
func Run(c command.Call) int {
	if os.Getpid() != 1 {
		return c.Fail(fault.New(fault.Invalid, "init: this is not process 1; only a guest's kernel starts init"))
	}
	// A signal that ended process 1 would be a kernel panic. Programs do not
	// inherit a handler, as they would a signal that is ignored.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	in := &initProcess{report: wire.BootReport{StartedNS: clock.Monotonic()}}
	g := thisGuest()
	in.functions = g.functions()
	return in.run(func() error { return g.bringUp(in, wire.InitConfigPath, startReaper) })
}

func thisGuest() guestInit {
	return guestInit{name: runtime.GOOS, sys: kernel{}, dials: net.Dialer{Timeout: deviceWait}, wait: deviceWait}
}

// Functions are what a host can call of `serve` in addition.
func Functions() map[string]serve.Function { return thisGuest().functions() }

// kernel is the system that this program runs on.
type kernel struct{}

var _ guestSystem = kernel{}

func (kernel) MakeDir(path string) error {
	mode := fs.FileMode(0o755)
	if path == "/tmp" || path == "/var/tmp" {
		mode = 0o777 | fs.ModeSticky
	}
	return os.MkdirAll(path, mode)
}

// initPath is where the kernel looks for process 1 first.
const initPath = "/sbin/init"

// LinkAgent makes a symbolic link to the file of this program.
func (kernel) LinkAgent(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		self = initPath
	}
	return os.Symlink(self, path)
}

// Console makes the console standard input, output and error.
func (kernel) Console() error {
	f, err := os.OpenFile("/dev/console", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil // a machine may have no console
	}
	defer f.Close()
	fd := int(f.Fd())
	for to := range 3 {
		if to == fd {
			continue
		}
		if err := unix.Dup2(fd, to); err != nil {
			return err
		}
	}
	return nil
}

// Address adds an IPv4 address to an interface and brings it up.
func (kernel) Address(name string, addr netip.Prefix) error {
	request, err := aliasRequest(runtime.GOOS, name, addr)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := control(fd, addAddress, request); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	flags := make([]byte, ifreqSize)
	copy(flags[:ifNameSize-1], name)
	if err := control(fd, unix.SIOCGIFFLAGS, flags); err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	flags[ifNameSize] |= unix.IFF_UP // the lowest byte of a short
	if err := control(fd, unix.SIOCSIFFLAGS, flags); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	return nil
}

// control calls ioctl(2) with the address of b.
func control(fd int, request uint, b []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&b[0])))
	if errno != 0 {
		return errno
	}
	return nil
}

func (kernel) Setting(name string) ([]byte, error) { return sysctl.Read(name) }

func (kernel) Set(name string, value []byte) error { return sysctl.Set(name, value) }

// Reboot restarts the guest. The kernel writes all file systems first.
func (kernel) Reboot() error {
	const autoboot = 0 // RB_AUTOBOOT
	if _, _, errno := unix.Syscall(unix.SYS_REBOOT, autoboot, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
