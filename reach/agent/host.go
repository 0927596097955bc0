package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hostpath"
	"bakeoff/base/lock"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// runHost is `host [--silence D]`: it serves a whole machine to one controller
// on standard input and output, over SSH, until the input ends. Then it kills
// what the controller started, except background processes. In addition to the
// functions of serve it offers those of a machine: counters, a lock, its
// identity.
func runHost(c command.Call) int {
	f, _ := c.Flags("host")
	silence := f.Duration("silence", 0, "end if nothing is received for this time; 0: never")
	if err := f.Parse(c.Args); err != nil {
		return wire.ExitInvalid
	}
	ctx, stop := command.Interruptible()
	defer stop()
	// When the controller is gone, our output is closed. By default SIGPIPE
	// would end this process at once, and running programs would stay
	// behind.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	port := &heard{Stdio: serve.Stdio{Reader: c.Stdin, Writer: c.Stdout}, closed: make(chan struct{})}
	port.last.Store(time.Now().UnixNano())
	if *silence > 0 {
		go port.watch(*silence)
	}
	held := &locks{held: map[string]*hold{}}
	defer held.release()
	err := serve.Host(ctx, port, serve.Options{Functions: machineFunctions(held), Launch: serve.Treewise{}})
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		return c.Fail(fault.Op("host", err))
	}
	return wire.ExitOK
}

// heard is a stream that records the time of the last input.
type heard struct {
	serve.Stdio
	last   atomic.Int64 // Unix nanoseconds
	ended  atomic.Bool
	closed chan struct{}
}

func (s *heard) Read(p []byte) (int, error) {
	n, err := s.Stdio.Read(p)
	if n > 0 {
		s.last.Store(time.Now().UnixNano())
	}
	return n, err
}

// Close ends the stream, once.
func (s *heard) Close() error {
	if s.ended.Swap(true) {
		return nil
	}
	close(s.closed)
	return s.Stdio.Close()
}

// watch closes the stream if nothing was read for the time limit: an
// interrupted network does not end a stream.
func (s *heard) watch(limit time.Duration) {
	tick := time.NewTicker(limit / 4)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
			if time.Since(time.Unix(0, s.last.Load())) > limit {
				s.Close()
				return
			}
		}
	}
}

// machineFunctions are the functions of an agent that serves a machine.
func machineFunctions(held *locks) map[string]serve.Function {
	var here local.Conn
	return map[string]serve.Function{
		channel.FuncMachine: func(context.Context, json.RawMessage) (any, error) { return thisMachine() },
		channel.FuncCounters: with(func(_ context.Context, q channel.CPURequest) (any, error) {
			return probe.ReadHost(q.CPUs), nil
		}),
		channel.FuncSettle: with(func(_ context.Context, q channel.CPURequest) (any, error) {
			return nil, local.Settle(q.CPUs)
		}),
		channel.FuncLock: onFile(func(_ context.Context, q channel.FileRequest) (any, error) {
			return nil, held.take(q.Path, q.Owner)
		}),
		channel.FuncUnlock: onFile(func(_ context.Context, q channel.FileRequest) (any, error) {
			return nil, held.give(q.Path)
		}),
		channel.FuncHolder: onFile(func(_ context.Context, q channel.FileRequest) (any, error) {
			return lock.HeldBy(q.Path), nil
		}),
		channel.FuncKeep: onFile(func(_ context.Context, q channel.FileRequest) (any, error) {
			return nil, local.Keep(q.Path, q.Data)
		}),
		channel.FuncWrite: onFile(func(ctx context.Context, q channel.FileRequest) (any, error) {
			return nil, here.WriteFile(ctx, q.Path, q.Data)
		}),
		channel.FuncMkdir: onFile(func(ctx context.Context, q channel.FileRequest) (any, error) {
			return nil, here.Mkdir(ctx, q.Path)
		}),
		channel.FuncRmdir: onFile(func(ctx context.Context, q channel.FileRequest) (any, error) {
			return nil, here.Rmdir(ctx, q.Path)
		}),
		channel.FuncReadDir: onFile(func(ctx context.Context, q channel.FileRequest) (any, error) {
			names, err := here.ReadDir(ctx, q.Path)
			return append([]string{}, names...), err
		}),
		channel.FuncRemove: onFile(func(_ context.Context, q channel.FileRequest) (any, error) {
			if filepath.Dir(q.Path) == q.Path {
				return nil, fault.New(fault.Invalid, "agent: refusing to remove %s", q.Path)
			}
			return nil, os.RemoveAll(q.Path)
		}),
	}
}

func thisMachine() (channel.Machine, error) {
	cpus, err := probe.CPUs()
	if err != nil {
		return channel.Machine{}, err
	}
	sum, err := Hash()
	if err != nil {
		return channel.Machine{}, err
	}
	return channel.Machine{GOOS: runtime.GOOS, GOARCH: runtime.GOARCH, UID: os.Getuid(), PID: os.Getpid(),
		CPUs: cpus, Memory: probe.Memory(), SHA256: sum, Hardware: probe.ReadHardware(), Boot: probe.Boot(),
		HostLock: hostpath.Common(lock.OfMachine(os.Getenv, os.Getuid()))}, nil
}

// with makes a serve.Function of a function whose parameters are a T.
func with[T any](f func(context.Context, T) (any, error)) serve.Function {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		var q T
		if err := json.Unmarshal(params, &q); err != nil {
			return nil, fault.Wrap(fault.Invalid, "agent: invalid parameters", err)
		}
		return f(ctx, q)
	}
}

// onFile is with for an absolute, clean path.
func onFile(f func(context.Context, channel.FileRequest) (any, error)) serve.Function {
	return with(func(ctx context.Context, q channel.FileRequest) (any, error) {
		q.Path = hostpath.Local(q.Path)
		if !filepath.IsAbs(q.Path) || filepath.Clean(q.Path) != q.Path {
			return nil, fault.New(fault.Invalid, "agent: path must be absolute and clean (got %q)", q.Path)
		}
		return f(ctx, q)
	})
}
