package vm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/provision/disk"
	"bakeoff/provision/driver"
)

// emptyMemory is the size of the disk in a file for the memory of a machine, in bytes. QEMU
// writes the memory behind it.
const emptyMemory = 1 << 20

func (m *machine) saveSnapshot(ctx context.Context, id, dir string) (memory bool, err error) {
	if len(m.v.extra.Disks) > 0 { // without them, the memory fits no machine
		return false, fault.WithFix(fault.New(fault.Unsupported, "the machine was started with extra disks that "+
			"its manifest does not name"),
			"run `bakeoff vm reboot "+m.v.g.UUID+"`")
	}
	if len(m.v.daemons) > 0 {
		return false, fault.WithFix(fault.New(fault.Unsupported, "the machine uses folders over virtiofs, and "+
			"QEMU cannot save the state of virtiofs"), "run `bakeoff vm stop "+m.v.g.UUID+"` first")
	}
	if err := m.fits(); err != nil {
		return false, err
	}
	at, _, err := m.v.g.ownDisks(m.v.boot)
	if err != nil {
		return false, err
	}
	file := filepath.Join(dir, fileMemory)
	if err := disk.Empty(ctx, m.Host, file, "qcow2", emptyMemory); err != nil {
		return false, err
	}
	return true, m.SaveSnapshot(ctx, id, file, at)
}

func (m *machine) dropSnapshot(ctx context.Context, id string) error {
	at, files, err := m.v.g.ownDisks(m.v.boot)
	if err != nil || len(files) == 0 {
		return err
	}
	return m.DropSnapshot(ctx, id, at)
}

// resumes is the file with the memory that the guest starts with; "" if it boots.
func (g *Guest) resumes() (string, error) {
	var id string
	err := readJSON(g.Path(fileResume), &id)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	file := g.Path(filepath.Join(dirSnapshots, filepath.Base(id), fileMemory))
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) { // the snapshot was deleted
		return "", os.Remove(g.Path(fileResume))
	}
	return file, nil
}

// resume gives a machine that stands still the memory of a snapshot, and lets it run. A guest
// whose memory does not fit any more boots the next time.
func (m *machine) resume(ctx context.Context, file string) error {
	at, _, err := m.v.g.ownDisks(m.v.boot)
	if err == nil {
		err = m.LoadSnapshot(ctx, filepath.Base(filepath.Dir(file)), file, at)
	}
	if rerr := os.Remove(m.v.g.Path(fileResume)); err == nil {
		err = rerr
	}
	if err != nil {
		return fault.WithFix(fault.Op("load the memory of the snapshot", err),
			"run `bakeoff vm start "+m.v.g.UUID+"`, which boots the guest from its disks")
	}
	return m.Execute(ctx, "cont", nil, nil)
}

// saveSnapshot copies what the programs of a container have written, while they are frozen.
func (c *container) saveSnapshot(ctx context.Context, _, dir string) (memory bool, err error) {
	f, ok := c.Instance.(driver.Freezer)
	if !ok {
		return false, fault.New(fault.Unsupported, "the container cannot be frozen")
	}
	if err := f.Freeze(ctx); err != nil {
		return false, err
	}
	g := c.v.g
	upper, err := g.WrittenRoot(ctx)
	if err == nil {
		err = g.copyWritten(ctx, upper, filepath.Join(dir, dirWritten))
	}
	return false, errors.Join(err, f.Thaw(context.WithoutCancel(ctx)))
}

func (c *container) dropSnapshot(context.Context, string) error { return nil }
