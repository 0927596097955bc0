// Package debian is Debian, Ubuntu and their derivatives.
package debian

import (
	"bytes"
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
)

// System implements system.System.
type System struct{}

// Doc implements system.System.
func (System) Doc() system.Doc {
	return system.Doc{
		Name:    "debian",
		Summary: "Debian, Ubuntu and derivatives: apt, systemd",
		Status:  system.Proven,
		Kernel:  "Linux",
		IDs:     []string{"debian", "ubuntu"},
		Manager: system.Manager{
			Name: "apt", Update: []string{"apt-get", "update"},
			Install: []string{"apt-get", "install", "-y", "--no-install-recommends"},
			// A removed package whose settings were kept has the status config-files.
			Query: []string{"dpkg-query", "-W", "-f=${db:Status-Status}"}, Present: "installed",
			Env: []string{"DEBIAN_FRONTEND=noninteractive"},
		},
		Packages: map[string]string{"pgbench": "postgresql-contrib", "postgres": "postgresql", "php-fpm": "php-fpm",
			"busybox": "busybox-static"},
		Base: []string{"sh"},
		Files: map[string]string{"nginx": "/etc/nginx/nginx.conf",
			"postgres": "/etc/postgresql/VERSION/main/postgresql.conf", "php-fpm": "/etc/php/VERSION/fpm/php-fpm.conf",
			"sshd": "/etc/ssh/sshd_config"},
		Service: []string{"systemctl", "start", "NAME"},
		Readiness: "systemctl is-system-running prints running, degraded or maintenance; a container without systemd " +
			"is ready at once",
		Counters:    system.LinuxCounters,
		Fingerprint: system.LinuxFingerprint,
		Source:      []string{"apt-get(8)", "dpkg-query(1)", "systemctl(1): is-system-running"},
	}
}

// Ready implements system.System.
func (System) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	var said bytes.Buffer
	exit, err := c.Exec(ctx, conn.Cmd{Argv: []string{"systemctl", "is-system-running"}, Stdout: &said})
	switch {
	case fault.Is(err, fault.NotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	switch state := strings.TrimSpace(said.String()); state {
	case "running", "degraded", "maintenance", "offline":
		return true, nil
	case "initializing", "starting", "stopping":
		return false, nil
	default:
		// Without its bus systemctl prints only an error: systemd does
		// not run.
		return state == "" || state == "unknown", fault.Op("systemctl is-system-running", oddState(exit, state))
	}
}

// oddState returns an error for a state that systemctl(1) does not document; nil if
// there is no state.
func oddState(exit conn.Exit, state string) error {
	if state == "" || state == "unknown" {
		return nil
	}
	return fault.New(fault.Subject, "unknown state %q (%s)", state, exit)
}
