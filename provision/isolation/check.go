package isolation

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
)

// Needs are the requirements of a technology on a host.
type Needs struct {
	// Programs maps a program to the Debian package that has it.
	Programs map[string]string
	Overlay  bool
}

// Check checks a host for Linux, root, control groups, network namespaces, the
// programs and overlay mounts.
func Check(ctx context.Context, host conn.Conn, needs Needs) driver.Availability {
	if a := guest.System(ctx, host, "Linux"); !a.OK {
		if a.Reason == guest.NotRoot {
			a.Reason += ": control groups, namespaces and mounts need root"
			a.Fix = "run bakeoff with sudo"
		}
		return a
	}
	programs := map[string]string{"kill": "procps"} // ends what is left in a control group
	maps.Copy(programs, needs.Programs)
	if a := installed(ctx, host, programs); !a.OK {
		return a
	}
	layout, err := cgroup.Detect(ctx, host)
	if err != nil {
		return driver.Unavailable(err)
	}
	if err := netns.Check(ctx, host); err != nil {
		if a := installed(ctx, host, map[string]string{"ip": "iproute2", "unshare": "util-linux"}); !a.OK {
			return a
		}
		return driver.Unavailable(err)
	}
	if needs.Overlay {
		if a := overlay(ctx, host); !a.OK {
			return a
		}
	}
	return driver.Availability{OK: true, Facts: map[string]string{"cgroup": layout.String()}}
}

// installed looks for programs and names the Debian packages of the missing
// ones.
func installed(ctx context.Context, host conn.Conn, programs map[string]string) driver.Availability {
	var missing, packages []string
	for p, pkg := range programs {
		exit, err := host.Exec(ctx, conn.Command(p, "--version"))
		if fault.Is(err, fault.NotFound) {
			missing, packages = append(missing, p), append(packages, pkg)
		} else if err != nil {
			return driver.Unavailable(err)
		}
		_ = exit // some programs do not know --version; they are there
	}
	if len(missing) == 0 {
		return driver.Availability{OK: true}
	}
	slices.Sort(missing)
	slices.Sort(packages)
	packages = slices.Compact(packages)
	return driver.Availability{Reason: "not installed: " + strings.Join(missing, ", "), Programs: missing,
		Packages: packages,
		Fix:      "apt-get install " + strings.Join(packages, " ")}
}

func overlay(ctx context.Context, host conn.Conn) driver.Availability {
	b, err := conn.FilesOf(host).ReadFile(ctx, "/proc/filesystems")
	if err != nil {
		return driver.Unavailable(err)
	}
	if slices.Contains(strings.Fields(string(b)), "overlay") {
		return driver.Availability{OK: true}
	}
	// It may be a module that is not loaded yet; mount loads it.
	if exit, err := host.Exec(ctx, conn.Command("modprobe", "-n", "overlay")); err == nil && exit.OK() {
		return driver.Availability{OK: true}
	}
	return driver.Availability{Reason: "the kernel has no overlay file system",
		Fix: "run modprobe overlay, or use a kernel with CONFIG_OVERLAY_FS"}
}
