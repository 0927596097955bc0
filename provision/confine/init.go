package confine

import (
	"bytes"
	"context"
	"path"

	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// Where the socket of the init process is: on the host below the environment's
// directory, and inside.
const (
	hostSocketDir   = "socket"
	insideSocketDir = "/.bakeoff/socket"
	initSocket      = "container-init"
)

// InitSocket makes the directory of the init process's socket, and makes that
// socket the way in. The init process starts the programs inside, so they have
// all that the technology gives it. A program that enters from outside by
// setns(2) has neither the filter of system calls nor the bounds on
// capabilities. A technology's own exec gives the same, and takes as long as
// another creation. The caller binds the directory as returned; the first
// process is that of Init.
func (e *Env) InitSocket(ctx context.Context) (wire.Bind, error) {
	dir := e.Dir(hostSocketDir)
	e.In = []string{e.Spec.Agent, "via", "--socket", path.Join(dir, initSocket)}
	if _, ok := e.Host.(local.Conn); ok {
		e.Run = agent.ViaHere
	}
	return wire.Bind{From: dir, To: insideSocketDir}, conn.FilesOf(e.Host).Mkdir(ctx, dir)
}

// Init is the command line of the first process of an environment with an
// InitSocket, with more flags of `bakeoff-agent container-init`. silent: nobody
// reads what it writes.
func Init(silent bool, flags ...string) []string {
	argv := append([]string{AgentPath, "container-init"}, flags...)
	if silent {
		argv = append(argv, "--silent")
	}
	return append(argv, path.Join(insideSocketDir, initSocket))
}

// InitSetup makes the volumes and the init process's socket directory, and
// describes the setup and what is bound into it: the agent, the volumes, the
// socket.
func (e *Env) InitSetup(ctx context.Context) (g wire.Setup, binds []wire.Bind, err error) {
	volumes, err := e.Volumes(ctx)
	if err != nil {
		return g, nil, err
	}
	if g, err = e.Setup(ctx, false, false, volumes); err != nil {
		return g, nil, err
	}
	socket, err := e.InitSocket(ctx)
	return g, append(e.Binds(volumes), socket), err
}

// HoldInit makes what g describes and goes on, in the same process, with
// `enter` and args to a program that starts or becomes the init process,
// and lives as long as the environment. The init process runs when this
// returns, and with it the agent has answered.
func (e *Env) HoldInit(ctx context.Context, g wire.Setup, args ...string) error {
	err := e.SetUpThen(ctx, g, func(cmd conn.Cmd) error {
		_, _, err := e.Hold(ctx, cmd, initReady)
		return err
	}, args...)
	e.Resident = err == nil
	return err
}

// proxiedInit is the first process of an environment that a proxy serves.
func proxiedInit() []string { return []string{AgentPath, "container-init", "--silent", "-"} }

// proxy makes what g describes and goes on, in the same process, as the proxy
// of the environment that argv starts in the place that flags of `enter`
// describe. The proxy gives proxiedInit its standard input. It lives as long as
// the environment, outside its control group, and sleeps while no client
// connects. When the controller is killed the proxy ends, and with it the init
// process and the environment. The init process runs when this returns.
func (e *Env) proxy(ctx context.Context, g wire.Setup, place, argv []string) error {
	args := append([]string{"--proxy", path.Join(e.Dir(hostSocketDir), initSocket)}, place...)
	if e.Group != nil {
		args = append(args, e.Group.EnterArgs()...)
	}
	return e.SetUpThen(ctx, g, func(cmd conn.Cmd) error {
		cmd.Group = ""
		_, _, err := e.Hold(ctx, cmd, initReady)
		return err
	}, append(append(args, "--"), argv...)...)
}

// initReady tells from the output of a holder whether its init process is ready:
// a line of its own, before or after what others write.
func initReady(_, errs []byte) bool {
	return bytes.Contains(append([]byte("\n"), errs...), []byte("\n"+wire.PauseReady))
}
