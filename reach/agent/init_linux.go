package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"

	"bakeoff/reach/wire"
	"golang.org/x/sys/unix"
)

// runInit is process 1 of a guest. It does not return while the guest runs,
// because that would cause a kernel panic.
func runInit(c call) int {
	if os.Getpid() != 1 {
		return c.fail(fault.New(fault.Invalid, "init: this is not process 1; only a guest's kernel starts init"))
	}
	in := &initProcess{report: wire.BootReport{StartedNS: monotonic()}}
	err := in.bringUp()
	if err != nil {
		in.report.Error = err.Error()
		fmt.Fprintln(os.Stderr, "bakeoff-agent: init:", err)
	}
	if in.config.Port == "" {
		return wire.ExitLab // the error is only on the console
	}
	in.report.ReadyNS = monotonic()
	in.answer()
	return wire.ExitOK
}

type initProcess struct {
	config wire.InitConfig
	report wire.BootReport
	reaper *reaper
	// listener accepts hosts on a vsock port.
	listener net.Listener
}

// deviceWait bounds how long a device takes to appear after its driver is
// loaded.
const deviceWait = 20 * time.Second

func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return ts.Nano()
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
	in.report.Kernel = kernelRelease()
	text, err := os.ReadFile(wire.InitConfigPath)
	if err != nil {
		return err
	}
	var config wire.InitConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", wire.InitConfigPath, err)
	}
	if config.Schema != wire.InitSchema {
		return fmt.Errorf("%s: schema %q instead of %s", wire.InitConfigPath, config.Schema, wire.InitSchema)
	}
	in.config = config
	for _, m := range config.Modules {
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
	in.reaper = startReaper(true)
	return in.settle()
}

// settle sets up what requires the root: volumes, network, settings.
func (in *initProcess) settle() error {
	if in.config.Hostname != "" {
		if err := unix.Sethostname([]byte(in.config.Hostname)); err != nil {
			return fmt.Errorf("host name: %w", err)
		}
	}
	for _, v := range in.config.Volumes {
		if err := mountVolume(v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Path, err)
		}
	}
	if err := linkUp("lo", nil); err != nil {
		return err
	}
	if n := in.config.Network; n != nil {
		name, err := findInterface(n.MAC)
		if err != nil {
			return err
		}
		if err := linkUp(name, n); err != nil {
			return err
		}
	}
	for _, s := range in.config.Sysctl {
		if err := setSysctl(s); err != nil {
			return err
		}
	}
	return nil
}

// answer serves one host after another on the port.
func (in *initProcess) answer() {
	functions := map[string]Function{
		"boot":     func(context.Context, json.RawMessage) (any, error) { return in.report, nil },
		"poweroff": powerOff,
	}
	wait := 5 * time.Millisecond
	var said string
	for {
		err := in.answerOnce(ServeOptions{Functions: functions, Launch: in.launcher()})
		switch {
		case errors.Is(err, io.EOF): // no host is connected
			wait = min(2*wait, 200*time.Millisecond)
		default:
			wait = 5 * time.Millisecond
			if err != nil && err.Error() != said {
				said = err.Error()
				fmt.Fprintln(os.Stderr, "bakeoff-agent: init: channel:", err)
			}
		}
		time.Sleep(wait)
	}
}

func (in *initProcess) launcher() Launcher {
	if in.report.Error != "" {
		return refusing(in.report.Error)
	}
	return in.reaper
}

// refusing starts no programs, because the guest is not set up.
type refusing string

func (r refusing) Launch(string, []string, *os.ProcAttr) (Process, error) {
	return nil, fault.New(fault.Subject, "the guest failed to start: %s", string(r))
}

func (in *initProcess) answerOnce(o ServeOptions) error {
	port, err := in.open()
	if err != nil {
		return err
	}
	defer port.Close()
	return Serve(context.Background(), port, o)
}

// open opens the port, or waits for a host on a vsock port.
func (in *initProcess) open() (io.ReadWriteCloser, error) {
	at, ok := strings.CutPrefix(in.config.Port, "vsock:")
	if !ok {
		return openPort(in.config.Port)
	}
	if in.listener == nil {
		var err error
		if in.listener, err = listenVsock(at); err != nil {
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
	return os.OpenFile("/dev/"+device, os.O_RDWR, 0)
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
