package ssh

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/reach/conn"
)

// client runs the user's OpenSSH client, so jump hosts, agents, keys on tokens
// and names in ~/.ssh/config work. The first session opens a connection that
// the others share.
type client struct {
	o   Options
	dir string // private, with the control socket
	// mine is held while this controller uses dir.
	mine *lock.Lock
}

// exitSSH is the exit code of ssh for its own errors.
const exitSSH = 255

func newClient(o Options) (*client, error) {
	_, _ = Reap(false)                             // `bakeoff clean` reports what remains
	dir, err := os.MkdirTemp(baseDir(), dirPrefix) // mode 0700
	if err != nil {
		return nil, fault.Op("ssh", err)
	}
	mine, err := lock.Try(filepath.Join(dir, lockFile))
	if err != nil {
		os.RemoveAll(dir)
		return nil, fault.Op("ssh", err)
	}
	return &client{o: o, dir: dir, mine: mine}, nil
}

// args are a client's arguments before the target.
func (c *client) args(program string) []string {
	args := []string{program}
	if c.o.Config != "" {
		args = append(args, "-F", c.o.Config)
	}
	if c.o.Port > 0 {
		args = append(args, "-o", "Port="+strconv.Itoa(c.o.Port))
	}
	if c.o.HostKey != "" {
		args = append(args, "-o", "HostKeyAlias="+c.o.HostKey)
	}
	for _, option := range []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes",
		"ConnectTimeout=" + strconv.Itoa(int(connectTime/time.Second)),
		"ServerAliveInterval=" + strconv.Itoa(int(keepAlive/time.Second)),
		"ServerAliveCountMax=" + strconv.Itoa(max(1, int(c.o.Silence/2/keepAlive))),
		"ControlMaster=auto", "ControlPersist=" + strconv.Itoa(int(persist/time.Second)),
		"ControlPath=" + filepath.Join(c.dir, socketFile),
		"RequestTTY=no", "RemoteCommand=none", "EscapeChar=none", "LogLevel=ERROR",
		"ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "PermitLocalCommand=no",
	} {
		args = append(args, "-o", option)
	}
	return args
}

// The bounds of a connection.
const (
	connectTime = 15 * time.Second
	// keepAlive is how often ssh asks for an answer. It gives up after half of
	// Options.Silence, before the agent does.
	keepAlive = 15 * time.Second
	// persist is how long the shared connection outlives its last session,
	// also after a killed controller.
	persist = 30 * time.Second
)

// run executes argv on the other side in a session of its own. The end of ctx
// does not kill the remote program; the programs that this package runs this
// way end when their input ends.
func (c *client) run(
	ctx context.Context,
	argv []string,
	stdin io.Reader,
	stdout, stderr io.Writer,
) (conn.Exit, error) {
	line, err := commandLine(argv)
	if err != nil {
		return conn.Exit{}, err
	}
	return c.start(ctx, append(c.args(c.o.Program), "--", c.o.Target, line), stdin, stdout, stderr)
}

// start runs a client of OpenSSH on this side.
func (c *client) start(
	ctx context.Context,
	argv []string,
	stdin io.Reader,
	stdout, stderr io.Writer,
) (conn.Exit, error) {
	if stdin == nil {
		stdin = bytes.NewReader(nil)
	}
	said := &conn.Tail{Limit: 8 << 10}
	exit, err := c.o.Local.Exec(ctx, conn.Cmd{Argv: argv, Env: []string{"LC_ALL=C"},
		Stdin: stdin, Stdout: stdout, Stderr: conn.Both(said, stderr)})
	switch {
	case ctx.Err() != nil:
		return exit, fault.Wrap(fault.Lab, "ssh "+c.o.Target, ctx.Err())
	case fault.Is(err, fault.NotFound):
		return exit, &fault.Error{Kind: fault.Unsupported, Op: "ssh", Err: err,
			Fix: "install the OpenSSH client: apt-get install openssh-client"}
	case err != nil:
		return exit, fault.Op("ssh "+c.o.Target, err)
	case exit.Code == exitSSH:
		return exit, Complain(string(said.Bytes())).Err(c.o.Target)
	}
	return exit, nil
}

// hangUp closes the shared connection, if there is one.
func (c *client) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	args := append(c.args(c.o.Program), "-O", "exit", "--", c.o.Target)
	_, _ = c.o.Local.Exec(ctx, conn.Cmd{Argv: args}) // fails if there is no connection
	os.Remove(filepath.Join(c.dir, socketFile))
}

// close ends the shared connection and removes its directory.
func (c *client) close() error {
	c.hangUp()
	defer c.mine.Release()
	return fault.Op("ssh", os.RemoveAll(c.dir))
}
