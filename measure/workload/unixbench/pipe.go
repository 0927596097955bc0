package unixbench

import (
	"context"
	"encoding/binary"
	"fmt"
	"syscall"

	"bakeoff/reach/loop"
)

// pipeBlock is the size of a write to the pipe, in bytes.
const pipeBlock = 512

// pipe is one process that writes a block to a pipe and reads it back: a round is two
// system calls and two copies, without a change of process.
func pipe(context.Context, loop.Env) (test, error) {
	var ends [2]int
	syscall.ForkLock.RLock()
	err := syscall.Pipe(ends[:])
	if err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return test{}, fmt.Errorf("make a pipe: %w", err)
	}
	var in, out [pipeBlock]byte
	rounds := uint64(0)
	return test{
		do: func(n int) error {
			for range n {
				rounds++
				binary.LittleEndian.PutUint64(out[pipeBlock-8:], rounds)
				if k, err := syscall.Write(ends[1], out[:]); err != nil || k != pipeBlock {
					return fmt.Errorf("write to the pipe: %d bytes, %w", k, err)
				}
				if k, err := syscall.Read(ends[0], in[:]); err != nil || k != pipeBlock {
					return fmt.Errorf("read from the pipe: %d bytes, %w", k, err)
				}
				if got := binary.LittleEndian.Uint64(in[pipeBlock-8:]); got != rounds {
					return loop.Mismatch("the number of the block that came back", got, rounds)
				}
			}
			return nil
		},
		check: func() (string, error) { return fmt.Sprintf("%d blocks came back", rounds), nil },
		close: func() {
			syscall.Close(ends[0])
			syscall.Close(ends[1])
		},
	}, nil
}
