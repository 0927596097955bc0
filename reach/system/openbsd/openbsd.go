// Package openbsd is OpenBSD.
package openbsd

import "bakeoff/reach/system"

// System implements system.System.
type System struct{ system.RC }

// Doc implements system.System.
func (System) Doc() system.Doc {
	return system.Doc{
		Name:    "openbsd",
		Summary: "OpenBSD: pkg_add, rcctl(8)",
		Status:  system.Unproven,
		Kernel:  "OpenBSD",
		Manager: system.Manager{
			Name: "pkg_add", Install: []string{"pkg_add", "-I"}, Query: []string{"pkg_info", "-e"},
		},
		Packages: map[string]string{"postgres": "postgresql-server", "pgbench": "postgresql-contrib"},
		Base:     []string{"sh", "openssl", "sshd"},
		Files: map[string]string{"nginx": "/etc/nginx/nginx.conf", "services": "/etc/rc.conf.local",
			"sshd": "/etc/ssh/sshd_config"},
		Service:     []string{"rcctl", "-f", "start", "NAME"},
		Readiness:   system.RCReadiness,
		Counters:    []string{"sysctl kern.cp_time (CPUs); other counters are unavailable"},
		Fingerprint: []string{"sysctl hw, kern (CPU, memory, time counter, release)"},
		Source:      []string{"pkg_add(1), pkg_info(1)", "rc(8), rcctl(8)", "sysctl(2)"},
	}
}
