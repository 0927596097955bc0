package confine

import (
	"context"
	"path"

	"bakeoff/agent"
	"bakeoff/conn"
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
