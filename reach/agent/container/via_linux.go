package container

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/nsenter"
)

// response is the result of a request.
type response struct {
	Code   int    `json:"code"`             // of the program, or of enter if it did not start
	Signal int    `json:"signal,omitempty"` // that ended it; 0: none
	Error  string `json:"error,omitempty"`  // why it did not start
	// ClockNS is the monotonic clock, since the start of the init process.
	ClockNS int64 `json:"clock_ns,omitempty"`
}

// Init serves requests until SIGTERM or SIGINT, or until its proxy
// ends; see nsenter.Listen.
func Init(args []string, stderr io.Writer) (err error) {
	s := nsenter.Begun()
	if s == nil {
		if s, err = nsenter.Listen(args, stderr); err != nil {
			return err
		}
	}
	sleepSoundly()
	return s.Serve(0)
}

// sleepSoundly keeps this process from waking up during a measurement: garbage
// is collected by amount and not by time.
func sleepSoundly() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)
}

// Via asks the init process at a socket to start a program with the streams of
// this process, and ends with its exit status. If that is impossible, it prints
// the reason and exits like Enter.
//
//	bakeoff-agent via --socket SOCKET [--dir DIR] [--clear-env] [--env NAME=VALUE]… -- PROGRAM ARGUMENT…
//	bakeoff-agent via --socket SOCKET --clock
//
// PROGRAM is a path in the environment, or a name to look up there. --clock
// prints the environment's monotonic clock in nanoseconds since the start of
// the init process.
func Via(args []string) error {
	v, err := askInit(args)
	if err != nil {
		v = response{Code: nsenter.Failed, Error: err.Error()}
	}
	if v.Error != "" {
		fmt.Fprintf(os.Stderr, "%s%s\n", nsenter.Mark, v.Error)
	}
	if v.ClockNS != 0 {
		fmt.Println(v.ClockNS)
	}
	if v.Signal != 0 {
		nsenter.DieOf(syscall.Signal(v.Signal))
	}
	os.Exit(v.Code)
	return nil
}

func parseVia(args []string) (socket string, v nsenter.Request, err error) {
	f := flag.NewFlagSet("via", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&socket, "socket", "", "socket of the init process")
	f.StringVar(&v.Dir, "dir", "", "working directory inside")
	f.BoolVar(&v.Clock, "clock", false, "print the clock and run nothing")
	f.BoolVar(&v.Clear, "clear-env", false, "start from an empty environment")
	f.Func("env", "NAME=VALUE", func(s string) error { v.Env = append(v.Env, s); return nil })
	if err := f.Parse(args); err != nil {
		return "", v, fault.Wrap(fault.Invalid, "via", err)
	}
	v.Argv = f.Args()
	if socket != "" && v.Clock && len(v.Argv) == 0 {
		return socket, nsenter.Request{Clock: true}, nil
	}
	if socket == "" || v.Clock || len(v.Argv) == 0 || v.Argv[0] == "" {
		return "", v, fault.New(fault.Invalid, "usage: bakeoff-agent via --socket SOCKET [--dir DIR] [--clear-env] "+
			"[--env NAME=VALUE]… -- PROGRAM ARGUMENT…, or --clock")
	}
	return socket, v, nil
}

func askInit(args []string) (out response, err error) {
	socket, v, err := parseVia(args)
	if err != nil {
		return out, err
	}
	c, err := dialInit(context.Background(), socket)
	if err != nil {
		return out, err
	}
	defer c.Close()
	if err := ask(c, v, [3]*os.File{os.Stdin, os.Stdout, os.Stderr}); err != nil {
		return out, err
	}
	return answer(c)
}

// ask sends a request with its streams.
func ask(c *net.UnixConn, v nsenter.Request, streams [3]*os.File) error {
	text := v.Text()
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(text)))
	var fds []int
	for _, f := range streams {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.WriteMsgUnix(head[:], unix.UnixRights(fds...), nil); err != nil {
		return err
	}
	_, err := io.WriteString(c, text)
	return err
}

// answer waits for the response to a request.
func answer(c *net.UnixConn) (out response, err error) {
	if err := json.NewDecoder(io.LimitReader(c, 64<<10)).Decode(&out); err != nil {
		return out, fmt.Errorf("the environment's init process closed the connection: %w", err)
	}
	return out, nil
}

// ViaHere does what executing cmd would do on this machine, where cmd is an
// agent's path with `via`. It starts no process for it, which would double the
// duration.
func ViaHere(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	socket, v, err := parseVia(cmd.Argv[2:])
	if err != nil {
		return conn.Exit{}, err
	}
	var out response
	exit, err := local.Hand(ctx, "exec "+path.Join(cmd.Argv[:2]...), cmd,
		func(streams [3]*os.File) (func() (conn.Exit, error), error) {
			c, err := dialInit(ctx, socket)
			if err != nil {
				return nil, err
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			err = ask(c, v, streams)
			return func() (conn.Exit, error) {
				defer c.Close()
				defer stop()
				if err == nil {
					out, err = answer(c)
				}
				if err != nil {
					return conn.Exit{}, err
				}
				return out.exit(), nil
			}, nil
		})
	if err == nil && out.Error != "" && cmd.Stderr != nil {
		_, err = fmt.Fprintf(cmd.Stderr, "%s%s\n", nsenter.Mark, out.Error)
	}
	if err == nil && out.ClockNS != 0 && cmd.Stdout != nil {
		_, err = fmt.Fprintln(cmd.Stdout, out.ClockNS)
	}
	return exit, err
}

// exit is the exit status of the program for a caller.
func (v response) exit() conn.Exit {
	if v.Signal != 0 {
		return conn.Exit{Code: 128 + v.Signal, Signal: syscall.Signal(v.Signal).String()}
	}
	return conn.Exit{Code: v.Code}
}

// An init process that was just started may not listen yet: its socket exists when it does.
const (
	dialTime  = 30 * time.Second
	dialPause = 100 * time.Microsecond
)

// dialInit connects to a socket whose path may exceed the 107 bytes of a socket
// address.
func dialInit(ctx context.Context, socket string) (*net.UnixConn, error) {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	at := &net.UnixAddr{Name: below(dir, socket), Net: "unix"}
	for begin := time.Now(); ; time.Sleep(dialPause) {
		c, err := net.DialUnix("unix", nil, at)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil, ctx.Err()
		case errors.Is(err, syscall.ENOENT) && time.Since(begin) < dialTime:
			continue
		}
		return c, err
	}
}
