package wire

import (
	"net/netip"

	"bakeoff/base/unit"
)

// InitSchema is the schema of an InitConfig.
const InitSchema = "bakeoff/init/v1"

// InitConfigPath is the path of init's InitConfig in the initial RAM disk. It
// is a file and not part of the kernel's command line, which is limited to
// 2,048 bytes, requires quoting, and is a fact of the fingerprint: an address
// in it would make equal guests look different.
const InitConfigPath = "/bakeoff.json"

// Paths in the guest.
const (
	GuestAgent   = "/.bakeoff/agent"
	GuestScratch = "/.bakeoff/scratch"
	GuestDisk    = "/disk.img" // in the initial RAM disk
)

// InitConfig is what the agent does as process 1 of a guest.
type InitConfig struct {
	Schema string `json:"schema"`
	// Modules are the paths of kernel modules in the initial RAM disk, in
	// load order.
	Modules []string `json:"modules"`
	// VsockModules are loaded after Modules if the kernel's command line has
	// bakeoff.port=vsock:PORT, which replaces Port: in Firecracker, the host reaches the
	// agent by this socket, and the machine has a keyboard instead of a power button.
	VsockModules []string `json:"vsock_modules,omitempty"`
	// ShareModules are loaded after Modules if the kernel's command line has
	// bakeoff.share=TAG:PATH, or TAG:PATH:ro: a folder of the host (virtiofs).
	ShareModules []string `json:"share_modules,omitempty"`
	// Port is the name of the virtio port to answer on, the path of a
	// terminal device ("/dev/ttyS1"), a port of the socket to the
	// hypervisor ("vsock:1024"), or, on NetBSD and FreeBSD, an address to
	// connect to ("dial:10.0.2.100:7311") or to listen on ("tcp:ADDR:PORT").
	Port string `json:"port"`
	// Root is the serial number of the block device with the root, and
	// RootType its file system. After "partition:" it is the name of a partition.
	// Without Root the initial RAM disk is the root.
	Root     string `json:"root,omitempty"`
	RootType string `json:"root_type,omitempty"`
	// RootDisk is, instead of Root, the path of a disk image in the initial RAM
	// disk, whose root is then in memory. GuestDisk is the usual path.
	RootDisk string `json:"root_disk,omitempty"`
	// RootPartition is set if the root is a partition of that device or image:
	// the GPT says which.
	RootPartition *InitPartition `json:"root_partition,omitempty"`

	Volumes  []InitVolume  `json:"volumes,omitempty"`
	Network  *InitNetwork  `json:"network,omitempty"`
	Hostname string        `json:"hostname,omitempty"`
	Sysctl   []InitSetting `json:"sysctl,omitempty"` // in this order
	// Start is the program of a service, with which the guest ends.
	Start *InitStart `json:"start,omitempty"`
}

// InitStart is a program that init starts.
type InitStart struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`  // NAME=VALUE
	Dir  string   `json:"dir,omitempty"`  // "" is /
	User string   `json:"user,omitempty"` // USER[:GROUP]; "" is root
	// Addr is the address of the first network interface, unless the kernel's command
	// line has bakeoff.addr=ADDRESS/BITS.
	Addr netip.Prefix `json:"addr,omitzero"`
}

// InitPartition chooses a partition of a GPT: by Name, or without one by its attribute,
// BOOTONCE before BOOTME.
type InitPartition struct {
	Name string `json:"name,omitempty"`
}

// InitVolume is a file system that init mounts.
type InitVolume struct {
	Path   string     `json:"path"`             // absolute
	Type   string     `json:"type"`             // tmpfs, btrfs, ext3, ext4, xfs or nfs4
	Serial string     `json:"serial,omitempty"` // of the block device
	Size   unit.Bytes `json:"size,omitempty"`   // of a tmpfs; 0 is the kernel's default
	// Options are those of mount(8) for a block device or nfs4; "" is noatime.
	Options string `json:"options,omitempty"`
	Source  string `json:"source,omitempty"` // of nfs4: ADDRESS:/PATH
}

// InitNetwork is the address of the guest's one network interface.
type InitNetwork struct {
	// MAC selects the interface. On NetBSD and FreeBSD, "" is the only one.
	MAC  string       `json:"mac"`
	Addr netip.Prefix `json:"addr"` // IPv4
}

// InitSetting is a kernel setting: "net.core.somaxconn" and its value.
type InitSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// BootReport is init's answer to the call "boot".
type BootReport struct {
	Kernel string `json:"kernel"` // release, as in uname
	// System is the operating system, as in GOOS.
	System string `json:"system,omitempty"`
	// PID is the agent's process number; 1 if it is init.
	PID int `json:"pid,omitempty"`
	// CPUs is how many the kernel found; 0 if the agent does not say.
	CPUs int `json:"cpus,omitempty"`
	// StartedNS and ReadyNS are when the agent started and when it was ready to
	// answer, by the guest's monotonic clock, which starts with its kernel.
	StartedNS int64 `json:"started_ns"`
	ReadyNS   int64 `json:"ready_ns"`
	// Root is the device, the image or the partition of either that is the root.
	Root string `json:"root,omitempty"`
	// Error is why the guest could not be set up; "" if it was. A guest
	// with an error runs no programs.
	Error string `json:"error,omitempty"`
}

// InitramfsRequest is the JSON input of `bakeoff-agent initramfs`. The agent on
// the host writes the RAM disk, so that neither the agent nor the kernel's
// modules are copied to the controller and back.
type InitramfsRequest struct {
	Kernel string `json:"kernel"` // path of the kernel image
	// Modules is the directory that contains lib/modules/VERSION; "" if the
	// kernel has everything built in.
	Modules string     `json:"modules,omitempty"`
	Wanted  []string   `json:"wanted"` // modules by name
	Agent   string     `json:"agent"`  // the program that becomes /init
	Config  InitConfig `json:"config"` // its Modules are set
	// Disk is the path of a raw disk image that becomes Config.RootDisk in the
	// RAM disk. The module for loop devices is added to Wanted.
	Disk string `json:"disk,omitempty"`
	// Clock makes a RAM disk of another kind instead: the programs that report the
	// clock of the machine (package initramfs). They come before the RAM disk in the
	// file Before, whose init is Next; without Before the machine restarts after the
	// report. Of the other fields only Out is read.
	Clock  bool   `json:"clock,omitempty"`
	Before string `json:"before,omitempty"`
	Next   string `json:"next,omitempty"`
	Out    string `json:"out"` // the file to write
}

// InitramfsResult is the output of `bakeoff-agent initramfs`.
type InitramfsResult struct {
	Kernel  string   `json:"kernel"` // release; "" if unknown
	Modules []string `json:"modules"`
	Bytes   int64    `json:"bytes"`
}

// KVMResult is the output of `bakeoff-agent kvm-probe`.
type KVMResult struct {
	// Probed says that the agent tried to run a guest; false if it has no
	// guest for the processor.
	Probed bool `json:"probed"`
	Works  bool `json:"works"`
	// Reason is why KVM does not work, or why it was not probed.
	Reason string `json:"reason,omitempty"`
	// TimedOut says that the guest was killed although it had enough CPU
	// time: a repeated probe would fail, too.
	TimedOut bool `json:"timed_out,omitempty"`
	// TSCKHz is the frequency of the time stamp counter, in kHz; 0 if there
	// is none.
	TSCKHz int64 `json:"tsc_khz,omitempty"`
	// BootID is the host's boot for which the result is valid.
	BootID string `json:"boot_id,omitempty"`
}
