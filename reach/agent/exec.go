package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// execOutput is how much of a command's standard output and of its standard
// error is kept, in bytes.
const execOutput = 1 << 20

// runExec is `exec [--json] [--dir D] [--user U[:G] [--own]] [--timeout T] -- CMD…`.
func runExec(c call) int {
	f, asJSON := c.flags("exec")
	dir := f.String("dir", "", "the working directory")
	timeout := f.Duration("timeout", 0, "kill the command after this time; 0: never")
	user := f.String("user", "", "the user to run as, USER[:GROUP] by names or numbers")
	own := f.Bool("own", false, "give the working directory to the user")
	if err := f.Parse(c.args); err != nil {
		return wire.ExitInvalid
	}
	if f.NArg() == 0 {
		return c.fail(usageError("exec: no program given; usage: exec [--json] -- CMD…"))
	}
	ctx, stop := interruptible()
	defer stop()
	if *timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *timeout)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, f.Arg(0), f.Args()[1:]...)
	cmd.Dir, cmd.Stdin = *dir, c.stdin
	stdout, stderr := &conn.Head{Limit: execOutput}, &conn.Head{Limit: execOutput}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if !*asJSON {
		cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	}
	isolate(cmd)
	if *user != "" {
		if err := become(cmd, *user, *own); err != nil {
			return c.fail(fault.Op("exec", err))
		}
	}
	res, err := execute(cmd)
	if err != nil {
		return c.fail(fault.Op("exec", err))
	}
	if *asJSON {
		res.Stdout, res.Stderr = stdout.Bytes(), stderr.Bytes()
		res.Truncated = stdout.Cut || stderr.Cut
		return c.print(res)
	}
	fmt.Fprintf(c.stderr, "%.3f s wall, %.3f s user, %.3f s system\n",
		float64(res.ElapsedNS)/1e9, res.Usage.UserSeconds, res.Usage.SystemSeconds)
	return res.Code
}

// execute runs cmd, which isolate prepared, and reads the counters before and after it. When its context
// ends, the command and its process group are killed; the result has the
// signal.
func execute(cmd *exec.Cmd) (wire.ExecResult, error) {
	// The parent-death signal depends on the thread, not the process, so
	// this thread must live until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for pipes that a grandchild holds open
	before := probe.ReadHost(nil)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return wire.ExecResult{}, startError(err)
	}
	err := cmd.Wait()
	elapsed := time.Since(start)
	after := probe.ReadHost(nil)
	if err != nil && cmd.ProcessState == nil {
		return wire.ExecResult{}, fault.Wrap(fault.Lab, "wait", err)
	}
	res := wire.ExecResult{
		Schema:    wire.ExecSchema,
		Argv:      cmd.Args,
		ElapsedNS: elapsed.Nanoseconds(),
		Counters:  wire.Span{Before: before, After: after},
	}
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		res.Usage = probe.UsageOf(ru)
	}
	res.Code = cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.Signal, res.Code = ws.Signal().String(), 128+int(ws.Signal())
	}
	return res, nil
}

// startError classifies the error of a program that could not be started.
func startError(err error) error {
	// The path and the kernel's reason; "fork/exec" is Go's name for the call.
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, "", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return fault.Wrap(fault.Subject, "", err)
	}
	return fault.Wrap(fault.Lab, "", err)
}
