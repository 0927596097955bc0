package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// run executes a command line of the way in.
//
// A killed `exec` of an engine leaves its program running, because the program
// is not its child. So when ctx ends, run keeps the command line running, finds
// the program by a mark in its argument vector and kills its session; then the
// command line ends by itself.
func (c *Container) run(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if err := ctx.Err(); err != nil {
		return conn.Exit{}, err
	}
	mark := rand.Text()
	cmd.Argv = slices.Insert(slices.Clone(cmd.Argv), len(c.Env.In), "--mark", mark)
	cmd.Env = slices.Concat(cmd.Env, c.Vars)
	cmd.Dir = c.Dir
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type result struct {
		exit conn.Exit
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		exit, err := c.Host.Exec(whole, cmd)
		ended <- result{exit, err}
	}()
	select {
	case r := <-ended:
		return r.exit, r.err
	case <-ctx.Done():
	}
	stop := time.NewTimer(killTime)
	defer stop.Stop()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		c.kill(context.WithoutCancel(ctx), mark)
		select {
		case <-ended:
			return conn.Exit{}, ctx.Err()
		case <-stop.C:
			// The program is gone or was never started: the engine's client
			// hangs.
			cancel()
			<-ended
			return conn.Exit{}, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// killTime bounds the wait for the end of a program.
const killTime = 10 * time.Second

// kill kills the session of the program that was started with mark. If there is
// none, it may have ended: the caller repeats the call until the command line
// returns.
func (c *Container) kill(ctx context.Context, mark string) {
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	pids, err := c.Env.Group.PIDs(ctx)
	if err != nil {
		return
	}
	files := conn.FilesOf(c.Host)
	session := map[int]int{}
	found := 0
	for _, pid := range pids {
		stat, err := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		session[pid] = sessionOf(string(stat))
		if line, err := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil &&
			slices.Contains(strings.Split(string(line), "\x00"), mark) {
			found = session[pid]
		}
	}
	if found == 0 {
		return
	}
	argv := []string{"kill", "-9"}
	for _, pid := range pids {
		if session[pid] == found {
			argv = append(argv, strconv.Itoa(pid))
		}
	}
	// kill fails if one of them has ended by itself.
	c.Host.Exec(ctx, conn.Command(argv...))
}

// sessionOf reads the session from a line of /proc/PID/stat (proc(5)); 0 if the
// line is invalid. The name in parentheses may contain anything.
func sessionOf(stat string) int {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 4 {
		return 0
	}
	n, err := strconv.Atoi(f[3])
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// Alive turns the error of an engine that does not answer into one of kind
// fault.Unsupported with a fix.
func Alive(err error, name, fix string) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.Unsupported, Op: name, Err: err, Fix: fix}
}
