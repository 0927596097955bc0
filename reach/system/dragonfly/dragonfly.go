// Package dragonfly is DragonFly BSD.
package dragonfly

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
		Name:    "dragonfly",
		Summary: "DragonFly BSD: pkg with dports, rc(8)",
		Status:  system.Unproven,
		Kernel:  "DragonFly",
		Manager: system.Manager{
			Name: "pkg", Update: []string{"pkg", "update"}, Install: []string{"pkg", "install", "-y"}, Query: []string{"pkg", "info", "-e"},
			Env: []string{"ASSUME_ALWAYS_YES=yes"},
		},
		Packages:    map[string]string{"postgres": "postgresql16-server", "pgbench": "postgresql16-contrib"},
		Base:        []string{"sh", "openssl", "sshd"},
		Files:       map[string]string{"nginx": "/usr/local/etc/nginx/nginx.conf", "services": "/etc/rc.conf", "sshd": "/etc/ssh/sshd_config"},
		Service:     []string{"service", "NAME", "onestart"},
		Readiness:   "/etc/rc has ended",
		Counters:    []string{"sysctl kern.cp_time (CPUs), vm.stats.sys and vm.stats.vm (context switches, interrupts, forks, swap)"},
		Fingerprint: []string{"sysctl hw, kern (CPU, memory, release)"},
		Source:      []string{"pkg-install(8)", "rc(8), service(8)", "DragonFly documentation: HowToDPorts"},
	}
}

// Ready asks as Doc says.
func (System) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	return system.Started(ctx, c, "/bin/sh /etc/rc( |$)")
}
