// Package openbsd is OpenBSD.
package openbsd

import (
	"context"

	"bakeoff/reach/conn"
	"bakeoff/reach/system"
)

// System is the system.
type System struct{}

// Doc describes it.
func (System) Doc() system.Doc {
	return system.Doc{
		Name:    "openbsd",
		Summary: "OpenBSD: pkg_add, rcctl(8)",
		Status:  system.Unproven,
		Kernel:  "OpenBSD",
		Manager: system.Manager{
			Name: "pkg_add", Install: []string{"pkg_add", "-I"}, Query: []string{"pkg_info", "-e"},
		},
		Packages:    map[string]string{"postgres": "postgresql-server", "pgbench": "postgresql-contrib"},
		Base:        []string{"sh", "openssl", "sshd"},
		Files:       map[string]string{"nginx": "/etc/nginx/nginx.conf", "services": "/etc/rc.conf.local", "sshd": "/etc/ssh/sshd_config"},
		Service:     []string{"rcctl", "-f", "start", "NAME"},
		Readiness:   "/etc/rc has ended",
		Counters:    []string{"sysctl kern.cp_time (CPUs); the others are unavailable"},
		Fingerprint: []string{"sysctl hw, kern (CPU, memory, time counter, release)"},
		Source:      []string{"pkg_add(1), pkg_info(1)", "rc(8), rcctl(8)", "sysctl(2)"},
	}
}

// Ready asks as Doc says.
func (System) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	return system.Started(ctx, c, "sh /etc/rc( |$)")
}
