package qemu

import (
	"context"
	"fmt"
)

// The names of devices that the firmware can start from.
func deviceOfDisk(i int) string { return fmt.Sprintf("drive%d", i) }
func deviceOfCard(i int) string { return fmt.Sprintf("card%d", i) }

// bootIndexes are the places of devices in an order, by their names: the first has 0.
func (m *Machine) bootIndexes(order string) map[string]int {
	out := map[string]int{}
	add := func(device string) { out[device] = len(out) }
	if order == "" {
		for i, d := range m.Disks {
			if d.Boots {
				out[deviceOfDisk(i)] = 0
			}
		}
		return out
	}
	for _, kind := range order {
		switch kind {
		case 'c', 'd':
			for _, marked := range []bool{true, false} {
				for i, d := range m.Disks {
					if d.Boots == marked && d.CDROM == (kind == 'd') && d.Folder == "" {
						add(deviceOfDisk(i))
					}
				}
			}
		case 'n':
			for i := range m.Cards {
				add(deviceOfCard(i))
			}
		}
	}
	return out
}

// bootArg is the place of a device in QEMU's form. The device has a name if its place changes.
func (m *Machine) bootArg(device string, indexes map[string]int) (arg string) {
	if m.Once != "" {
		arg = ",id=" + device
	}
	if i, ok := indexes[device]; ok {
		arg += fmt.Sprintf(",bootindex=%d", i)
	}
	return arg
}

// BootOnce lets a machine with Once run. From its first restart on, it starts from Order.
//
// Source: QEMU, docs/bootindex.txt and softmmu/bootdevice.c; firmware reads the order at a reset.
func (g *Guest) BootOnce(ctx context.Context) error {
	set := func(device string, index int) error {
		return g.Execute(ctx, "qom-set", map[string]any{"path": "/machine/peripheral/" + device, "property": "bootindex",
			"value": index}, nil)
	}
	for device := range g.bootIndexes(g.Once) { // two devices never have one place
		if err := set(device, -1); err != nil {
			return err
		}
	}
	for device, index := range g.bootIndexes(g.Order) {
		if err := set(device, index); err != nil {
			return err
		}
	}
	return g.Execute(ctx, "cont", nil, nil)
}
