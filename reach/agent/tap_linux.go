package agent

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
)

// firstTap is the number of the first file that runTap gives to the program: the one behind
// the standard streams.
const firstTap = 3

// runTap makes tap devices and executes a program that inherits them, in the order of the
// arguments: NAMESPACE=NAME... -- PROGRAM [ARGUMENT...]. NAMESPACE is the path of a network
// namespace. A device ends with the last process that has it.
func runTap(c command.Call) int {
	return c.Fail(execWithTaps(c.Args))
}

func execWithTaps(args []string) error {
	var devices []string
	for len(args) > 0 && args[0] != "--" {
		devices, args = append(devices, args[0]), args[1:]
	}
	if len(args) < 2 {
		return fault.New(fault.Invalid, "usage: bakeoff-agent tap NAMESPACE=NAME... -- PROGRAM [ARGUMENT...]")
	}
	argv := args[1:]
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fault.Wrap(fault.NotFound, "tap", err)
	}
	runtime.LockOSThread() // the namespace is one of the thread
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Op("tap", err)
	}
	var open []int
	for _, d := range devices {
		namespace, name, ok := strings.Cut(d, "=")
		if !ok {
			return fault.New(fault.Invalid, "tap: %q is not NAMESPACE=NAME", d)
		}
		fd, err := openTap(namespace, name)
		if err != nil {
			return fault.Op("tap device "+name, err)
		}
		open = append(open, fd)
	}
	if err := unix.Setns(home, unix.CLONE_NEWNET); err != nil {
		return fault.Op("tap", err)
	}
	// First out of the way of the numbers that the program expects.
	for i, fd := range open {
		if open[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstTap+len(open)); err != nil {
			return fault.Op("tap", err)
		}
	}
	for i, fd := range open {
		if err := unix.Dup3(fd, firstTap+i, 0); err != nil {
			return fault.Op("tap", err)
		}
	}
	return fault.Op("execute "+program, syscall.Exec(program, argv, os.Environ()))
}

// openTap makes a tap device in a network namespace.
func openTap(namespace, name string) (int, error) {
	ns, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fault.WithFix(fmt.Errorf("/dev/net/tun: %w", err), "modprobe tun")
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}
