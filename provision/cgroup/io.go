package cgroup

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/probe"
)

// IO limits how fast a group may read from and write to one disk, in bytes per
// second; 0 means no limit.
//
// Version 1 throttles reads, writes that bypass the page cache, and writes that
// a process waits for (fsync). It does not throttle what the kernel writes back
// later; version 2 does on file systems that record the owner of a page (ext4,
// btrfs, xfs).
//
// Source: Linux Documentation/admin-guide/cgroup-v1/blkio-controller.rst and
// cgroup-v2.rst, io.max.
type IO struct {
	Read, Write unit.Bytes
	// Dir is a directory on the limited disk.
	Dir string
}

// wanted tells whether there is a limit.
func (l IO) wanted() bool { return l.Read > 0 || l.Write > 0 }

// limitIO sets the limits. If the host has no controller, or the directory is
// on no disk that the host knows, Limits().NotEnforced says so.
func (g *Group) limitIO(ctx context.Context, l IO) error {
	if !l.wanted() {
		return nil
	}
	dir, v2 := g.v1Dir("blkio"), false
	if g.layout.V1["blkio"] == "" && g.layout.limitsV2("io") {
		dir, v2 = g.v2Dir(), true
	}
	if dir == "" {
		g.lack("io", "the group has no controller of its disks")
		return nil
	}
	disk, why, err := g.diskOf(ctx, l.Dir)
	if err != nil {
		return fault.Op("io", err)
	}
	if disk == "" {
		g.lack("io", why)
		return nil
	}
	for _, f := range ioFiles(disk, l, v2) {
		err := g.files.WriteFile(ctx, path.Join(dir, f[0]), []byte(f[1]))
		if fault.Is(err, fault.NotFound) {
			g.lack("io", "the kernel has no "+f[0])
			return nil
		}
		if err != nil {
			return fault.New(fault.Lab, "io %s: %w", f[1], err)
		}
		got, err := g.files.ReadFile(ctx, path.Join(dir, f[0]))
		if err != nil {
			return fault.Op("io", err)
		}
		if !granted(string(got), f[1]) {
			return fault.New(fault.Lab, "io %s: the host granted %q in %s", f[1], strings.TrimSpace(string(got)), f[0])
		}
	}
	if l.Read > 0 {
		g.limits.Read = &l.Read
	}
	if l.Write > 0 {
		g.limits.Write = &l.Write
	}
	return nil
}

// lack records a limit that cannot be enforced.
func (g *Group) lack(limit, why string) {
	if g.limits.NotEnforced == nil {
		g.limits.NotEnforced = map[string]string{}
	}
	g.limits.NotEnforced[limit] = why
}

// ioFiles are the control files and the text to write to each.
func ioFiles(disk string, l IO, v2 bool) [][2]string {
	var out [][2]string
	line := disk
	for _, x := range []struct {
		limit   unit.Bytes
		v1, key string
	}{{l.Read, "blkio.throttle.read_bps_device", "rbps"}, {l.Write, "blkio.throttle.write_bps_device", "wbps"}} {
		if x.limit > 0 {
			n := strconv.FormatInt(int64(x.limit), 10)
			out = append(out, [2]string{x.v1, disk + " " + n})
			line += " " + x.key + "=" + n
		}
	}
	if v2 {
		return [][2]string{{"io.max", line}}
	}
	return out
}

// granted tells whether a line of a file has all words of the request, the disk
// first.
func granted(text, want string) bool {
	words := strings.Fields(want)
	for line := range strings.Lines(text) {
		have := strings.Fields(line)
		if len(have) == 0 || have[0] != words[0] {
			continue
		}
		missing := slices.ContainsFunc(words[1:], func(w string) bool { return !slices.Contains(have[1:], w) })
		return !missing
	}
	return false
}

// diskOf returns the number (8:0) of the disk that has a directory; "" with the
// reason if none has.
func (g *Group) diskOf(ctx context.Context, dir string) (disk, why string, err error) {
	text, err := g.files.ReadFile(ctx, "/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	device, kind := deviceOf(string(text), dir)
	if device == "" || strings.HasPrefix(device, "0:") {
		return "", fmt.Sprintf("the environment's directory is not on a single disk (%s)", kind), nil
	}
	// Limits apply to whole disks: for a partition, to its disk (sysfs,
	// Documentation/ABI/stable/sysfs-block).
	at := "/sys/dev/block/" + device
	if _, err := g.files.ReadFile(ctx, at+"/partition"); fault.Is(err, fault.NotFound) {
		return device, "", nil
	} else if err != nil {
		return "", "", err
	}
	whole, err := g.files.ReadFile(ctx, at+"/../dev")
	if err != nil {
		return "", "", err
	}
	return strings.TrimSpace(string(whole)), "", nil
}

// deviceOf reads from /proc/PID/mountinfo (proc_pid_mountinfo(5)) the number of
// the device that has an absolute path, and the type of its file system; "" if
// it is not listed.
func deviceOf(text, at string) (device, kind string) {
	device, kind = probe.MountedDevice(text, at)
	if !validDevice(device) {
		return "", ""
	}
	return device, kind
}

// validDevice tells whether it has the form of two numbers: it becomes part of
// a path.
func validDevice(s string) bool {
	major, minor, ok := strings.Cut(s, ":")
	_, err := strconv.ParseUint(major, 10, 32)
	_, err2 := strconv.ParseUint(minor, 10, 32)
	return ok && err == nil && err2 == nil
}
