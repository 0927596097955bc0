// Package dragonfly is DragonFly BSD.
package dragonfly

import "bakeoff/reach/system"

// System implements system.System.
type System struct{ system.RC }

// Doc implements system.System.
func (System) Doc() system.Doc {
	return system.Doc{
		Name:      "dragonfly",
		Summary:   "DragonFly BSD: pkg with dports, rc(8)",
		Status:    system.Unproven,
		Kernel:    "DragonFly",
		Manager:   system.Pkg,
		Packages:  map[string]string{"postgres": "postgresql16-server", "pgbench": "postgresql16-contrib"},
		Base:      []string{"sh", "openssl", "sshd"},
		Files:     system.RCFiles("/usr/local/etc"),
		Service:   system.RCService,
		Readiness: system.RCReadiness,
		Counters: []string{"sysctl kern.cp_time (CPUs), vm.stats.sys and vm.stats.vm (context switches, interrupts, " +
			"forks, swap)"},
		Fingerprint: []string{"sysctl hw, kern (CPU, memory, release)"},
		Source:      []string{"pkg-install(8)", "rc(8), service(8)", "DragonFly documentation: HowToDPorts"},
	}
}
