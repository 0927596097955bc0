package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/hostpath"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// execOutput is how much of a command's standard output and of its standard
// error is kept, in bytes.
const execOutput = 1 << 20

// runExec is `exec [--json] [--dir D] [--user U[:G] [--own]] [--timeout T] [--repeat T] -- CMD…`.
func runExec(c command.Call) int {
	f, asJSON := c.Flags("exec")
	dir := f.String("dir", "", "the working directory")
	timeout := f.Duration("timeout", 0, "kill the command after this time; 0: never")
	repeat := f.Duration("repeat", 0, "with --json: execute the command again until this time has passed; 0: once")
	user := f.String("user", "", "the user to run as, USER[:GROUP] by names or numbers")
	own := f.Bool("own", false, "give the working directory to the user")
	waits := f.Bool("waits", false, "with --json: count how long threads of the command wait for a CPU; costs some of it")
	if err := f.Parse(c.Args); err != nil {
		return wire.ExitInvalid
	}
	if f.NArg() == 0 {
		return c.Fail(command.UsageError("exec: no program given; usage: exec [--json] -- CMD…"))
	}
	// With one thread that runs Go, none is woken to look for work on the CPU on which
	// the command runs.
	runtime.GOMAXPROCS(1)
	ctx, stop := command.Interruptible()
	defer stop()
	cmd := exec.Command(hostpath.Local(f.Arg(0)), f.Args()[1:]...)
	cmd.Dir, cmd.Stdin = hostpath.Local(*dir), c.Stdin
	stdout, stderr := &conn.Head{Limit: execOutput}, &conn.Head{Limit: execOutput}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if !*asJSON {
		cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	}
	isolate(cmd)
	if *user != "" {
		if err := become(cmd, *user, *own); err != nil {
			return c.Fail(fault.Op("exec", err))
		}
	}
	fresh := func() {
		*stdout, *stderr = conn.Head{Limit: execOutput}, conn.Head{Limit: execOutput}
	}
	var waited *waitCounter
	if *waits {
		waited = &waitCounter{}
	}
	res, err := execute(ctx, cmd, *timeout, *repeat, fresh, waited)
	if err != nil {
		return c.Fail(fault.Op("exec", err))
	}
	if *asJSON {
		res.Stdout, res.Stderr = stdout.Bytes(), stderr.Bytes()
		res.Truncated = stdout.Cut || stderr.Cut
		return c.Print(res)
	}
	fmt.Fprintf(c.Stderr, "%.3f s wall, %.3f s user, %.3f s system\n",
		float64(res.ElapsedNS)/1e9, res.Usage.UserSeconds, res.Usage.SystemSeconds)
	return res.Code
}

// execute runs cmd, which isolate prepared, and reads the counters before and after
// it. When ctx ends, and after the time limit unless it is 0, the command and its process
// group are killed. The result then has the signal; by the limit, it took at least that
// long. With repeat, execute runs the command again as enough says, or until an execution
// fails, and calls fresh before each further one.
// Unless waited is nil, it counts how long the command waits for CPUs.
func execute(ctx context.Context, cmd *exec.Cmd, limit, repeat time.Duration, fresh func(),
	waited *waitCounter) (wire.ExecResult, error) {
	// The parent-death signal depends on the thread, not the process, so
	// this thread must live until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cmd.Err != nil {
		return wire.ExecResult{}, startError(cmd.Err)
	}
	res := wire.ExecResult{Schema: wire.ExecSchema, Argv: cmd.Args}
	set, cpu := probe.ReadCPUs()
	var begin time.Time
	for {
		left := limit
		if limit > 0 && !begin.IsZero() {
			left = max(1, limit-time.Since(begin))
		}
		one, err := once(ctx, cmd, begin.IsZero(), left, &res.Counters.Before, waited)
		if err != nil {
			return wire.ExecResult{}, err
		}
		if begin.IsZero() {
			begin, res.Usage = one.start, one.usage
		} else {
			res.Usage = res.Usage.Add(one.usage)
		}
		res.ElapsedNS = one.end.Sub(begin).Nanoseconds()
		res.Code, res.Signal = one.code, one.signal
		if repeat > 0 {
			res.RunsNS = append(res.RunsNS, one.end.Sub(one.start).Nanoseconds())
		}
		if one.code != 0 || ctx.Err() != nil || limit > 0 && one.end.Sub(begin) >= limit ||
			enough(res.RunsNS, one.end.Sub(begin), repeat) {
			break
		}
		fresh()
	}
	res.Counters.After, res.WaitedSeconds = probe.ReadHere(), waited.seconds()
	if same, after := probe.ReadCPUs(); cpu != nil && after != nil && slices.Equal(set, same) {
		res.CPUs = &wire.CPUSpan{Set: set, Before: *cpu, After: *after}
	}
	return res, nil
}

// enough reports whether a command needs no further execution: it was executed for the time
// repeat. It is executed at least twice, unless that takes more than four times as long:
// the first execution meets colder caches, which matters less the longer it is.
func enough(runs []int64, passed, repeat time.Duration) bool {
	return len(runs) == 0 || len(runs) == maxRepeats || passed >= repeat && (len(runs) > 1 || passed >= 4*repeat)
}

// maxRepeats bounds the executions of a repeated command, and so the size of the result.
const maxRepeats = 10000

// execution is one execution of a command.
type execution struct {
	start, end time.Time
	usage      facts.Usage
	code       int
	signal     string
}

