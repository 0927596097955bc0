// Package qemu creates virtual machines with QEMU: guests of provision/guest/qemu that
// end with their lease.
//
// The guest boots a kernel directly. bakeoff-agent is its process 1 and answers
// on a virtio port, so a guest needs neither a shell nor a network. Its root is
// the image's file system on a virtio disk; changes go to an unnamed temporary
// file of QEMU.
//
// The driver selects the accelerator by running a guest, never by the existence
// of /dev/kvm, and reads it back from QEMU.
package qemu

import (
	"slices"

	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/volume"
)

// Driver is the driver. The zero value is ready for use.
type Driver struct{}

// New returns the driver.
func New() driver.Driver { return Driver{} }

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name: "qemu",
		Also: map[string]string{"kvm": "qemu", "qemu-kvm": "qemu", "libvirt": "qemu", "virsh": "qemu",
			"microvm": "qemu, machine: microvm", "q35": "qemu, machine: q35"},
		Summary: "a QEMU virtual machine, with hardware virtualization or emulated",
		Status:  driver.Proven,
		Hosts:   []string{"linux"},
		Root:    true,
		Image:   true,
		OwnRoot: []string{optDisk + "=*", optInitrd + "=*"}, Agentless: []string{optAgent + "=" + none,
			optClock + "=" + clockInstructions},
		Kernel:      true,
		Options:     specs,
		CommandLine: kernelWords,
		Backings:    slices.Sorted(slices.Values(append(guest.Backings(), volume.NFS))),
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":   "the same number of virtual processors, and control group cpuset for the QEMU process",
			"memory": "the memory size of the guest; QEMU's own memory is additional, and bakeoff meters it",
		}),
		Tuning:   driver.Tuning{Names: []string{"*"}},
		Packages: []string{"qemu-system-x86", "iproute2", "e2fsprogs"},
		Source: []string{
			"https://www.qemu.org/docs/master/system/i386/microvm.html",
			"https://www.qemu.org/docs/master/system/invocation.html",
			"https://docs.kernel.org/virt/kvm/api.html",
		},
	}
}
