package confine

import (
	"bytes"
	"context"
	"path"

	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Where a porter's socket is: on the host below the environment's directory,
// and inside.
const (
	hostDoor   = "door"
	insideDoor = "/.bakeoff/door"
	doorSocket = "porter"
)

// Door makes the directory of a porter's socket, and has programs go in by it:
// they are started inside, by the first process, and so have all that the
// technology gives it – what is entered from outside by setns(2) has neither
// the filter of system calls nor the bounds on capabilities – at the price of
// one small program. A technology's own exec gives the same, and takes as long
// as another creation. The directory is to be bound as told; the first process
// is Porter's.
func (e *Env) Door(ctx context.Context) (agent.Bind, error) {
	dir := e.Dir(hostDoor)
	e.In = []string{e.Spec.Agent, "via", "--socket", path.Join(dir, doorSocket)}
	if _, ok := e.Host.(local.Conn); ok {
		e.Run = agent.ViaHere
	}
	return agent.Bind{From: dir, To: insideDoor}, conn.FilesOf(e.Host).Mkdir(ctx, dir)
}

// Porter is the first process of an environment with a Door, as its arguments
// inside, with more flags of `bakeoff-agent porter`. silent: nobody reads what
// it says.
func Porter(silent bool, flags ...string) []string {
	argv := append([]string{AgentPath, "porter"}, flags...)
	if silent {
		argv = append(argv, "--silent")
	}
	return append(argv, path.Join(insideDoor, doorSocket))
}

// Stand makes the volumes and the door of an environment, and describes what it
// stands on and what is bound into it: the agent, the volumes, the door.
func (e *Env) Stand(ctx context.Context) (g agent.Ground, binds []agent.Bind, err error) {
	volumes, err := e.Volumes(ctx)
	if err != nil {
		return g, nil, err
	}
	if g, err = e.Ground(ctx, false, false, volumes); err != nil {
		return g, nil, err
	}
	door, err := e.Door(ctx)
	return g, append(e.Binds(volumes), door), err
}

// HoldPorter makes what g describes and goes on, in the same process, with
// `enter` and args to a program that has a Porter as its child or becomes one,
// and lives as long as the environment. The porter has told that it runs when
// this returns, and with it the agent has answered.
func (e *Env) HoldPorter(ctx context.Context, g agent.Ground, args ...string) error {
	err := e.LayThen(ctx, g, func(cmd conn.Cmd) error {
		_, _, err := e.Hold(ctx, cmd, atTheDoor)
		return err
	}, args...)
	e.Resident = err == nil
	return err
}

// ushered is the first process of an environment into which an usher brings
// who comes.
func ushered() []string { return []string{AgentPath, "porter", "--silent", "-"} }

// usher makes what g describes and goes on, in the same process, as the usher
// of the environment that argv starts in the place that flags of `enter`
// describe, to which it gives ushered a standard input. It stays as long as the
// environment does, outside its control group, and sleeps while nobody comes. When the controller is killed it ends, and
// with it the porter and the environment. The porter has told that it runs
// when this returns.
func (e *Env) usher(ctx context.Context, g agent.Ground, place, argv []string) error {
	args := append([]string{"--usher", path.Join(e.Dir(hostDoor), doorSocket)}, place...)
	if e.Group != nil {
		args = append(args, e.Group.EnterArgs()...)
	}
	return e.LayThen(ctx, g, func(cmd conn.Cmd) error {
		cmd.Group = ""
		_, _, err := e.Hold(ctx, cmd, atTheDoor)
		return err
	}, append(append(args, "--"), argv...)...)
}

// atTheDoor tells from what a holder has said whether its porter is there: a
// line of its own, before or after what others say.
func atTheDoor(_, errs []byte) bool {
	return bytes.Contains(append([]byte("\n"), errs...), []byte("\n"+agent.PauseReady))
}
