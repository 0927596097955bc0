package kernel

import "slices"

// Lack is something that a kernel lacks for a microvm of QEMU, or for which it needs
// help.
type Lack struct {
	// Name is the option of the kernel's configuration, or what is missing.
	Name string `json:"name"`
	// State is Missing, Module (an initial RAM disk must load it) or Unknown.
	State State `json:"state"`
	// Effect is what that means.
	Effect string `json:"effect"`
	Fix    string `json:"fix"`
}

// mmioParameter is the parameter of the command line that names a virtio device. Linux
// reads it with CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES, NetBSD in kernels of the kind
// MICROVM.
const mmioParameter = "virtio_mmio.device"

// Feature returns the state of a feature.
func (i *Info) Feature(name string) State {
	for _, f := range i.Features {
		if f.Name == name {
			return f.State
		}
	}
	return Unknown
}

// Lacks lists what the kernel lacks for the machine microvm of QEMU, without PCI. Learn
// must have been called for a Linux kernel.
func (i *Info) Lacks() []Lack {
	if i.Arch != "amd64" && i.Arch != "386" {
		return []Lack{{Name: "x86", State: Missing,
			Effect: "the machine microvm exists for x86 alone, and this kernel is for " + i.Arch,
			Fix:    "boot it with the machine virt of qemu-system for " + i.Arch}}
	}
	lacks := i.lacksEntry()
	if i.Compression != "" {
		lacks = append(lacks, Lack{Name: "unpacked file", State: Missing,
			Effect: "QEMU does not load a kernel that is compressed as a whole (" + i.Compression + ")",
			Fix:    "unpack it, for example with gunzip or zcat, and name the unpacked file"})
	}
	if i.System != Linux {
		if !i.params {
			state := Unknown
			if i.System == NetBSD && i.ELF != nil {
				state = Missing
			}
			lacks = append(lacks, Lack{Name: mmioParameter, State: state,
				Effect: "the kernel does not contain the name of the parameter, so it finds no device that way",
				Fix:    "use a kernel that is built for microvm (MICROVM of NetBSD), or a machine with PCI"})
		}
		return lacks
	}
	for _, f := range []struct{ name, effect string }{
		{"VIRTIO_MMIO", "the kernel finds none of the devices of a microvm"},
		{"VIRTIO_BLK", "the kernel finds no disk"},
		{"VIRTIO_CONSOLE", "the guest has no port for the agent"},
		{"EXT4_FS", "the kernel cannot mount the root of a disk"},
	} {
		switch i.Feature(f.name) {
		case Missing:
			lacks = append(lacks, Lack{Name: f.name, State: Missing, Effect: f.effect,
				Fix: "use a kernel with CONFIG_" + f.name})
		case Module:
			lacks = append(lacks, Lack{Name: f.name, State: Module, Effect: "without it " + f.effect,
				Fix: "load the module from the initial RAM disk, as the driver qemu does"})
		case Unknown:
			lacks = append(lacks, unknown(f.name, f.effect))
		}
	}
	const named = "VIRTIO_MMIO_CMDLINE_DEVICES"
	effect := "the kernel finds virtio devices through ACPI alone"
	switch i.Feature(named) {
	case Missing:
		lacks = append(lacks, Lack{Name: named, State: Missing, Effect: effect,
			Fix: "leave ACPI on (the default), or use a kernel with CONFIG_" + named})
	case Unknown:
		lacks = append(lacks, unknown(named, effect))
	}
	return lacks
}

// lacksEntry tells what is missing to start the kernel without firmware.
func (i *Info) lacksEntry() []Lack {
	switch {
	case slices.Contains(i.Boots, BootPVH):
		return nil
	case i.Format == BzImage && i.ELF == nil:
		return []Lack{unknown("PVH", "only the bzImage can be booted, not the ELF kernel in it")}
	case i.Format == BzImage:
		return []Lack{{Name: "PVH", State: Missing, Effect: "only the bzImage can be booted, not the ELF kernel in it",
			Fix: "boot the bzImage, or use a kernel with CONFIG_PVH"}}
	case i.ELF != nil && i.ELF.Bits == 32 && slices.Contains(i.Boots, BootMultiboot):
		return nil // QEMU refuses Multiboot for 64-bit files
	case i.Format == Multiboot && slices.Contains(i.Boots, BootMultiboot):
		return nil
	}
	return []Lack{
		{Name: "PVH", State: Missing, Effect: "QEMU does not load this kernel: no note names an entry for PVH",
			Fix: "use a kernel with the note (CONFIG_PVH of Linux, GENERIC or MICROVM of NetBSD), or boot a disk with " +
				"a boot loader"},
	}
}

func unknown(name, effect string) Lack {
	return Lack{Name: name, State: Unknown, Effect: "without it " + effect,
		Fix: "name the configuration (--config) or the modules (--modules) of the kernel"}
}
