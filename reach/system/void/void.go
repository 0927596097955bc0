// Package void is Void Linux.
package void

import (
	"context"

	"bakeoff/reach/conn"
	"bakeoff/reach/system"
)

// System implements system.System.
type System struct{}

// Doc implements system.System.
func (System) Doc() system.Doc {
	return system.Doc{
		Name:    "void",
		Summary: "Void Linux: xbps, runit, glibc or musl",
		Status:  system.Unproven,
		Kernel:  "Linux",
		IDs:     []string{"void"},
		Manager: system.Manager{
			Name: "xbps", Update: []string{"xbps-install", "-S"}, Install: []string{"xbps-install", "-y"},
			Query: []string{"xbps-query"},
		},
		Packages: map[string]string{"postgres": "postgresql", "pgbench": "postgresql-contrib", "bwrap": "bubblewrap",
			"dockerd":   "docker",
			"lxc-start": "lxc", "lxc-attach": "lxc", "lxc-stop": "lxc", "ip": "iproute2", "qemu-system-x86_64": "qemu"},
		Without: []string{"systemd-nspawn"},
		Base:    []string{"sh"},
		Files: map[string]string{"nginx": "/etc/nginx/nginx.conf", "services": "/etc/sv",
			"sshd": "/etc/ssh/sshd_config"},
		Service:     []string{"ln", "-s", "/etc/sv/NAME", "/var/service/"},
		Readiness:   "runsvdir, the second stage of runit, runs; a container without runit is ready at once",
		Counters:    system.LinuxCounters,
		Fingerprint: system.LinuxFingerprint,
		Source:      []string{"xbps-install(1), xbps-query(1)", "runit(8), runsvdir(8)", "Void Linux Handbook: Services"},
	}
}

// Ready implements system.System.
func (System) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	first, err := system.Ask(ctx, c, "ps", "-p", "1", "-o", "comm=")
	if err != nil || first != "runit" {
		return err == nil, err
	}
	exit, err := c.Exec(ctx, conn.Command("pgrep", "-x", "runsvdir"))
	return exit.OK() && err == nil, err
}
