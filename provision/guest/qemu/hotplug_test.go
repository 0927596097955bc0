package qemu

import (
	"slices"
	"testing"

	"bakeoff/base/unit"
)

// A machine with slots has its disks in them, and the places of its other devices stay.
func TestSlots(t *testing.T) {
	m := Machine{Program: Program, Kind: Q35, CPUs: 1, Memory: unit.GiB, Dir: "/d", Accel: TCG, Slots: 2, Disks: []Disk{
		{Path: "/a", Format: "qcow2", Controller: VirtioBlk, Serial: "a"},
		{Path: "/b", Format: "qcow2", Controller: VirtioBlk, Serial: "b", Slot: 2},
		{Path: "/c", Format: "qcow2", Controller: NVMe, Serial: "c", Slot: 1}}}
	argv := m.CommandLine()
	last := -1
	for _, want := range []string{"pcie-root-port,id=slot1,bus=pcie.0,addr=0x18,chassis=1,slot=1",
		"pcie-root-port,id=slot2,bus=pcie.0,addr=0x19,chassis=2,slot=2", "virtio-blk-pci,drive=disk0,serial=a",
		"virtio-blk-pci,drive=disk1,serial=b,bus=slot2", "nvme,drive=disk2,serial=c,bus=slot1"} {
		at := slices.Index(argv, want)
		if at <= last {
			t.Errorf("%s is not behind the others in %q", want, argv)
		}
		last = at
	}
	for slots, want := range map[int]int{0: 0, 1: 0, 2: 0, 3: 3} {
		if got := FreeSlot(slots, m.Disks); got != want {
			t.Errorf("the free slot of %d is %d instead of %d", slots, got, want)
		}
	}
	if got := FreeSlot(2, m.Disks[:2]); got != 1 {
		t.Errorf("the free slot is %d", got)
	}
}
