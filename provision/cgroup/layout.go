// Package cgroup confines the processes of an environment with Linux control
// groups: their CPUs, their memory, whether they run, and what they spent.
//
// It works on any host that conn.Conn reaches, with version 1, version 2 and
// the hybrid of both (version 1 controllers next to an empty version 2
// hierarchy). On a Conn with conn.Files an operation costs some file accesses
// and starts no program.
//
// Source: Linux Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
package cgroup

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// parent is the parent of all groups of bakeoff in each hierarchy.
const parent = "bakeoff"

// Layout describes the control group hierarchies of a host.
type Layout struct {
	// V1 maps a controller of version 1 to the directory where it is mounted.
	V1 map[string]string
	// V2 is the directory of the version 2 hierarchy, "" if there is none.
	V2 string
	// V2Controllers are the controllers that version 2 can use.
	V2Controllers []string
}

// Detect reads the layout of a host, which does not change until the next boot.
// If the host has no control groups the error is of kind fault.Unsupported.
func Detect(ctx context.Context, host conn.Conn) (Layout, error) {
	files := conn.FilesOf(host)
	mounts, err := files.ReadFile(ctx, "/proc/self/mounts")
	if fault.Is(err, fault.NotFound) {
		return Layout{}, fault.New(fault.Unsupported,
			"control groups: no /proc/self/mounts: not a Linux host, or /proc is not mounted")
	}
	if err != nil {
		return Layout{}, fault.Op("control groups", err)
	}
	l := parseMounts(string(mounts))
	if l.V2 != "" {
		b, err := files.ReadFile(ctx, path.Join(l.V2, "cgroup.controllers"))
		if err != nil {
			return Layout{}, fault.Op("control groups", err)
		}
		l.V2Controllers = strings.Fields(string(b))
	}
	if l.V2 == "" && len(l.V1) == 0 {
		return l, &fault.Error{Kind: fault.Unsupported, Op: "control groups", Err: errNone,
			Fix: "mount -t cgroup2 none /sys/fs/cgroup"}
	}
	return l, nil
}

var errNone = fault.New(fault.Unsupported, "none are mounted")

// parseMounts finds the hierarchies in the text of /proc/mounts (proc(5)). If a
// hierarchy is mounted twice it uses the first mount.
func parseMounts(text string) Layout {
	l := Layout{V1: map[string]string{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || !path.IsAbs(f[1]) {
			continue
		}
		dir := path.Clean(probe.Unescape(f[1]))
		switch f[2] {
		case "cgroup2":
			l.V2 = cmp.Or(l.V2, dir)
		case "cgroup":
			for _, o := range strings.Split(f[3], ",") {
				if (slices.Contains(controllers, o) || strings.HasPrefix(o, "name=")) && l.V1[o] == "" {
					l.V1[o] = dir
				}
			}
		}
	}
	return l
}

// controllers are those of version 1 (cgroups(7)); other mount options are
// not controllers.
var controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "net_cls", "blkio",
	"perf_event", "net_prio", "hugetlb", "pids", "rdma", "misc", "debug"}

// String names the layout: v1, v2 or hybrid.
func (l Layout) String() string {
	switch {
	case len(l.V1) == 0:
		return "v2"
	case l.V2 == "":
		return "v1"
	}
	return "hybrid"
}

// limitsV2 tells whether version 2 has the controller. In a hybrid layout
// version 2 has it if version 1 does not.
func (l Layout) limitsV2(controller string) bool {
	return l.V2 != "" && slices.Contains(l.V2Controllers, controller)
}

// nameV1 is the version 1 name of a version 2 controller.
func nameV1(controller string) string {
	if controller == "io" {
		return "blkio"
	}
	return controller
}

// Lacks returns, for each kind of limit (cpus, memory) that this host cannot
// enforce, the reason.
func (l Layout) Lacks() map[string]string {
	lacks := map[string]string{}
	for limit, controller := range map[string]string{"cpus": "cpuset", "memory": "memory"} {
		if l.V1[controller] == "" && !l.limitsV2(controller) {
			lacks[limit] = "the host has no control group controller " + controller
		}
	}
	return lacks
}

// hierarchies are the directories of all hierarchies, each once, sorted.
func (l Layout) hierarchies() []string {
	return l.withV2(slices.Collect(maps.Values(l.V1)))
}

// withV2 adds the directory of version 2 to those of version 1.
func (l Layout) withV2(dirs []string) []string {
	if l.V2 != "" {
		dirs = append(dirs, l.V2)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// used are the directories of the hierarchies that a group with these limits
// needs.
func (l Layout) used(limits Limits) []string {
	var out []string
	for _, c := range []string{"cpuset", "memory", "freezer", "cpuacct", "cpu", "blkio"} {
		if l.V1[c] != "" && (c != "cpu" || limits.Quota > 0) && (c != "blkio" || limits.IO.wanted()) {
			out = append(out, l.V1[c])
		}
	}
	return l.withV2(out)
}
