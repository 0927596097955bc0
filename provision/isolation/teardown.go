package isolation

import (
	"context"
	"path"
	"slices"

	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent/setup"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Here tells whether c leads to this machine.
func Here(c conn.Conn) bool {
	if w, ok := c.(interface{ Unwrap() conn.Conn }); ok {
		return Here(w.Unwrap())
	}
	_, ok := c.(local.Conn)
	return ok
}

// teardown removes the network namespace and the mounts: in this process on
// this machine, with one program elsewhere. ip(8) and umount(8) for each step
// take longer than all of it. The next steps remove what it leaves.
func (e *Env) teardown(ctx context.Context) {
	r := setup.Teardown{Netns: netns.Own(e.Spec.Label), Link: netns.Inside, Dir: e.unmounted()}
	if !Here(e.Host) {
		conn.Output(ctx, e.Host, r.Argv(e.Spec.Agent)...)
		return
	}
	done := make(chan struct{})
	go func() { // unmounting writes back, and that may take longer than ctx lasts
		defer close(done)
		r.Run()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// unmounted is the directory below which everything is unmounted. The daemon of
// a ZFS pool closes the pool later, and a client of NFS needs its server.
func (e *Env) unmounted() string {
	if slices.ContainsFunc(e.Spec.Volumes, func(v volume.Volume) bool {
		return v.Backing == volume.ZFS || v.Backing == volume.NFS
	}) {
		return path.Join(e.Spec.Dir, "root")
	}
	return path.Clean(e.Spec.Dir)
}
