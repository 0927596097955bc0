// Package netbsd is NetBSD.
package netbsd

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
		Name:    "netbsd",
		Summary: "NetBSD: pkgin with pkgsrc, rc(8)",
		Status:  system.Unproven,
		Kernel:  "NetBSD",
		Manager: system.Manager{
			Name: "pkgin", Update: []string{"pkgin", "-y", "update"}, Install: []string{"pkgin", "-y", "install"}, Query: []string{"pkg_info", "-e"},
		},
		Packages:    map[string]string{"postgres": "postgresql16-server", "pgbench": "postgresql16-client"},
		Base:        []string{"sh", "openssl", "sshd"},
		Files:       map[string]string{"nginx": "/usr/pkg/etc/nginx/nginx.conf", "services": "/etc/rc.conf", "sshd": "/etc/ssh/sshd_config"},
		Service:     []string{"service", "NAME", "onestart"},
		Readiness:   "/etc/rc has ended",
		Counters:    []string{"sysctl kern.cp_time (CPUs); the others are unavailable"},
		Fingerprint: []string{"sysctl hw, machdep, kern (CPU, memory, time counter, release)"},
		Source:      []string{"pkgin(1), pkg_info(1)", "rc(8), service(8)", "sysctl(3)"},
	}
}

// Ready asks as Doc says.
func (System) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	return system.Started(ctx, c, "/bin/sh /etc/rc( |$)")
}
