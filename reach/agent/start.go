//go:build !windows

package agent

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// runStart is `start --log FILE --status FILE [--dir D] [--user U[:G] [--own]] -- CMD…`. It
// returns when the program has started. A second agent, in a session of its own, waits for
// the end of the program and writes it to the status file, as a wire.Started.
func runStart(c command.Call) int {
	f, _ := c.Flags("start")
	log := f.String("log", "", "the file for the output of the program, whose folder is created if it does not exist")
	status := f.String("status", "", "the file for the end of the program")
	dir := f.String("dir", "", "the working directory, which is created if it does not exist")
	user := f.String("user", "", "the user to run as, USER[:GROUP] by names or numbers")
	own := f.Bool("own", false, "give the working directory to the user")
	wait := f.Bool("wait", false, "wait for the end of the program (used by start itself)")
	if err := f.Parse(c.Args); err != nil {
		return wire.ExitInvalid
	}
	if f.NArg() == 0 || *log == "" || *status == "" {
		return c.Fail(command.UsageError("start: usage: start --log FILE --status FILE -- CMD…"))
	}
	if *wait {
		return startAndWait(c, *log, *status, *dir, *user, *own, f.Args())
	}
	if err := os.MkdirAll(filepath.Dir(*log), 0o755); err != nil { // an image may have no mkdir(1)
		return c.Fail(fault.Op("start", fault.Wrap(fault.Lab, "", err)))
	}
	if err := os.Remove(*status); err != nil && !errors.Is(err, os.ErrNotExist) {
		return c.Fail(fault.Op("start", fault.Wrap(fault.Lab, "", err)))
	}
	self, err := os.Executable()
	if err != nil {
		return c.Fail(fault.Op("start", fault.Wrap(fault.Lab, "", err)))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return c.Fail(fault.Op("start", fault.Wrap(fault.Lab, "", err)))
	}
	defer r.Close()
	waiter := exec.Command(self, append([]string{"start", "--wait"}, c.Args...)...)
	waiter.Stderr = w // its stdin and stdout are the null device, so that nobody waits for them
	waiter.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = waiter.Start()
	w.Close()
	if err != nil {
		return c.Fail(fault.Op("start", startError(err)))
	}
	said, err := io.ReadAll(io.LimitReader(r, 64<<10)) // it ends when the program has started
	if len(said) == 0 && err == nil {
		return wire.ExitOK
	}
	_, _ = c.Stderr.Write(said)
	_ = waiter.Wait() // the code says how
	if code := waiter.ProcessState.ExitCode(); code > 0 {
		return code
	}
	return wire.ExitLab
}

// startAndWait starts the program, closes standard error and waits.
func startAndWait(c command.Call, log, status, dir, user string, own bool, argv []string) int {
	fail := func(err error) int { return c.Fail(fault.Op("start", err)) }
	out, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fail(fault.Wrap(fault.Lab, "", err))
	}
	defer out.Close()
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil { // as OCI runtimes do
			return fail(fault.Wrap(fault.Subject, "", err))
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	isolate(cmd)
	if user != "" {
		if err := become(cmd, user, own); err != nil {
			return fail(err)
		}
		who := cmd.SysProcAttr.Credential
		if err := out.Chown(int(who.Uid), int(who.Gid)); err != nil { // a program may open /dev/stdout
			return fail(fault.Wrap(fault.Lab, "", err))
		}
	}
	runtime.LockOSThread() // the program ends with the thread that started it
	if err := cmd.Start(); err != nil {
		return fail(startError(err))
	}
	if f, ok := c.Stderr.(*os.File); ok {
		f.Close()
	}
	done := make(chan struct{})
	go limitLog(out, done)
	_ = cmd.Wait() // ProcessState says how
	close(done)
	end := wire.Started{Schema: wire.StartedSchema, Argv: argv, Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		end.Signal, end.Code = ws.Signal().String(), 128+int(ws.Signal())
	}
	b, err := json.Marshal(end)
	if err == nil {
		err = atomicfile.Write(status, b, 0o644)
	}
	if err != nil {
		return wire.ExitLab // nobody reads more of it
	}
	return wire.ExitOK
}

// The bounds of a log: a program that logs each request would fill the disk.
const (
	maxLog  = 64 << 20
	logTick = 10 * time.Second
)

// limitLog empties the log when it is longer than maxLog, until done. Programs append.
func limitLog(log *os.File, done <-chan struct{}) {
	tick := time.NewTicker(logTick)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if info, err := log.Stat(); err == nil && info.Size() > maxLog {
			_ = log.Truncate(0) // the next tick tries again
		}
	}
}
