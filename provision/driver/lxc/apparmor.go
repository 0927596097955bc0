package lxc

import (
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// aaProfile is LXC's default AppArmor profile. The distribution loads it at
// boot if AppArmor's programs are installed. Without it LXC does not start a
// container.
const aaProfile = "lxc-container-default-cgns"

// The kernel's files that tell whether it has AppArmor and which profiles are
// loaded.
const (
	aaEnabled  = "/sys/module/apparmor/parameters/enabled"
	aaProfiles = "/sys/kernel/security/apparmor/profiles"
)

// apparmor returns what confines a container besides its namespaces, and the
// configuration lines for it.
func apparmor(ctx context.Context, host conn.Conn) (fact string, lines []string, err error) {
	files := conn.FilesOf(host)
	enabled, err := files.ReadFile(ctx, aaEnabled)
	if fault.Is(err, fault.NotFound) || err == nil && strings.TrimSpace(string(enabled)) != "Y" {
		return "not in this kernel", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	loaded, err := files.ReadFile(ctx, aaProfiles)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", nil, err
	}
	for line := range strings.Lines(string(loaded)) {
		if name, _, _ := strings.Cut(line, " ("); name == aaProfile {
			return strings.TrimSpace(line), nil, nil
		}
	}
	return "unconfined: " + aaProfile + " is not loaded", []string{"lxc.apparmor.profile = unconfined"}, nil
}
