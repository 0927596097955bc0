package guestinit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/clock"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/agent/network"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/wire"
)

// Run is the subcommand `init`: process 1 of a guest. It does not return while the guest runs,
// because that would cause a kernel panic.
func Run(c command.Call) int {
	if os.Getpid() != 1 {
		return c.Fail(fault.New(fault.Invalid, "init: this is not process 1; only a guest's kernel starts init"))
	}
	in := &initProcess{report: wire.BootReport{StartedNS: clock.Monotonic()}}
	in.open, in.functions = in.openPort, map[string]serve.Function{"poweroff": powerOff, "setup": setupFunction(settle)}
	in.start = in.startService
	in.restart = func() {
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // it does not return; see powerOff
	}
	return in.run(in.bringUp)
}

// bringUp sets the guest up by its configuration. It reads the port first, so
// that later failures can be reported.
func (in *initProcess) bringUp() error {
	if err := mountAll(kernelMounts); err != nil {
		return err
	}
	if err := useConsole(); err != nil {
		return err
	}
	if err := in.readConfig(wire.InitConfigPath); err != nil {
		return err
	}
	if err := in.readLine("/proc/cmdline"); err != nil {
		return err
	}
	for _, m := range in.config.Modules {
		if err := loadModule(m); err != nil {
			return err
		}
	}
	if err := in.enterRoot(); err != nil {
		return err
	}
	os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	os.Setenv("HOME", "/root")
	os.Unsetenv("TERM")
	if err := os.Chdir("/"); err != nil {
		return err
	}
	in.reaper = startReaper()
	return settle(in.config)
}

// Functions are what a host can call of `serve` in addition: an environment that
// bakeoff did not make is set up from inside.
func Functions() map[string]serve.Function {
	return map[string]serve.Function{"setup": setupFunction(settle)}
}

// settle sets up what requires the root: network, volumes (some come over it), settings.
func settle(c wire.InitConfig) error {
	if c.Hostname != "" {
		if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
			return fmt.Errorf("host name: %w", err)
		}
	}
	if err := network.LinkUp("lo", nil); err != nil {
		return err
	}
	if n := c.Network; n != nil {
		name, err := findInterface(n.MAC)
		if err != nil {
			return err
		}
		if err := network.LinkUp(name, n); err != nil {
			return err
		}
	}
	for _, v := range c.Volumes {
		if err := mountVolume(v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Path, err)
		}
	}
	for _, s := range c.Sysctl {
		if err := setSysctl(s); err != nil {
			return err
		}
	}
	return nil
}

// vsockPort begins the name of a port that is a socket to the hypervisor.
const vsockPort = "vsock:"

// openPort opens the port, or waits for a host on a vsock port.
func (in *initProcess) openPort() (io.ReadWriteCloser, error) {
	at, ok := strings.CutPrefix(in.config.Port, vsockPort)
	if !ok {
		return openPort(in.config.Port)
	}
	if in.listener == nil {
		var err error
		if in.listener, err = serve.ListenVsock(at); err != nil {
			return nil, err
		}
	}
	return in.listener.Accept()
}

// powerOff ends the guest. A machine without power management cannot be
// switched off, so the guest restarts; its hypervisor is configured to end
// then.
func powerOff(context.Context, json.RawMessage) (any, error) {
	go func() {
		time.Sleep(50 * time.Millisecond) // the answer goes out first
		unix.Sync()
		unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	}()
	return struct{}{}, nil
}

// openPort opens the virtio port called name, or the terminal at that path.
func openPort(name string) (*os.File, error) {
	if strings.HasPrefix(name, "/") {
		return openTerminal(name)
	}
	device, err := findDevice("/sys/class/virtio-ports/*", func(dir string) bool { return reads(dir+"/name", name) })
	if err != nil {
		return nil, fmt.Errorf("there is no virtio port %q", name)
	}
	f, err := os.OpenFile("/dev/"+device, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := awaitHost(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// awaitHost returns when a host is connected to a virtio port. The port of a guest that serves
// may have no host for months, and asking for one five times a second took six percent of an
// emulated CPU. A port without a host always hangs up, so only the edges of events say that one
// has come.
//
// Source: port_fops_poll and handle_control_message in drivers/char/virtio_console.c of Linux.
func awaitHost(f *os.File) error {
	events, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("wait for a host: %w", err)
	}
	defer unix.Close(events)
	port, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var waited error
	err = port.Control(func(fd uintptr) {
		waited = unix.EpollCtl(events, unix.EPOLL_CTL_ADD, int(fd),
			&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET})
		for seen := make([]unix.EpollEvent, 1); waited == nil; {
			n, err := unix.EpollWait(events, seen, -1)
			if n > 0 && seen[0].Events&unix.EPOLLHUP == 0 {
				return
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				waited = err
			}
		}
	})
	if err = errors.Join(err, waited); err != nil {
		return fmt.Errorf("wait for a host: %w", err)
	}
	return nil
}

// findDevice waits for a device and returns its name: the last part of the first
// path that matches pattern and that is accepts.
func findDevice(pattern string, is func(path string) bool) (string, error) {
	for deadline := time.Now().Add(deviceWait); ; time.Sleep(time.Millisecond) {
		paths, err := filepath.Glob(pattern)
		if i := slices.IndexFunc(paths, is); err == nil && i >= 0 {
			return filepath.Base(paths[i]), nil
		}
		if time.Now().After(deadline) {
			return "", fs.ErrNotExist
		}
	}
}

// reads reports whether a file contains want and perhaps white space around it.
func reads(file, want string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(text)) == want
}

// openTerminal opens a serial line in raw mode.
func openTerminal(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
		t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.CRTSCTS | unix.B115200
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// Fd made the file blocking; only a nonblocking file can be closed
	// during a read.
	if err := unix.SetNonblock(int(f.Fd()), true); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
