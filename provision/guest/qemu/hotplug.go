package qemu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"bakeoff/base/fault"
)

// idOfDisk is QEMU's name for the storage of disk i.
func idOfDisk(i int) string { return "disk" + strconv.Itoa(i) }

// slotArgs is the part of the command line with the slots. Their places on the bus are fixed, so that they
// change no place of other devices.
func (m *Machine) slotArgs() (argv []string) {
	for n := 1; n <= m.Slots; n++ {
		argv = append(argv, "-device", fmt.Sprintf("pcie-root-port,id=%s,bus=pcie.0,addr=%#x,chassis=%d,slot=%d",
			slotName(n), 0x17+n, n, n))
	}
	return argv
}

func slotName(n int) string { return "slot" + strconv.Itoa(n) }

// FreeSlot is the lowest slot from 1 to slots in which no disk is; 0 if there is none.
func FreeSlot(slots int, disks []Disk) int {
	for n := 1; n <= slots; n++ {
		if !slices.ContainsFunc(disks, func(d Disk) bool { return d.Slot == n }) {
			return n
		}
	}
	return 0
}

// TakesSlot tells whether disks of a controller can be in a slot.
func TakesSlot(controller string) bool { return controller == VirtioBlk || controller == NVMe }

// ErrNoSlot is the error of AddDisk for a disk that a machine cannot get while it runs.
var ErrNoSlot = errors.New("this disk cannot be added to a running machine")

// AddsDisk tells whether AddDisk can give the running machine a disk.
func (m *Machine) AddsDisk(d Disk) bool {
	driver, _ := m.placeOf(d)
	return driver != ""
}

// placeOf is where the running machine gets a disk; "" if it cannot get it.
func (m *Machine) placeOf(d Disk) (driver, bus string) {
	switch {
	case d.CDROM || d.Folder != "":
		return "", ""
	case d.Controller == VirtioSCSI &&
		slices.ContainsFunc(m.Disks, func(x Disk) bool { return x.Controller == VirtioSCSI }):
		return "scsi-hd", "scsi.0"
	case d.Slot <= 0 || d.Slot > m.Slots || !TakesSlot(d.Controller):
		return "", ""
	case d.Controller == VirtioBlk:
		return "virtio-blk-pci", slotName(d.Slot)
	}
	return d.Controller, slotName(d.Slot)
}

// AddDisk gives the running machine a disk, which becomes number i of its disks. A disk on the SCSI
// controller needs a machine that has it, any other one a slot.
func (g *Guest) AddDisk(ctx context.Context, i int, d Disk) error {
	device := map[string]any{"id": deviceOfDisk(i), "drive": idOfDisk(i), "serial": d.Serial}
	if d.LogicalBlock > 0 {
		device["logical_block_size"] = d.LogicalBlock
	}
	if d.PhysicalBlock > 0 {
		device["physical_block_size"] = d.PhysicalBlock
	}
	driver, bus := g.placeOf(d)
	if driver == "" {
		return ErrNoSlot
	}
	device["driver"], device["bus"] = driver, bus
	storage := map[string]any{"node-name": idOfDisk(i), "driver": d.Format,
		"file": map[string]any{"driver": "file", "filename": d.Path, "aio": d.AIO}}
	if err := g.Execute(ctx, "blockdev-add", storage, nil); err != nil {
		return err
	}
	err := g.Execute(ctx, "device_add", device, nil)
	if err != nil {
		return errors.Join(err, g.Execute(context.WithoutCancel(ctx), "blockdev-del",
			map[string]any{"node-name": idOfDisk(i)}, nil))
	}
	return nil
}

// ResizeDisk gives disk i of the running machine a size in bytes, also in its file.
func (g *Guest) ResizeDisk(ctx context.Context, i int, size int64) error {
	nodes, err := g.nodes(ctx, []int{i})
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return fault.New(fault.Lab, "the machine has no disk %d", i)
	}
	return g.Execute(ctx, "block_resize", map[string]any{"node-name": nodes[0], "size": size}, nil)
}

// nodes are QEMU's names for what is in some disks.
func (g *Guest) nodes(ctx context.Context, disks []int) (out []string, err error) {
	var drives []struct {
		Device   string
		Inserted *struct {
			Node string `json:"node-name"`
		}
	}
	if err := g.Execute(ctx, "query-block", nil, &drives); err != nil {
		return nil, err
	}
	for _, i := range disks {
		for _, d := range drives {
			if d.Inserted != nil && (d.Device == idOfDisk(i) || d.Inserted.Node == idOfDisk(i)) {
				out = append(out, d.Inserted.Node)
			}
		}
	}
	return out, nil
}
