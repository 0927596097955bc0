// Package freebsd is FreeBSD.
package freebsd

import "bakeoff/reach/system"

// System implements system.System.
type System struct{ system.RC }

// Doc implements system.System.
func (System) Doc() system.Doc {
	return system.Doc{
		Name:      "freebsd",
		Summary:   "FreeBSD: pkg, rc(8)",
		Status:    system.Unproven,
		Kernel:    "FreeBSD",
		Manager:   system.Pkg,
		Packages:  map[string]string{"postgres": "postgresql16-server", "pgbench": "postgresql16-contrib"},
		Base:      []string{"sh", "openssl", "sshd"},
		Files:     system.RCFiles("/usr/local/etc"),
		Service:   system.RCService,
		Readiness: system.RCReadiness,
		Counters: []string{"sysctl kern.cp_time and kern.cp_times (CPUs), vm.stats.sys and vm.stats.vm (context " +
			"switches, interrupts, forks, faults, swap)"},
		Fingerprint: []string{"sysctl hw, kern (CPU, memory, clock source, release), dev.cpu.0.freq"},
		Source:      []string{"pkg-install(8), pkg-info(8)", "rc(8), service(8)", "sysctl(3)"},
	}
}
