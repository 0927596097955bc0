package system

// LinuxCounters and LinuxFingerprint describe what the agent reads on Linux.
var (
	LinuxCounters = []string{
		"/proc/stat, /proc/schedstat, /proc/vmstat, /proc/diskstats, /proc/pressure",
		"control groups, which count only the environment",
	}
	LinuxFingerprint = []string{"/proc/version, /proc/cmdline, /proc/cpuinfo, " +
		"/sys/devices/system (clock source, mitigations, governor), /proc/self/mountinfo"}
)

// Pkg is the package manager of FreeBSD and DragonFly BSD.
var Pkg = Manager{
	Name: "pkg", Update: []string{"pkg", "update"},
	Install: []string{"pkg", "install", "-y"}, Query: []string{"pkg", "info", "-e"},
	Env: []string{"ASSUME_ALWAYS_YES=yes"},
}

// Pkgin is the package manager of NetBSD and SmartOS, for packages from pkgsrc.
var Pkgin = Manager{
	Name: "pkgin", Update: []string{"pkgin", "-y", "update"},
	Install: []string{"pkgin", "-y", "install"}, Query: []string{"pkg_info", "-e"},
}

// RCService starts a service with service(8).
var RCService = []string{"service", "NAME", "onestart"}

// RCFiles returns Doc.Files of a BSD whose packages keep configuration in etc.
func RCFiles(etc string) map[string]string {
	return map[string]string{
		"nginx": etc + "/nginx/nginx.conf", "services": "/etc/rc.conf", "sshd": "/etc/ssh/sshd_config",
	}
}
