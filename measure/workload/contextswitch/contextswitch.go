// Package contextswitch is the workload "switch": two processes that wake each
// other through pipes.
package contextswitch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Refuse:  workload.OnlyUnix,
		Summary: "Two processes that pass a byte to each other through two pipes",
		Metrics: []sample.Metric{sample.Throughput("op/s",
			"round trips per second; each is two writes, two reads and, on one CPU, two context switches")},
		Source: []string{
			"UnixBench, Pipe-based Context Switching. If the environment has one CPU, every transfer is a context " +
				"switch; if it has more, a transfer may wake up another CPU. Compare only environments with the same " +
				"number of CPUs",
		},
	}, Loop())
}

const peer = "switch-peer"

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{Name: "switch", Params: []param.Spec{workload.TimeParam}, Run: runLoop,
		Children: map[string]func([]string) int{peer: func([]string) int { return answerPeer(3, 4) }}}
}

// ask is the byte that requests the peer's CPU time; the peer returns every
// smaller byte plus one.
const ask = 0xff

func runLoop(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	c, err := startPeer(env.Log)
	if err != nil {
		return wire.Result{}, err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, func() { c.cmd.Process.Kill() })
	defer stop()
	return loop.Timed{For: p.Duration("time"), Do: c.roundTrips, CPU: c.cpu}.Operations(ctx, func() (string, error) {
		return fmt.Sprintf("%d bytes came back plus one", c.count), nil
	})
}

// couple is two pipes and the process at their other ends.
type couple struct {
	cmd      *exec.Cmd
	to, from int // file descriptors that block
	buf      [8]byte
	count    uint64
}

// startPeer starts the peer with its ends of the pipes as descriptors 3 and 4.
func startPeer(log io.Writer) (*couple, error) {
	to, err := makePipe()
	if err != nil {
		return nil, err
	}
	from, err := makePipe()
	if err != nil {
		to.close()
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		to.close()
		from.close()
		return nil, fault.Wrap(fault.Lab, "find the agent", err)
	}
	cmd := exec.Command(self, peer)
	cmd.Env, cmd.Stderr = []string{}, log
	theirs := []*os.File{os.NewFile(uintptr(to[0]), "pipe"), os.NewFile(uintptr(from[1]), "pipe")}
	cmd.ExtraFiles = theirs
	err = cmd.Start()
	for _, f := range theirs {
		f.Close() // so that the pipe ends with the peer
	}
	if err != nil {
		syscall.Close(to[1])
		syscall.Close(from[0])
		return nil, fmt.Errorf("start the other process: %w", err)
	}
	return &couple{cmd: cmd, to: to[1], from: from[0]}, nil
}

// ends are the reading and the writing end of a pipe.
type ends [2]int

func (e ends) close() {
	syscall.Close(e[0])
	syscall.Close(e[1])
}

// makePipe creates a pipe whose reads block the thread; with os.File, Go's poller
// would take part in every transfer.
func makePipe() (ends, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		return ends{}, fmt.Errorf("make a pipe: %w", err)
	}
	syscall.CloseOnExec(p[0])
	syscall.CloseOnExec(p[1])
	return ends(p), nil
}

// close ends the peer, whose input ends.
func (c *couple) close() {
	syscall.Close(c.to)
	syscall.Close(c.from)
	c.cmd.Wait()
}

// roundTrips does n round trips.
func (c *couple) roundTrips(n int) error {
	for range n {
		send := byte(c.count % ask)
		c.buf[0] = send
		if err := writeFull(c.to, c.buf[:1]); err != nil {
			return fmt.Errorf("to the other process: %w", err)
		}
		if err := readFull(c.from, c.buf[:1]); err != nil {
			return fmt.Errorf("from the other process: %w", err)
		}
		if c.buf[0] != send+1 {
			return loop.Mismatch("the byte that came back", c.buf[0], send+1)
		}
		c.count++
	}
	return nil
}

// cpu returns the CPU seconds of both processes.
func (c *couple) cpu() (float64, error) {
	own, err := probe.Thread()
	if err != nil {
		return 0, err
	}
	c.buf[0] = ask
	if err := writeFull(c.to, c.buf[:1]); err != nil {
		return 0, err
	}
	if err := readFull(c.from, c.buf[:]); err != nil {
		return 0, err
	}
	return own + float64(binary.LittleEndian.Uint64(c.buf[:]))/1e9, nil
}

// answerPeer is the other process: it returns each byte plus one until its input
// ends.
func answerPeer(from, to int) int {
	runtime.LockOSThread()
	var buf [8]byte
	for {
		if err := readFull(from, buf[:1]); err != nil {
			if errors.Is(err, io.EOF) {
				return wire.ExitOK
			}
			fmt.Fprintln(os.Stderr, "switch-peer:", err)
			return wire.ExitLab
		}
		out := buf[:1]
		if buf[0] == ask {
			s, _ := probe.Thread()
			binary.LittleEndian.PutUint64(buf[:], uint64(s*1e9))
			out = buf[:]
		} else {
			buf[0]++
		}
		if err := writeFull(to, out); err != nil {
			return wire.ExitLab
		}
	}
}

// readFull fills b; io.EOF when the other end is closed.
func readFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Read(fd, b)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		default:
			b = b[n:]
		}
	}
	return nil
}

// writeFull writes all of b.
func writeFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err != nil && err != syscall.EINTR {
			return err
		}
		b = b[max(n, 0):]
	}
	return nil
}
