// Package alpine is Alpine Linux.
package alpine

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
		Name:    "alpine",
		Summary: "Alpine Linux: apk, OpenRC, musl",
		Status:  system.Unproven,
		Kernel:  "Linux",
		IDs:     []string{"alpine"},
		Manager: system.Manager{
			Name: "apk", Update: []string{"apk", "update"}, Install: []string{"apk", "add"},
			Query: []string{"apk", "info", "-e"},
		},
		Packages: map[string]string{"postgres": "postgresql", "pgbench": "postgresql-contrib", "bwrap": "bubblewrap",
			"dockerd":   "docker",
			"lxc-start": "lxc", "lxc-attach": "lxc", "lxc-stop": "lxc", "ip": "iproute2"},
		Without: []string{"systemd-nspawn"},
		Base:    []string{"sh", "busybox"},
		Files: map[string]string{"nginx": "/etc/nginx/nginx.conf", "nginx-site": "/etc/nginx/http.d/default.conf",
			"sshd": "/etc/ssh/sshd_config"},
		Service: []string{"rc-service", "NAME", "start"},
		Readiness: "/run/openrc/softlevel contains default, because the run level was reached; a container without " +
			"OpenRC is ready at once",
		Counters:    system.LinuxCounters,
		Fingerprint: system.LinuxFingerprint,
		Source:      []string{"apk(8)", "openrc(8), rc-status(8)", "Alpine Wiki: Nginx"},
	}
}

// Ready implements system.System.
func (System) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	level, there, err := system.Reads(ctx, c, "/run/openrc/softlevel")
	return err == nil && (!there || level == "default"), err
}
