package gvisor

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"bakeoff/confine"
	"bakeoff/conn"
)

// way is how programs get in, and out again.
type way struct {
	env  *confine.Env
	exec []string // runsc exec LABEL
}

// killTime bounds how long a program's end is waited for.
const killTime = 10 * time.Second

// run executes a command line of the way in.
//
// A `runsc exec` that is killed leaves its program running: the program is a
// process of the sandbox's kernel, which the host does not see. So the command
// line goes on when ctx ends, and the agent inside is told to end the program
// and what descends from it; then the command line ends by itself.
func (w way) run(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if err := ctx.Err(); err != nil {
		return conn.Exit{}, err
	}
	mark := rand.Text()
	cmd.Argv = slices.Insert(slices.Clone(cmd.Argv), len(w.env.In), "--mark", mark)
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type result struct {
		exit conn.Exit
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		exit, err := w.env.Host.Exec(whole, cmd)
		ended <- result{exit, err}
	}()
	select {
	case r := <-ended:
		return r.exit, r.err
	case <-ctx.Done():
	}
	// What was not found may not have been started yet.
	stop, stopped := context.WithTimeout(whole, killTime)
	defer stopped()
	end := append(slices.Clone(w.exec), confine.AgentPath, "end", mark)
	for wait := 5 * time.Millisecond; stop.Err() == nil; wait = min(2*wait, 100*time.Millisecond) {
		w.env.Host.Exec(stop, conn.Command(end...))
		select {
		case <-ended:
			return conn.Exit{}, ctx.Err()
		case <-stop.Done():
		case <-time.After(wait):
		}
	}
	// The sandbox does not answer, or is frozen: the command line itself is
	// ended. Whoever closes the environment kills the rest.
	cancel()
	<-ended
	return conn.Exit{}, ctx.Err()
}
