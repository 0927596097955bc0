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
)

// IO is how fast a group may read from and write to one disk, in bytes a
// second; 0 is no limit.
//
// Version 1 holds back what a process reads, what it writes past the page
// cache, and what it waits for itself (fsync). What the kernel writes later on
// its own account is nobody's there; in version 2 it is held back on file
// systems that tell whose it is (ext4, btrfs, xfs).
//
// Source: Linux Documentation/admin-guide/cgroup-v1/blkio-controller.rst and
// cgroup-v2.rst, io.max.
type IO struct {
	Read, Write unit.Bytes
	// Dir is a directory on the disk.
	Dir string
}

// wanted tells whether there is a limit.
func (l IO) wanted() bool { return l.Read > 0 || l.Write > 0 }

// limitIO sets the limits. Where the host has no controller for that, or the
// directory is on no disk that it knows, Limits().NotEnforced says so.
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

// lack notes a limit that cannot be held.
func (g *Group) lack(limit, why string) {
	if g.limits.NotEnforced == nil {
		g.limits.NotEnforced = map[string]string{}
	}
	g.limits.NotEnforced[limit] = why
}

// ioFiles are the files with what is to be written to each.
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

// granted tells whether a line of a file has all the words of what was wanted,
// the disk first.
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

// diskOf returns the number (8:0) of the disk that a directory lies on; "" with
// the reason where it lies on none.
func (g *Group) diskOf(ctx context.Context, dir string) (disk, why string, err error) {
	text, err := g.files.ReadFile(ctx, "/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	device, kind := deviceOf(string(text), dir)
	if device == "" || strings.HasPrefix(device, "0:") {
		return "", fmt.Sprintf("the environment's directory lies on no one disk (%s)", kind), nil
	}
	// A limit is one of a whole disk: of a partition, it is that of the disk
	// that it is part of (sysfs, Documentation/ABI/stable/sysfs-block).
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
// the device that an absolute path lies on, and the kind of its file system; ""
// where it is not told.
func deviceOf(text, at string) (device, kind string) {
	best := -1
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 1 || !validDevice(l[2]) {
			continue
		}
		point := unescape(l[4])
		under := point == "/" || at == point || strings.HasPrefix(at, point+"/")
		if under && len(point) >= best { // of two on one point the later one is seen
			best, device, kind = len(point), l[2], r[0]
		}
	}
	return device, kind
}

// validDevice tells whether it is two numbers: it becomes part of a path.
func validDevice(s string) bool {
	major, minor, ok := strings.Cut(s, ":")
	_, err := strconv.ParseUint(major, 10, 32)
	_, err2 := strconv.ParseUint(minor, 10, 32)
	return ok && err == nil && err2 == nil
}
