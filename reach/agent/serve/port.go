package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/reach/agent/clock"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// Environ is the environment of programs that `serve` starts. It inherits
// nothing, so it is the same inside every technology.
var Environ = map[string]string{
	"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
}

// Run is the subcommand `serve`: it serves a host from inside an environment that has its own init, or
// none. The argument is the address:
//
//   - standard input and output, for one conversation
//     /dev/…         a terminal or virtio port, one conversation after the other
//     tcp:ADDR:PORT  a TCP port, one after the other
//     vsock:PORT     a port of the socket to the hypervisor (Linux)
//
// With --dial the agent connects to the host instead; see dialer. This is for
// guests without a port that the host could open.
//
// Whoever reaches the address can do everything in the environment, so only the
// host may reach it. functions are what the host can call in addition to "boot".
func Run(c command.Call, functions map[string]Function) int {
	f, _ := c.Flags("serve")
	at := f.String("dial", "", "connect to a host at HOST:PORT or unix:PATH, again after each conversation")
	patience := f.Duration("patience", time.Minute, "with --dial: end if no host has answered for this long")
	switch err := f.Parse(c.Args); {
	case err != nil:
		return wire.ExitInvalid // Parse has printed it
	case *at == "" && f.NArg() != 1:
		return c.Fail(command.UsageError("serve: give an address: -, /dev/NAME, tcp:ADDR:PORT, vsock:PORT or --dial ADDR"))
	case *at != "" && f.NArg() > 0:
		return c.Fail(command.UsageError("serve: unexpected argument %q; --dial takes the only address", f.Arg(0)))
	case *patience <= 0:
		return c.Fail(command.UsageError("serve: --patience must be positive (got %v)", *patience))
	}
	clearEnviron()
	if err := os.Chdir(command.Root()); err != nil {
		return c.Fail(err)
	}
	ctx, stop := command.Interruptible()
	defer stop()
	options := withBoot(functions)
	if *at != "" || (isBSD && f.Arg(0) != "-") {
		leaveSession()
	}
	if *at != "" {
		d, err := newDialer(*at, *patience)
		if err != nil {
			return c.Fail(err)
		}
		return c.Done(d.serve(ctx, options))
	}
	if f.Arg(0) == "-" {
		_ = Host(ctx, Stdio{c.Stdin, c.Stdout}, options) // its end is the end of this program
		return wire.ExitOK
	}
	open, err := Opener(f.Arg(0))
	if err != nil {
		return c.Fail(err)
	}
	for ctx.Err() == nil {
		port, err := open(ctx)
		if err != nil {
			fmt.Fprintln(c.Stderr, "bakeoff-agent: serve:", err)
		} else {
			err = Host(ctx, port, options)
			port.Close()
		}
		// A port without a connected host ends at once.
		if err != nil {
			_ = sleep.For(ctx, 20*time.Millisecond)
		}
	}
	return wire.ExitOK
}

// clearEnviron sets the environment to Environ. Programs of Windows need what the system
// gives to each of them, such as SystemRoot and a PATH with its own folders.
func clearEnviron() {
	if runtime.GOOS == "windows" {
		return
	}
	os.Clearenv()
	for name, value := range Environ {
		os.Setenv(name, value)
	}
}

const isBSD = runtime.GOOS == "freebsd" || runtime.GOOS == "netbsd" || runtime.GOOS == "openbsd" ||
	runtime.GOOS == "dragonfly"

// withBoot offers functions and "boot".
func withBoot(functions map[string]Function) Options {
	all := map[string]Function{"boot": func(context.Context, json.RawMessage) (any, error) {
		now := clock.Monotonic()
		report := BootReport(now - time.Since(started).Nanoseconds())
		report.ReadyNS = now
		return report, nil
	}}
	maps.Copy(all, functions)
	return Options{Functions: all}
}

// BootReport is the report of an agent that started at startedNS on the monotonic clock.
func BootReport(startedNS int64) wire.BootReport {
	return wire.BootReport{Kernel: kernelRelease(), System: runtime.GOOS, PID: os.Getpid(), CPUs: runtime.NumCPU(),
		StartedNS: startedNS}
}

// Opener returns a function that waits for the next host at an address.
func Opener(place string) (func(context.Context) (io.ReadWriteCloser, error), error) {
	kind, at, _ := strings.Cut(place, ":")
	switch {
	case filepath.IsAbs(place):
		return func(context.Context) (io.ReadWriteCloser, error) { return openDevice(place) }, nil
	case kind == "tcp":
		l, err := net.Listen("tcp", at)
		if err != nil {
			return nil, err
		}
		return accepting(l), nil
	case kind == "vsock":
		l, err := ListenVsock(at)
		if err != nil {
			return nil, err
		}
		return accepting(l), nil
	}
	return nil, command.UsageError("serve: invalid address %q; write -, /dev/NAME, tcp:ADDR:PORT or vsock:PORT", place)
}

func accepting(l net.Listener) func(context.Context) (io.ReadWriteCloser, error) {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		return l.Accept()
	}
}

// openDevice opens a port, in raw mode if it is a terminal.
func openDevice(path string) (io.ReadWriteCloser, error) {
	f, err := os.OpenFile(path, os.O_RDWR|overlapped, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Mode()&deviceMode == 0 {
		f.Close()
		return nil, errors.Join(err, fault.New(fault.Invalid, "%s is not a character device", path))
	}
	if fd := int(f.Fd()); term.IsTerminal(fd) {
		if _, err := term.MakeRaw(fd); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return f, nil
}

// Stdio is a stream with separate halves for reading and writing.
type Stdio struct {
	io.Reader
	io.Writer
}

// Close closes both halves, so that a pending read returns.
func (s Stdio) Close() error {
	var errs []error
	for _, half := range []any{s.Reader, s.Writer} {
		if c, ok := half.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
