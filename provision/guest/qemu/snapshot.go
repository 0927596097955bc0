package qemu

import (
	"context"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/provision/guest"
)

// memoryNode is QEMU's name for the file with the memory of a snapshot, while it is open.
const memoryNode = "memory"

// Snapshots of a machine that runs. QEMU keeps the disks in their files under a tag, and the
// memory with the state of the devices in a file of its own, an empty qcow2 file until then.
// disks are indexes of Machine.Disks; the others are left out.
//
// Source: QEMU, qapi/migration.json (snapshot-save, snapshot-load, snapshot-delete).

// SaveSnapshot saves the machine, which stands still meanwhile and runs on.
func (g *Guest) SaveSnapshot(ctx context.Context, tag, memory string, disks []int) error {
	return g.withMemory(ctx, memory, func() error { return g.snapshotJob(ctx, "snapshot-save", tag, true, disks) })
}

// LoadSnapshot gives the machine the state of a snapshot. It stands still before and after.
func (g *Guest) LoadSnapshot(ctx context.Context, tag, memory string, disks []int) error {
	return g.withMemory(ctx, memory, func() error { return g.snapshotJob(ctx, "snapshot-load", tag, true, disks) })
}

// DropSnapshot removes a snapshot from the disks.
func (g *Guest) DropSnapshot(ctx context.Context, tag string, disks []int) error {
	if len(disks) == 0 {
		return nil
	}
	return g.snapshotJob(ctx, "snapshot-delete", tag, false, disks)
}

// withMemory does something while a file is open as memoryNode.
func (g *Guest) withMemory(ctx context.Context, file string, do func() error) error {
	add := map[string]any{"driver": "qcow2", "node-name": memoryNode,
		"file": map[string]any{"driver": "file", "filename": file}}
	if err := g.Execute(ctx, "blockdev-add", add, nil); err != nil {
		return err
	}
	err := do()
	remove := map[string]any{"node-name": memoryNode}
	if rerr := g.Execute(context.WithoutCancel(ctx), "blockdev-del", remove, nil); err == nil {
		err = rerr
	}
	return err
}

// snapshotJob starts a job of QEMU and waits for its end. It can take as long as the writing
// of the whole memory. The end of ctx ends the wait, not the job.
func (g *Guest) snapshotJob(ctx context.Context, command, tag string, memory bool, disks []int) error {
	var devices []string
	if memory {
		devices = append(devices, memoryNode)
	}
	nodes, err := g.nodes(ctx, disks)
	if err != nil {
		return err
	}
	devices = append(devices, nodes...)
	args := map[string]any{"job-id": command + "-" + tag, "tag": tag, "devices": devices}
	if memory {
		args["vmstate"] = memoryNode
	}
	if err := g.Execute(ctx, command, args, nil); err != nil {
		return err
	}
	for {
		var jobs []struct{ ID, Status, Error string }
		if err := g.Execute(ctx, "query-jobs", nil, &jobs); err != nil {
			return err
		}
		for _, j := range jobs {
			if j.ID != command+"-"+tag || j.Status != "concluded" {
				continue
			}
			if err := g.Execute(ctx, "job-dismiss", map[string]any{"id": j.ID}, nil); err != nil {
				return err
			}
			if j.Error != "" {
				return fault.New(fault.Lab, "qmp: %s: %s", command, j.Error)
			}
			return nil
		}
		if err := sleep.For(ctx, guest.Poll); err != nil {
			return err
		}
	}
}
