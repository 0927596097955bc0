package vm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lock"
	"bakeoff/provision/disk"
	"bakeoff/provision/image/unpack"
	"bakeoff/reach/conn"
)

// Snapshot is a guest at a moment: its disks or the files that its programs have written,
// its manifest with the metadata, the variables of its firmware, and the memory of a machine that ran. It is the folder
// snapshots/ID of the guest. The disks keep it in their own files, under the tag ID.
type Snapshot struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Created time.Time `json:"created_at"`
	State   State     `json:"state"` // of the guest
	Memory  bool      `json:"memory,omitempty"`
}

// The files of snapshots.
const (
	dirSnapshots = "snapshots"
	fileSnapshot = "snapshot.json"
	fileMemory   = "memory.qcow2"
	dirWritten   = "written" // of a container
)

var snapshotName = lazy.Compile(`^[A-Za-z0-9_.:%-]{1,64}$`)

// readSnapshots reads the snapshots of the guest, the oldest first.
func (g *Guest) readSnapshots() error {
	g.Snapshots = nil
	entries, err := os.ReadDir(g.Path(dirSnapshots))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if isLeftover(e.Name()) {
			continue
		}
		var s Snapshot
		rerr := readJSON(g.Path(filepath.Join(dirSnapshots, e.Name(), fileSnapshot)), &s)
		if rerr == nil && s.ID != e.Name() {
			rerr = fault.New(fault.Lab, "the folder of snapshot %s contains the description of another snapshot, "+
				"%q", e.Name(), s.ID)
		}
		if errors.Is(rerr, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err = errors.Join(err, rerr); rerr == nil {
			g.Snapshots = append(g.Snapshots, s)
		}
	}
	slices.SortFunc(g.Snapshots, func(a, b Snapshot) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return err
}

// snapshot finds a snapshot by its name.
func (g *Guest) snapshot(name string) (Snapshot, error) {
	if err := g.readSnapshots(); err != nil {
		return Snapshot{}, err
	}
	i := slices.IndexFunc(g.Snapshots, func(s Snapshot) bool { return s.Name == name })
	if i < 0 {
		return Snapshot{}, fault.WithFix(fault.New(fault.NotFound, "guest %s has no snapshot %q", g.UUID, name),
			"run `bakeoff vm list -o alias,snapshots`")
	}
	return g.Snapshots[i], nil
}

// alone takes the lock of the supervisor, so that none starts. Its caller holds the lock for
// changes, and the guest does not run.
func (g *Guest) alone() (*lock.Lock, error) {
	held, err := lock.Try(g.Path(fileLife))
	if errors.Is(err, lock.ErrHeld) {
		err = fault.WithFix(fault.New(fault.Unsupported, "guest %s is starting or stopping", g.UUID), "try again")
	}
	return held, err
}

// ownDisks are the indexes of the disks that belong to the guest, and their files. It is an
// error if the guest writes to another one.
func (g *Guest) ownDisks(b Boot) (at []int, files []string, err error) {
	for i, d := range b.Disks {
		switch {
		case d.CDROM: // nobody writes to it
		case d.Format == "raw" && !filepath.IsAbs(d.Path):
			return nil, nil, fault.WithFix(fault.New(fault.Unsupported, "disks.%d: guests of %s have raw disks, which "+
				"bakeoff can neither snapshot nor send", i, hypervisorOf(g.Driver)), "stop the guest and copy "+g.Path(d.Path))
		case !filepath.IsAbs(d.Path):
			at, files = append(at, i), append(files, g.Path(d.Path))
		default:
			return nil, nil, fault.WithFix(fault.New(fault.Unsupported,
				"disks.%d: %s is not in the folder of the guest, so a snapshot cannot include it", i, d.Path),
				"copy this file yourself")
		}
	}
	return at, files, nil
}

// CreateSnapshot keeps the guest as it is now under a name. A container stands still while
// what it has written is copied, a machine while its memory is.
func (g *Guest) CreateSnapshot(ctx context.Context, name string) error {
	if !snapshotName.MatchString(name) {
		return fault.WithFix(fault.New(fault.Invalid, "%q is not the name of a snapshot", name),
			"write 1 to 64 of the characters A-Z a-z 0-9 - _ . : %")
	}
	if err := g.noJail("snapshot"); err != nil {
		return err
	}
	held, err := g.change(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	if _, err := g.snapshot(name); err == nil {
		return fault.WithFix(fault.New(fault.Invalid, "guest %s has a snapshot %q already", g.UUID, name),
			"write another name, or delete that one")
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	if g.Supervisor != 0 {
		err = g.ask(ctx, request{Do: "snapshot", Name: name})
	} else {
		err = g.whileStopped(ctx, func() error { return g.takeSnapshot(ctx, name, nil) })
	}
	if err == nil {
		err = record(g.Path(""), EventSnapshot, name, "")
	}
	return errors.Join(fault.Op("snapshot", err), g.readSnapshots())
}

// whileStopped does something with a guest that does not run, and keeps it from running.
func (g *Guest) whileStopped(ctx context.Context, do func() error) error {
	alone, err := g.alone()
	if err != nil {
		return err
	}
	defer alone.Release()
	if err := g.store.reap(ctx, g); err != nil {
		return err
	}
	if err := g.sweepSnapshots(ctx, g.dropTag); err != nil {
		return err
	}
	return do()
}

// takeSnapshot makes a snapshot. in is the guest that runs; nil if it does not. Its caller
// holds the lock of the supervisor.
func (g *Guest) takeSnapshot(ctx context.Context, name string, in instance) (err error) {
	s := Snapshot{Name: name, ID: NewUUID(), Created: time.Now().UTC(), State: g.State}
	making := g.Path(filepath.Join(dirSnapshots, beingMade+s.ID))
	if err := os.MkdirAll(making, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			drop := g.dropTag
			if in != nil {
				drop = in.dropSnapshot
			}
			err = errors.Join(err, g.sweepSnapshots(context.WithoutCancel(ctx), drop))
		}
	}()
	for _, f := range []string{fileManifest, fileBoot} {
		b, err := os.ReadFile(g.Path(f))
		if err == nil {
			err = atomicfile.Write(filepath.Join(making, f), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if in != nil {
		s.Memory, err = in.saveSnapshot(ctx, s.ID, making)
	} else {
		err = g.keepFiles(ctx, s.ID, making)
	}
	if err == nil { // after the memory, which has the variables, too
		err = g.keepVariables(ctx, making)
	}
	if err == nil {
		err = writeJSON(filepath.Join(making, fileSnapshot), s)
	}
	if err == nil {
		err = unpack.Sync(making)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	return atomicfile.Rename(making, g.Path(filepath.Join(dirSnapshots, s.ID)))
}

// keepFiles keeps the disks, or what the programs of a container have written.
func (g *Guest) keepFiles(ctx context.Context, id, dir string) error {
	if !g.Brand.Machine() {
		upper, err := g.WrittenRoot(ctx)
		if err != nil {
			return err
		}
		return g.copyWritten(ctx, upper, filepath.Join(dir, dirWritten))
	}
	_, files, err := g.bootDisks()
	for _, f := range files {
		if err == nil {
			err = disk.Snapshot(ctx, g.store.Host, f, id)
		}
	}
	return err
}

// bootDisks is ownDisks of what the guest starts from.
func (g *Guest) bootDisks() ([]int, []string, error) {
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		return nil, nil, err
	}
	return g.ownDisks(b)
}

// copyWritten copies the written part of a container, which may be missing. Blocks are shared
// where the file system can.
func (g *Guest) copyWritten(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err := conn.AdminOutput(ctx, g.store.Host, nil, "cp", "-a", "--reflink=auto", "--sparse=auto", "-T", from, to)
	return err
}

// dropTag removes a snapshot from the disks of a guest that does not run.
func (g *Guest) dropTag(ctx context.Context, id string) error {
	if !g.Brand.Machine() {
		return nil
	}
	_, files, err := g.bootDisks()
	if err != nil {
		return err
	}
	for _, f := range files {
		tags, err := disk.Snapshots(ctx, g.store.Host, f)
		if err == nil && slices.Contains(tags, id) {
			err = disk.DropSnapshot(ctx, g.store.Host, f, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepSnapshots removes snapshots that killed commands left half made or half removed.
func (g *Guest) sweepSnapshots(ctx context.Context, drop func(context.Context, string) error) error {
	entries, err := os.ReadDir(g.Path(dirSnapshots))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !isLeftover(e.Name()) || err != nil {
			continue
		}
		id := strings.TrimPrefix(strings.TrimPrefix(e.Name(), beingMade), beingRemoved)
		if err = drop(ctx, id); err == nil {
			err = os.RemoveAll(g.Path(filepath.Join(dirSnapshots, e.Name())))
		}
		if err == nil {
			err = g.sweepDisks()
		}
	}
	return fault.Op("remove a snapshot", err)
}

// DeleteSnapshot removes a snapshot. The guest stays as it is.
func (g *Guest) DeleteSnapshot(ctx context.Context, name string) error {
	held, err := g.change(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	s, err := g.snapshot(name)
	if err != nil {
		return err
	}
	if g.Supervisor != 0 {
		err = g.ask(ctx, request{Do: "drop-snapshot", Name: s.ID})
	} else {
		err = g.whileStopped(ctx, func() error { return g.loseSnapshot(ctx, s.ID, g.dropTag) })
	}
	if err == nil {
		err = record(g.Path(""), EventDrop, name, "")
	}
	return errors.Join(fault.Op("delete the snapshot", err), g.readSnapshots())
}

func (g *Guest) loseSnapshot(ctx context.Context, id string, drop func(context.Context, string) error) error {
	dir := g.Path(dirSnapshots)
	if err := atomicfile.Rename(filepath.Join(dir, id), filepath.Join(dir, beingRemoved+id)); err != nil {
		return err
	}
	return g.sweepSnapshots(ctx, drop)
}

// Rollback gives the guest back what it was at a snapshot: its disks, its manifest and its
// metadata, all of it or, until that has begun, nothing. The guest is ended by force. Other
// snapshots stay. It then runs if it ran at the snapshot: a machine continues with its memory.
func (g *Guest) Rollback(ctx context.Context, name string, launch func(uuid string) error) error {
	held, err := g.change(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	s, err := g.snapshot(name)
	if err != nil {
		return err
	}
	if err := g.end(ctx, Stop{Force: true}); err != nil {
		return err
	}
	if err := g.whileStopped(ctx, func() error { return g.rollBack(ctx, s) }); err != nil {
		return fault.Op("roll back", err)
	}
	if err := g.reopen(); err != nil || s.State != Running {
		return err
	}
	if err := launch(g.UUID); err != nil {
		return err
	}
	return g.refreshUnlessRemoved()
}

// rollBack prepares what makeNext does.
func (g *Guest) rollBack(ctx context.Context, s Snapshot) error {
	from := g.Path(filepath.Join(dirSnapshots, s.ID))
	n := next{Event: EventRollback, Name: s.Name, Tag: s.ID, Memory: s.Memory}
	var b Boot
	if err := errors.Join(readJSON(filepath.Join(from, fileManifest), &n.Guest),
		readJSON(filepath.Join(from, fileBoot), &b)); err != nil {
		return err
	}
	_, files, err := g.ownDisks(b)
	if err != nil {
		return err
	}
	for _, f := range files { // before anything is changed
		tags, err := disk.Snapshots(ctx, g.store.Host, f)
		if err != nil {
			return err
		}
		if !slices.Contains(tags, s.ID) {
			return fault.New(fault.Lab, "%s has no snapshot %s: the file was replaced", f, s.ID)
		}
	}
	if newVariables(n.Guest) != "" {
		n.Disks = []string{fileVariables}
	}
	return g.become(ctx, n, b, func(dir string) error {
		if g.Brand.Machine() {
			return errors.Join(g.recompress(ctx, n.Guest), g.replaceVariables(ctx, n.Guest, from, dir))
		}
		written, err := g.nextWritten(ctx)
		if err != nil {
			return err
		}
		return g.copyWritten(ctx, filepath.Join(from, dirWritten), written)
	})
}

// reopen reads the guest again.
func (g *Guest) reopen() error {
	again, err := g.store.open(g.UUID)
	if err == nil {
		*g = *again
	}
	return err
}