// once executes cmd. The time begins immediately before the fork and ends when the
// command has been waited for: neither the pipes of its output are opened in it, nor is
// the rest of its output read. before a first execution once rehearses, and reads the
// counters. The command is killed after the time left, unless it is 0.
func once(ctx context.Context, cmd *exec.Cmd, first bool, left time.Duration, before *facts.Counters,
	waited *waitCounter) (e execution, err error) {
	std, err := openStreams(cmd)
	if err != nil {
		return e, fault.Wrap(fault.Lab, "", err)
	}
	defer std.close()
	attr := &os.ProcAttr{Dir: cmd.Dir, Env: cmd.Environ(), Files: std.theirs[:], Sys: cmd.SysProcAttr}
	if first {
		rehearse(attr)
		*before = probe.ReadHere()
	}
	e.start = time.Now()
	p, err := os.StartProcess(cmd.Path, cmd.Args, attr)
	if err != nil {
		return e, startError(err)
	}
	if err := local.Contain(p); err != nil {
		return e, err
	}
	defer local.Release(p.Pid)
	unwatch := context.AfterFunc(ctx, func() { local.KillGroup(p.Pid) })
	stopTimer := func() bool { return true }
	if left > 0 {
		stopTimer = time.AfterFunc(left, func() { local.KillGroup(p.Pid) }).Stop
	}
	std.closeTheirs()
	ended := false
	if waited == nil && std.onlyReads() {
		ended = awaitBriefly(p, std, brief(left))
		e.end = time.Now()
	}
	std.copy()
	stop := waited.watch(p.Pid)
	state, err := p.Wait()
	if !ended {
		e.end = time.Now()
	}
	stop()
	unwatch()
	stopTimer()
	if err != nil {
		return e, fault.Wrap(fault.Lab, "wait", err)
	}
	std.wait(outputDelay)
	e.usage = local.UsageOf(state)
	end := local.EndOf(state)
	e.code, e.signal = end.Code, end.Signal
	return e, nil
}

// brief is how long a command is awaited by awaitBriefly, if it may take the time left; 0 is no
// limit. What else happens in the agent waits for so long.
func brief(left time.Duration) time.Duration {
	const most = 20 * time.Millisecond
	if left > 0 {
		return min(left, most)
	}
	return most
}

// outputDelay is how long the output of a command that has ended is read, if a process
// that it left behind holds the pipe open.
const outputDelay = 2 * time.Second

// rehearse starts a program that does not exist. A fork in a new process meets pages
// that have never been touched, which takes a tenth of a millisecond and more; a
// command's time is to have none of that.
func rehearse(attr *os.ProcAttr) {
	if p, err := os.StartProcess("/dev/null/none", []string{"none"}, attr); err == nil {
		_, _ = p.Wait() // there is no such program
	}
}

// streams are the standard streams of a command. A stream that is not a file has a pipe.
type streams struct {
	theirs [3]*os.File
	ours   []*os.File  // to be closed: those that were opened here
	writes []*os.File  // of them, the ends of the command
	reads  []*os.File  // of them, the ends that are read
	outs   []io.Writer // to which they are copied
	copies []func()
	done   sync.WaitGroup
}

// onlyReads reports whether nothing must be written while the command runs.
func (s *streams) onlyReads() bool { return len(s.copies) == len(s.reads) }

// closeTheirs closes the ends of the command, once it has them.
func (s *streams) closeTheirs() {
	for _, w := range s.writes {
		w.Close()
	}
}

// openStreams opens files and pipes for what cmd names.
func openStreams(cmd *exec.Cmd) (*streams, error) {
	s := &streams{}
	if err := s.open(cmd); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *streams) open(cmd *exec.Cmd) error {
	switch in := cmd.Stdin.(type) {
	case *os.File:
		s.theirs[0] = in
	case nil:
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		s.theirs[0], s.ours = null, append(s.ours, null)
	default:
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.theirs[0], s.ours = r, append(s.ours, r, w)
		// Not waited for: the input may never end.
		s.copies = append(s.copies, func() {
			go func() {
				_, _ = io.Copy(w, in) // the command may end before its input
				w.Close()
			}()
		})
	}
	for i, out := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		if f, ok := out.(*os.File); ok {
			s.theirs[1+i] = f
			continue
		}
		r, w, err := local.OutputPipe()
		if err != nil {
			return err
		}
		s.theirs[1+i], s.ours, s.writes = w, append(s.ours, r, w), append(s.writes, w)
		s.reads, s.outs = append(s.reads, r), append(s.outs, out)
		s.copies = append(s.copies, func() {
			s.done.Go(func() { _, _ = io.Copy(out, r) }) // until the end, or until wait closes it
		})
	}
	return nil
}

// copy begins to copy.
func (s *streams) copy() {
	for _, begin := range s.copies {
		begin()
	}
}

// wait waits until all output has been read, but not longer than limit.
func (s *streams) wait(limit time.Duration) {
	late := time.AfterFunc(limit, func() {
		for _, r := range s.reads {
			r.Close()
		}
	})
	s.done.Wait()
	late.Stop()
}

func (s *streams) close() {
	for _, f := range s.ours {
		f.Close()
	}
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
	case errors.Is(err, fs.ErrPermission), local.NotExecutable(err):
		return fault.Wrap(fault.Subject, "", err)
	}
	return fault.Wrap(fault.Lab, "", err)
}
