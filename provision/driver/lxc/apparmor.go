package lxc

import (
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// aaProfile is the profile that LXC asks AppArmor for unless it is told
// otherwise. The distribution loads it when it starts, where AppArmor's own
// programs are installed; LXC refuses to start a container without it.
const aaProfile = "lxc-container-default-cgns"

// Where the kernel says whether it has AppArmor, and what is loaded into it.
const (
	aaEnabled  = "/sys/module/apparmor/parameters/enabled"
	aaProfiles = "/sys/kernel/security/apparmor/profiles"
)

// apparmor tells what confines a container besides its namespaces, and what
// its configuration has to say for that.
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
