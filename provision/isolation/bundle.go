package isolation

import (
	"bakeoff/provision/cgroup"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// bundle is the part of an OCI runtime configuration that bakeoff uses.
//
// Source: Open Container Initiative Runtime Specification 1.0.2, config.md and
// config-linux.md.
type bundle struct {
	Version  string        `json:"ociVersion"`
	Process  bundleProcess `json:"process"`
	Root     bundleRoot    `json:"root"`
	Hostname string        `json:"hostname"`
	Mounts   []bundleMount `json:"mounts"`
	Linux    bundleLinux   `json:"linux"`
}

type bundleProcess struct {
	Args            []string            `json:"args"`
	Env             []string            `json:"env"`
	Cwd             string              `json:"cwd"`
	User            map[string]int      `json:"user"`
	Capabilities    map[string][]string `json:"capabilities"`
	NoNewPrivileges bool                `json:"noNewPrivileges"`
}

type bundleRoot struct {
	Path string `json:"path"`
}

type bundleMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

type bundleLinux struct {
	CgroupsPath   string            `json:"cgroupsPath"`
	Namespaces    []bundleNamespace `json:"namespaces"`
	Resources     bundleResources   `json:"resources"`
	MaskedPaths   []string          `json:"maskedPaths"`
	ReadonlyPaths []string          `json:"readonlyPaths"`
}

type bundleNamespace struct {
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
}

type bundleResources struct {
	CPU     *bundleCPU     `json:"cpu,omitempty"`
	Memory  *bundleMemory  `json:"memory,omitempty"`
	Devices []bundleDevice `json:"devices"`
}

type bundleCPU struct {
	CPUs string `json:"cpus"`
}

type bundleMemory struct {
	Limit int64 `json:"limit"`
	// Swap is the limit of memory and swap together; nil if the host does not
	// account swap.
	Swap *int64 `json:"swap,omitempty"`
}

type bundleDevice struct {
	Allow  bool   `json:"allow"`
	Access string `json:"access"`
}

// capabilities are the defaults of Docker and Podman.
var capabilities = []string{"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_MKNOD",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"}

// configure describes the container of an environment, with its init process
// and its bind mounts.
func configure(e *Env, binds []wire.Bind, first []string, swapAccounted bool) bundle {
	c := bundle{
		Version: "1.0.2",
		Process: bundleProcess{Args: first, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Cwd: "/",
			User:         map[string]int{"uid": 0, "gid": 0},
			Capabilities: map[string][]string{"bounding": capabilities, "effective": capabilities, "permitted": capabilities}},
		Root:     bundleRoot{Path: e.Root},
		Hostname: e.Spec.Label,
		Mounts:   bundleMounts(binds),
		Linux: bundleLinux{
			CgroupsPath: cgroup.Path(e.Spec.Label),
			Namespaces: []bundleNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}, {Type: "cgroup"},
				{Type: "network", Path: e.Netns()}},
			Resources: bundleResources{CPU: &bundleCPU{CPUs: probe.FormatCPUs(e.Spec.CPUSet)},
				Devices: []bundleDevice{{Allow: false, Access: "rwm"}}},
			// The paths that the container engines hide.
			MaskedPaths: []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/sched_debug", "/proc/scsi", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if m := int64(e.Spec.Memory); m > 0 {
		c.Linux.Resources.Memory = &bundleMemory{Limit: m}
		if swapAccounted {
			c.Linux.Resources.Memory.Swap = &m // no swap in addition
		}
	}
	return c
}

// bundleMounts are the mounts that the specification expects, and the binds.
func bundleMounts(binds []wire.Bind) []bundleMount {
	out := []bundleMount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=64k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777"}},
		{"/dev/mqueue", "mqueue", "mqueue", []string{"nosuid", "noexec", "nodev"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	for _, b := range binds {
		options := []string{"bind", "rw"}
		if b.ReadOnly {
			options = []string{"bind", "ro"}
		}
		out = append(out, bundleMount{b.To, "bind", b.From, options})
	}
	return out
}
