package vm

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/disk"
	"bakeoff/provision/image/unpack"
	"bakeoff/provision/vm/manifest"
)

// next is what a guest becomes as a whole: disks, manifest and metadata. It is prepared in a
// folder of the guest. When the folder gets its name, the guest is the next one: whoever
// finds the folder, also after a kill or a power cut, does the rest, and can repeat it.
type next struct {
	ID    string         `json:"id"`
	Event EventType      `json:"event"`
	Name  string         `json:"name,omitempty"` // of a snapshot
	Guest manifest.Guest `json:"guest"`
	// Tag is the snapshot to which the disks return; "" if they do not.
	Tag    string `json:"tag,omitempty"`
	Memory bool   `json:"memory,omitempty"` // the snapshot has the memory, too
	// Disks are the files in the folder, of disks and of fileVariables, that replace those of the guest.
	Disks []string `json:"disks,omitempty"`
	// Grow are the sizes in bytes of the disks that become larger.
	Grow map[string]int64 `json:"grow,omitempty"`
	// Written tells that the folder nextWritten becomes the written part of a container.
	// Without it, the container has written nothing.
	Written bool `json:"written,omitempty"`
	// Live tells that the guest may run meanwhile: its supervisor then does the rest.
	Live bool `json:"live,omitempty"`
	// Forget removes the snapshots, which belong to disks that are replaced.
	Forget bool `json:"forget,omitempty"`
}

const (
	dirNext    = "next"
	fileNext   = "next.json"
	fileResume = "resume.json" // a snapshot whose memory the guest starts with
)

// nextWritten is the written part of a container that becomes the next one.
func (g *Guest) nextWritten(ctx context.Context) (string, error) {
	upper, err := g.WrittenRoot(ctx)
	return upper + ".next", err
}

// become makes the guest the next one. fill prepares files in the folder. Until it returns,
// nothing has changed. Its caller holds the lock for changes and that of the supervisor.
func (g *Guest) become(ctx context.Context, n next, b Boot, fill func(dir string) error) error {
	if err := g.prepare(ctx, n, b, fill); err != nil {
		return err
	}
	return g.finish(context.WithoutCancel(ctx))
}

// prepare is the part of become that can fail: the guest is the next one when it returns without an error.
func (g *Guest) prepare(ctx context.Context, n next, b Boot, fill func(dir string) error) error {
	dir := g.Path(beingMade + dirNext)
	if err := g.freeHalf(ctx); err != nil {
		return err
	}
	written, err := g.nextWritten(ctx)
	if err != nil {
		return err
	}
	clear := func() error { return errors.Join(os.RemoveAll(dir), os.RemoveAll(written)) }
	if err := errors.Join(clear(), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	err = g.liftQuota(ctx)
	if err == nil {
		err = fill(dir)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		_, serr := os.Stat(written)
		n.ID, n.Written = NewUUID(), serr == nil
		err = errors.Join(writeJSON(filepath.Join(dir, fileNext), n), writeJSON(filepath.Join(dir, fileBoot), b))
	}
	if err == nil {
		err = g.commit(ctx, n.Guest, dir)
	}
	if err != nil {
		return errors.Join(err, clear())
	}
	return nil
}

// commit gives the prepared folder its name, unless another guest has taken an address.
func (g *Guest) commit(ctx context.Context, m manifest.Guest, dir string) error {
	whole, err := g.store.exclusive(ctx)
	if err != nil {
		return err
	}
	defer whole.Release()
	others, err := g.store.List()
	if err == nil {
		err = conflict(m, others)
	}
	if err != nil {
		return err
	}
	if err := unpack.Sync(dir); err != nil {
		return err
	}
	return atomicfile.Rename(dir, g.Path(dirNext))
}

// finish does the rest of become. It can be repeated after it was killed at any moment. Its
// caller holds the lock of the supervisor.
func (g *Guest) finish(ctx context.Context) error {
	dir := g.Path(dirNext)
	var b Boot
	n, err := g.coming()
	if n == nil || err != nil {
		return err
	}
	if err := readJSON(filepath.Join(dir, fileBoot), &b); err != nil {
		return err
	}
	for _, name := range n.Disks {
		if err := os.Rename(filepath.Join(dir, name), g.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if n.Tag != "" {
		_, files, err := g.ownDisks(b)
		for _, f := range files {
			if err == nil {
				err = disk.Revert(ctx, g.store.Host, f, n.Tag)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Grow)) {
		if err := disk.Grow(ctx, g.store.Host, g.Path(name), formatOf(g.Driver), n.Grow[name]); err != nil {
			return err
		}
	}
	switch {
	case jailed(g.Guest): // its next start makes another root
		if err := g.store.removeJail(ctx, g.UUID); err != nil {
			return err
		}
	case !g.Brand.Machine():
		if err := g.replaceWritten(ctx, n.Written); err != nil {
			return err
		}
	}
	if n.Forget {
		if err := os.RemoveAll(g.Path(dirSnapshots)); err != nil {
			return err
		}
	}
	if n.Memory {
		if err := writeJSON(g.Path(fileResume), n.Tag); err != nil {
			return err
		}
	} else if err := os.RemoveAll(g.Path(fileResume)); err != nil {
		return err
	}
	if err := errors.Join(writeJSON(g.Path(fileManifest), n.Guest), writeJSON(g.Path(fileBoot), b)); err != nil {
		return err
	}
	g.Guest = n.Guest
	if err := errors.Join(g.writeMetadata(), g.sweepDisks()); err != nil {
		return err
	}
	why := strings.TrimSpace(string(n.Event) + " " + n.Name)
	if err := errors.Join(writeTransition(g.Path(fileJournal), Transition{State: Stopped, Why: why}),
		record(g.Path(""), n.Event, n.Name, n.ID)); err != nil {
		return err
	}
	// The name first: half a folder is not a description.
	gone := g.Path(beingRemoved + dirNext)
	if err := errors.Join(os.RemoveAll(gone), atomicfile.Rename(dir, gone)); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// replaceWritten gives a container the written part that was prepared for it, if it is not in
// place already.
func (g *Guest) replaceWritten(ctx context.Context, prepared bool) error {
	upper, err := g.WrittenRoot(ctx)
	if err != nil {
		return err
	}
	if !prepared {
		return os.RemoveAll(upper)
	}
	coming, err := g.nextWritten(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(coming); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(upper), atomicfile.Rename(coming, upper))
}

// coming reads what the guest becomes; nil if it stays as it is.
func (g *Guest) coming() (*next, error) {
	var n next
	err := readJSON(g.Path(filepath.Join(dirNext, fileNext)), &n)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &n, err
}

// finishLeft finishes what a killed command has left, if there is something.
func (g *Guest) finishLeft(ctx context.Context) error {
	n, err := g.coming()
	if n == nil || err != nil {
		return err
	}
	held, err := lock.Try(g.Path(fileLife))
	if errors.Is(err, lock.ErrHeld) && n.Live {
		return g.ask(ctx, request{Do: "finish"})
	}
	if errors.Is(err, lock.ErrHeld) { // its supervisor finishes it first
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Release()
	if err := g.store.reap(ctx, g); err != nil {
		return err
	}
	return fault.Op("finish the work of a killed command", g.finish(context.WithoutCancel(ctx)))
}
