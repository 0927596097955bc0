// Package smartos is SmartOS: illumos with zones, its packages from pkgsrc.
package smartos

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
		Name:      "smartos",
		Summary:   "SmartOS, in its global zone or a native one: pkgin with pkgsrc, SMF",
		Status:    system.Unproven,
		Kernel:    "SunOS",
		Manager:   system.Pkgin,
		Packages:  map[string]string{"postgres": "postgresql16-server", "pgbench": "postgresql16-client"},
		Base:      []string{"sh", "sshd"},
		Files:     map[string]string{"nginx": "/opt/local/etc/nginx/nginx.conf", "sshd": "/etc/ssh/sshd_config"},
		Service:   []string{"svcadm", "enable", "-st", "NAME"},
		Readiness: "svcs reports the milestone multi-user-server as online",
		Counters: []string{"kstat cpu:*:sys and cpu:*:vm (CPUs, context switches, interrupts, forks, faults), from " +
			"/dev/kstat"},
		Fingerprint: []string{"kstat cpu_info (model, frequency), sysconf (CPUs, memory), uname"},
		Source:      []string{"pkgin(1)", "svcs(1), svcadm(8), smf(7)", "kstat(9S), kstat(4D)"},
	}
}

// Ready implements system.System.
func (System) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	state, err := system.Ask(ctx, c, "svcs", "-H", "-o", "state", "svc:/milestone/multi-user-server:default")
	return state == "online", err
}
