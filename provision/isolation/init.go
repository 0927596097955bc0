package isolation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"bakeoff/provision/driver"
	agentcontainer "bakeoff/reach/agent/container"
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

// InitSocket creates the directory of the init process's socket and makes the
// socket the way in. Programs that the init process starts have everything that
// the technology gives it. A program that entered by setns(2) would have
// neither the system call filter nor the capability bounds, and a technology's
// own exec takes as long as another creation. The caller binds the returned
// directory and starts the command line of Init.
func (e *Env) InitSocket(ctx context.Context) (wire.Bind, error) {
	dir := e.Dir(hostSocketDir)
	e.In = []string{e.Spec.Agent, "via", "--socket", path.Join(dir, initSocket)}
	if _, ok := e.Host.(local.Conn); ok {
		e.Run = agentcontainer.ViaHere
	}
	return wire.Bind{From: dir, To: insideSocketDir}, conn.FilesOf(e.Host).Mkdir(ctx, dir)
}

// Inside is the way into an environment with an InitSocket that another process of this
// machine created, in dir.
func Inside(host conn.Conn, agent, dir string) conn.Conn {
	return &Env{Host: host, Spec: driver.Spec{Agent: agent, Dir: dir}, info: driver.Info{Agent: AgentPath},
		In: []string{agent, "via", "--socket", path.Join(dir, hostSocketDir, initSocket)}, Run: agentcontainer.ViaHere}
}

// Init is the command line of the init process of an environment with an
// InitSocket, with more flags of `bakeoff-agent container-init`. silent is for
// init processes whose output nobody reads.
func Init(silent bool, flags ...string) []string {
	argv := append([]string{AgentPath, "container-init"}, flags...)
	if silent {
		argv = append(argv, "--silent")
	}
	return append(argv, path.Join(insideSocketDir, initSocket))
}

// InitSetup creates the volumes and the directory of the init socket, and starts
// the setup. It returns the setup and the bind mounts: the agent, the volumes and the
// socket. The setup itself mounts those for which early returns true; nil is none.
func (e *Env) InitSetup(ctx context.Context, early func(wire.Bind) bool) (g wire.Setup, binds []wire.Bind, err error) {
	volumes, err := e.Volumes(ctx)
	if err != nil {
		return g, nil, err
	}
	if g, err = e.Setup(ctx, false, false, volumes); err != nil {
		return g, nil, err
	}
	socket, err := e.InitSocket(ctx)
	for _, b := range append(e.Binds(volumes), socket) {
		if early != nil && early(b) {
			g.Root.Binds = append(g.Root.Binds, b)
		} else {
			binds = append(binds, b)
		}
	}
	e.Start(g)
	return g, binds, err
}

// InitRoot is InitSetup for a technology to which the root is a tree of mounts: the
// setup binds everything in it, and makes its /dev.
func (e *Env) InitRoot(ctx context.Context) (g wire.Setup, err error) {
	volumes, err := e.Volumes(ctx)
	if err != nil {
		return g, err
	}
	socket, err := e.InitSocket(ctx)
	if err != nil {
		return g, err
	}
	if g, err = e.Setup(ctx, false, true, volumes); err != nil {
		return g, err
	}
	g.Root.Dev, g.Root.Binds = true, append(g.Root.Binds, socket)
	e.Start(g)
	return g, nil
}

// HoldInit performs the setup g and starts p, which starts or becomes the init
// process and lives as long as the environment. When it returns nil, the init
// process runs and the agent has answered.
func (e *Env) HoldInit(ctx context.Context, g wire.Setup, p Program) error {
	err := e.SetUpThen(ctx, g, func(host conn.Conn, cmd conn.Cmd) error {
		_, _, err := e.Hold(ctx, host, cmd, initReady)
		return err
	}, p)
	e.Resident = err == nil
	return err
}

// proxiedInit is the command line of an init process behind a proxy.
func proxiedInit() []string { return []string{AgentPath, "container-init", "--silent", "-"} }

// proxy performs the setup g and continues, in the same process, as the proxy
// of the environment that argv starts; place are flags of `enter` for argv. The
// proxy connects the standard input of proxiedInit. It lives as long as the
// environment, outside its control group, and sleeps while no client connects.
// If the controller is killed, the proxy, the init process and the environment
// end. When proxy returns nil, the init process runs.
func (e *Env) proxy(ctx context.Context, g wire.Setup, place, argv []string) error {
	flags := append([]string{"--proxy", path.Join(e.Dir(hostSocketDir), initSocket)}, place...)
	if e.Group != nil {
		flags = append(flags, e.Group.EnterArgs()...)
	}
	return e.SetUpThen(ctx, g, func(host conn.Conn, cmd conn.Cmd) error {
		cmd.Group = ""
		_, _, err := e.Hold(ctx, host, cmd, initReady)
		return err
	}, Program{Flags: flags, Argv: argv})
}

// initReady tells from the output of a holder whether the init process is
// ready: it prints a line of its own.
func initReady(_, errs []byte) bool {
	return bytes.Contains(append([]byte("\n"), errs...), []byte("\n"+wire.PauseReady))
}

// InitOf is the init process of an environment of this machine among the processes of its
// control group, or 0. Some technologies have programs of the host in that group, too.
func InitOf(pids []int) int {
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(status)) {
			// The numbers of the process here and in its namespace: proc_pid_status(5).
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if f := strings.Fields(ids); len(f) == 2 && f[1] == "1" {
					return pid
				}
			}
		}
	}
	return 0
}
