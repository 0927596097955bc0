package lease

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
)

// Setting is a kernel setting of the host around the start of an engine.
type Setting struct {
	From string `json:"from"`         // before
	To   string `json:"to,omitempty"` // once the engine answered; "" if it never did
}

// sysctls is where Linux has its settings: proc_sys(5).
const sysctls = "/proc/sys"

// links has a folder for each network interface of the reader's namespace.
const links = sysctls + "/net/ipv4/conf"

// engineSettings are those of the host that container engines change, below sysctls.
// dockerd and netavark turn on forwarding, which the kernel copies to every interface
// and which changes what redirects are accepted (ip-sysctl.rst). dockerd makes bridges
// call the packet filter, and raises the limits of root's keys.
var engineSettings = []string{"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys",
	"net/bridge/bridge-nf-call-ip6tables", "net/bridge/bridge-nf-call-iptables",
	"net/ipv4/conf/all/accept_redirects", "net/ipv4/conf/all/route_localnet", "net/ipv4/ip_forward",
	"net/ipv6/conf/all/forwarding", "net/ipv6/conf/default/forwarding"}

// interfaceSetting are those of each interface.
var interfaceSetting = lazy.Compile(`^net/ipv4/conf/[^/]+/forwarding$`)

// interfaces lists the host's network interfaces, without those of environments.
func interfaces(ctx context.Context, m Machine) []string {
	all, err := m.ReadDir(ctx, links)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return name == "all" || name == "default" || strings.HasPrefix(name, "bov") || strings.HasPrefix(name, "bot")
	})
}

// readSettings reads the settings that engines change. It returns none on a system that
// has none.
func readSettings(ctx context.Context, m Machine) map[string]string {
	names := slices.Clone(engineSettings)
	for _, link := range interfaces(ctx, m) {
		names = append(names, path.Join("net/ipv4/conf", link, "forwarding"))
	}
	out := map[string]string{}
	for _, name := range names {
		if b, err := m.ReadFile(ctx, path.Join(sysctls, name)); err == nil {
			out[name] = strings.TrimSpace(string(b))
		}
	}
	return out
}

// Note records what the settings were before an engine started or, if it answers, what
// they are since.
func (l *Lease) Note(ctx context.Context, m Machine, answers bool) {
	now := readSettings(ctx, m)
	if !answers {
		l.Interfaces, l.Settings = interfaces(ctx, m), map[string]Setting{}
	}
	for name, value := range now {
		if s, ok := l.Settings[name]; ok {
			s.To = value
			l.Settings[name] = s
		} else if !answers {
			l.Settings[name] = Setting{From: value}
		}
	}
}

// Restore sets the settings back that have changed since the engine started, and lists
// the changes. It keeps one that somebody else has changed since, and those of the network
// if the host has a new interface: its user may need them. The error names these.
func (l Lease) Restore(ctx context.Context, m Machine, dryRun bool) (changes []string, err error) {
	if len(l.Settings) == 0 {
		return nil, nil
	}
	added := missing(interfaces(ctx, m), l.Interfaces)
	now := readSettings(ctx, m)
	kept := map[string]string{}
	// The kernel changes the settings of all interfaces with that of the host.
	names := slices.SortedFunc(maps.Keys(l.Settings), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	for _, name := range names {
		s, value := l.Settings[name], now[name]
		switch changed := fmt.Sprintf("%s from %s to %s", dotted(name), s.From, value); {
		case value == "" || value == s.From:
		case s.To != "" && value != s.To:
			kept[name] = changed + ", which is not from the engine"
		case len(added) > 0 && strings.HasPrefix(name, "net/"):
			kept[name] = changed + ": the network interface " + strings.Join(added, ", ") + " is new and may need it"
		default:
			changes = append(changes, "change of "+changed)
		}
	}
	if len(changes) > 0 && !dryRun {
		for _, name := range names {
			if kept[name] == "" && readSettings(ctx, m)[name] != l.Settings[name].From {
				if err := m.WriteFile(ctx, path.Join(sysctls, name), []byte(l.Settings[name].From)); err != nil {
					return changes, fault.Op("restore "+dotted(name), err)
				}
			}
		}
	}
	if len(kept) > 0 {
		text := slices.Sorted(maps.Values(kept))
		err = fault.WithFix(fault.New(fault.Lab, "bakeoff did not restore the changed %s", strings.Join(text, "; ")),
			"set it yourself with sysctl(8) if nothing needs it, then run bakeoff clean")
	}
	return changes, err
}

// missing returns what of now is missing in before.
func missing(now, before []string) []string {
	return slices.DeleteFunc(now, func(name string) bool { return slices.Contains(before, name) })
}

// dotted is the name of a setting as sysctl(8) writes it.
func dotted(name string) string { return strings.ReplaceAll(name, "/", ".") }

// checkSettings refuses settings that no engine changes.
func checkSettings(settings map[string]Setting) error {
	for name, s := range settings {
		if !slices.Contains(engineSettings, name) && !interfaceSetting.MatchString(name) || path.Clean(name) != name {
			return fmt.Errorf("setting %q is not one that bakeoff restores", name)
		}
		if s.From == "" || strings.Trim(s.From, "0123456789") != "" {
			return fmt.Errorf("setting %s: value %q is not a number", name, s.From)
		}
	}
	return nil
}
