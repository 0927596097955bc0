package agent

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
