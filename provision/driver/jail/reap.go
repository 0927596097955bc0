package jail

import (
	"context"
	"slices"
	"strings"

	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

var _ driver.Driver = Driver{}

// Reap finds and removes what has the names of a jail: the jail, its limits,
// its interface, its mounts and its dataset. A step that fails does not stop
// the next one.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	n := namesOf(left.Label, left.Dir)
	s := guest.Sweep{Host: host, DryRun: dryRun}
	if _, there := s.Ask(ctx, "jls", "-j", n.jail, "jid"); there {
		if addr, ok := s.Ask(ctx, "jls", "-j", n.jail, "ip4.addr"); ok && addr != "" && addr != "-" {
			list, _ := s.Ask(ctx, "ifconfig", "-a", "inet")
			if at := holder(list, addr); at != "" {
				s.Remove(ctx, "address "+addr+" of "+at, "ifconfig", at, "inet", addr, "-alias")
			}
		}
		s.Remove(ctx, "jail "+n.jail, "jail", "-r", n.jail)
	}
	if rules, ok := s.Ask(ctx, "rctl", "jail:"+n.jail); ok && rules != "" {
		s.Remove(ctx, "limits of jail "+n.jail, "rctl", "-r", "jail:"+n.jail)
	}
	if _, there := s.Ask(ctx, "ifconfig", n.outer); there {
		s.Remove(ctx, "interface "+n.outer, "ifconfig", n.outer, "destroy")
	}
	if list, ok := s.Ask(ctx, "mount", "-p"); ok {
		for _, at := range mountsBelow(list, n.dir) {
			s.Remove(ctx, "mount "+at, "umount", "-f", at)
		}
	}
	zfs.Reap(ctx, &s, zfs.FileSystem, n.jail, n.root)
	return s.Found, s.Err()
}

// mountsBelow parses `mount -p`, which prints lines as in fstab(5): device,
// mount point, type, options, numbers, with blanks as \040. The innermost
// mounts come first.
func mountsBelow(list, dir string) (out []string) {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] == "zfs" {
			continue // a dataset is unmounted with its end
		}
		at := probe.Unescape(f[1])
		if dir != "" && strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/") {
			out = append(out, at)
		}
	}
	slices.Reverse(out)
	return out
}

// holder finds the interface with an address in the output of `ifconfig -a
// inet`: lines that begin with a name, followed by its addresses.
func holder(list, addr string) (name string) {
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, " ") {
			name, _, _ = strings.Cut(line, ":")
			continue
		}
		if f := strings.Fields(line); len(f) > 1 && f[0] == "inet" && f[1] == addr {
			return name
		}
	}
	return ""
}
