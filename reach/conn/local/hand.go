package local

import (
	"context"
	"os"
	"os/exec"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Hand runs a program that another process starts for this one. give passes
// cmd's streams on, without keeping them, and returns a function that waits for
// the end of the program; it must return soon after ctx ends. Streams and ctx
// behave as in Exec.
func Hand(ctx context.Context, op string, cmd conn.Cmd,
	give func(streams [3]*os.File) (wait func() (conn.Exit, error), err error)) (conn.Exit, error) {
	if err := ctx.Err(); err != nil {
		return conn.Exit{}, fault.Op(op, err)
	}
	var p exec.Cmd
	pipes, err := plumb(&p, cmd)
	if err != nil {
		return conn.Exit{}, fault.Op(op, err)
	}
	defer pipes.close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return conn.Exit{}, fault.Op(op, err)
	}
	defer null.Close()
	streams := [3]*os.File{null, null, null}
	for i, s := range []any{p.Stdin, p.Stdout, p.Stderr} {
		if f, ok := s.(*os.File); ok {
			streams[i] = f
		}
	}
	wait, err := give(streams)
	if err != nil {
		return conn.Exit{}, fault.Op(op, err)
	}
	pipes.run()
	exit, err := wait()
	if err == nil {
		return exit, fault.Wrap(fault.Lab, op, pipes.drain(ctx))
	}
	pipes.stop()
	if ctx.Err() != nil {
		err = fault.Wrap(fault.Lab, "", ctx.Err())
	}
	return exit, fault.Op(op, err)
}
