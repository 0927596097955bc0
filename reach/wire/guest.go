package wire

import (
	"net/netip"

	"bakeoff/base/unit"
)

// InitSchema is the schema of an InitConfig.
const InitSchema = "bakeoff/init/v1"

// InitConfigPath is where init finds its InitConfig, in the initial RAM disk.
//
// It is a file and not part of the kernel's command line: that holds 2,048
// bytes, needs quoting, and is a fact of the fingerprint, where an address
// would make two equal guests look different.
const InitConfigPath = "/bakeoff.json"

// Where init puts things in the guest.
const (
	GuestAgent   = "/.bakeoff/agent"
	GuestScratch = "/.bakeoff/scratch"
)

// InitConfig is what the agent does as process 1 of a guest.
type InitConfig struct {
	Schema string `json:"schema"`
	// Modules are the paths of kernel modules in the initial RAM disk, in the
	// order in which they are loaded.
	Modules []string `json:"modules"`
	// Port is the name of the virtio port to answer on, the path of a
	// terminal device ("/dev/ttyS1"), or a port of the socket to the
	// hypervisor ("vsock:1024").
	Port string `json:"port"`
	// Root is the serial number of the block device with the root, and
	// RootType its file system. Without Root the initial RAM disk is the root.
	Root     string        `json:"root,omitempty"`
	RootType string        `json:"root_type,omitempty"`
	Volumes  []InitVolume  `json:"volumes,omitempty"`
	Network  *InitNetwork  `json:"network,omitempty"`
	Hostname string        `json:"hostname,omitempty"`
	Sysctl   []InitSetting `json:"sysctl,omitempty"` // in this order
}

// InitVolume is a file system that init mounts.
type InitVolume struct {
	Path   string     `json:"path"`             // absolute
	Type   string     `json:"type"`             // tmpfs or ext4
	Serial string     `json:"serial,omitempty"` // of the block device
	Size   unit.Bytes `json:"size,omitempty"`   // of a tmpfs; 0: the kernel's default
}

// InitNetwork is the address of the guest's one network interface.
type InitNetwork struct {
	MAC  string       `json:"mac"`
	Addr netip.Prefix `json:"addr"` // IPv4
}

// InitSetting is a kernel setting: "net.core.somaxconn" and its value.
type InitSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// BootReport is what init answers to the call "boot".
type BootReport struct {
	Kernel string `json:"kernel"` // release, as uname says it
	// StartedNS and ReadyNS are the guest's monotonic clock, which begins
	// with its kernel, when init started and when it was ready to answer.
	StartedNS int64 `json:"started_ns"`
	ReadyNS   int64 `json:"ready_ns"`
	// Error is why the guest is not what it was to be; empty when all is
	// well. A guest with an error answers nothing else.
	Error string `json:"error,omitempty"`
}

// InitramfsRequest is what `bakeoff-agent initramfs` reads, as JSON, on its
// standard input. It is done by the agent on the host, so that neither the
// agent nor the kernel's modules travel to the controller and back.
type InitramfsRequest struct {
	Kernel string `json:"kernel"` // path of the kernel image
	// Modules is the directory that has lib/modules/VERSION; "" where the
	// kernel has everything built in.
	Modules string     `json:"modules,omitempty"`
	Wanted  []string   `json:"wanted"` // modules by name
	Agent   string     `json:"agent"`  // the program that becomes /init
	Config  InitConfig `json:"config"` // its Modules are filled in
	Out     string     `json:"out"`    // the file to write
}

// InitramfsResult is what it prints.
type InitramfsResult struct {
	Kernel  string   `json:"kernel"` // release, "" when it could not be told
	Modules []string `json:"modules"`
	Bytes   int64    `json:"bytes"`
}

// KVMResult is what `bakeoff-agent kvm-probe` prints.
type KVMResult struct {
	// Probed tells that a guest was really run, or could not be; false where
	// this agent has no guest for the processor.
	Probed bool `json:"probed"`
	Works  bool `json:"works"`
	// Reason says why it does not work, or why it was not probed.
	Reason string `json:"reason,omitempty"`
	// TimedOut tells that the guest had to be killed, and had had the CPU
	// time that it wanted: it will not do better next time.
	TimedOut bool `json:"timed_out,omitempty"`
	// TSCKHz is the frequency of the time stamp counter, in kHz; 0 where
	// there is none.
	TSCKHz int64 `json:"tsc_khz,omitempty"`
	// BootID is the host's boot for which this holds.
	BootID string `json:"boot_id,omitempty"`
}
