package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/measure/workload"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Command is a command that the agent runs, with counters around it.
type Command struct {
	Conn  conn.Conn
	Agent string // its path
	Where string // " in the environment", for messages; "" elsewhere
	Dir   string
	Limit time.Duration
	// Repeat is how long the command is executed again and again; 0 is once.
	Repeat time.Duration
	// Waits counts how long the command waits for CPUs, which costs some CPU time.
	Waits bool
	Argv  []string
	Env   []string
	Name  string // in messages
	// User is the user of the command, USER[:GROUP] by names or numbers of the
	// environment; "" is that of the agent. With Own, Dir becomes the folder of
	// that user.
	User string
	Own  bool
	// Quoted quotes an error output for a message.
	Quoted func([]byte) string
}

// maxExec bounds a wire.ExecResult of two streams of 1 MiB, in bytes.
const maxExec = 8 << 20

// Exec runs the command and returns the agent's result and its standard error.
func (c Command) Exec(ctx context.Context) (stdout, stderr []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit+time.Minute, errTooLong)
	defer cancel()
	out, said := &conn.Head{Limit: maxExec}, &conn.Head{Limit: maxStderr}
	argv := []string{c.Agent, "exec", "--json", "--dir", c.Dir, "--timeout", c.Limit.String()}
	if c.Repeat > 0 {
		argv = append(argv, "--repeat", c.Repeat.String())
	}
	if c.Waits {
		argv = append(argv, "--waits")
	}
	if c.User != "" {
		argv = append(argv, "--user", c.User)
		if c.Own {
			argv = append(argv, "--own")
		}
	}
	exit, err := c.Conn.Exec(ctx, conn.Cmd{Argv: append(append(argv, "--"), c.Argv...), Env: c.Env, Stdout: out,
		Stderr: said})
	switch {
	case errors.Is(context.Cause(ctx), errTooLong):
		err = fault.New(fault.Subject, "bakeoff-agent reported no result within one minute after its timeout of %v", c.Limit)
	case fault.Is(err, fault.NotFound):
		err = fault.Wrap(fault.Lab, "", fmt.Errorf("bakeoff-agent is missing%s: %w", c.Where, err))
	case err != nil:
	case exit.Code == wire.ExitNotFound, exit.Code == wire.ExitSubject:
		err = fault.New(fault.Subject, "%scannot be started%s", c.Name, c.Quoted(said.Bytes()))
	case exit.Signal != "" || exit.Code > 128:
		err = fault.New(fault.Subject, "bakeoff-agent was killed by %s%s", exit, c.Quoted(said.Bytes()))
	case !exit.OK():
		err = fault.New(fault.Lab, "bakeoff-agent failed with %s%s", exit, c.Quoted(said.Bytes()))
	case out.Cut:
		err = fault.New(fault.Lab, "bakeoff-agent's output is longer than %d bytes", maxExec)
	}
	return out.Bytes(), said.Bytes(), err
}

// Generate runs the agent's load generator on the peer with these parameters,
// and returns its output, of at most 4 MiB, and the end of its standard error.
func (t Target) Generate(ctx context.Context, args []string) (out, said *conn.Tail, exit conn.Exit, err error) {
	out, said = &conn.Tail{Limit: MaxGenerated}, &conn.Tail{Limit: 4096}
	exit, err = t.Peer.Exec(ctx, conn.Cmd{
		Argv:   append([]string{t.PeerAgent, "work", "http", "--json"}, args...),
		Stdout: out, Stderr: said,
	})
	return out, said, exit, err
}

// MaxGenerated bounds what the load generator prints, in bytes.
const MaxGenerated = 4 << 20

// Remember keeps v under key in a state of Target, which may be nil.
func Remember(state map[string]string, key string, v any) error {
	b, err := json.Marshal(v)
	if err == nil && state != nil {
		state[key] = string(b)
	}
	return fault.Wrap(fault.Lab, "remember", err)
}

// Recall reads into v what Remember kept; it is an error if there is nothing.
func Recall(state map[string]string, key string, v any) error {
	text, ok := state[key]
	if !ok {
		return fault.New(fault.Lab, "Prepare was not called")
	}
	return fault.Wrap(fault.Lab, "recall", json.Unmarshal([]byte(text), v))
}

// WithFacts returns the raw output of a trial with the facts of its programs.
func WithFacts(facts map[string]string) workload.Raw {
	b, _ := json.Marshal(facts) // strings always have a JSON form
	return workload.Raw{workload.Facts: b}
}

// WriteFiles creates the directory dir and writes files, by name, into it.
func WriteFiles(ctx context.Context, c conn.Conn, dir string, files map[string]string) error {
	if _, err := conn.Output(ctx, c, "mkdir", "-p", dir); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := c.Push(ctx, path.Join(dir, name), 0o644, strings.NewReader(files[name])); err != nil {
			return err
		}
	}
	return nil
}
