// Package netbsd is NetBSD.
package netbsd

import "bakeoff/reach/system"

// System implements system.System.
type System struct{ system.RC }

// Doc implements system.System.
func (System) Doc() system.Doc {
	return system.Doc{
		Name:        "netbsd",
		Summary:     "NetBSD: pkgin with pkgsrc, rc(8)",
		Status:      system.Unproven,
		Kernel:      "NetBSD",
		Manager:     system.Pkgin,
		Packages:    map[string]string{"postgres": "postgresql16-server", "pgbench": "postgresql16-client"},
		Base:        []string{"sh", "openssl", "sshd"},
		Files:       system.RCFiles("/usr/pkg/etc"),
		Service:     system.RCService,
		Readiness:   system.RCReadiness,
		Counters:    []string{"sysctl kern.cp_time (CPUs); other counters are unavailable"},
		Fingerprint: []string{"sysctl hw, machdep, kern (CPU, memory, time counter, release)"},
		Source:      []string{"pkgin(1), pkg_info(1)", "rc(8), service(8)", "sysctl(3)"},
	}
}
