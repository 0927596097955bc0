package probe

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
)

// pools reads the imported pools, their datasets and snapshots; nil is unknown.
func (m machine) pools() (map[string]installed.Pool, map[string]installed.Dataset, installed.Snapshots) {
	out, ok := m.output("zpool", "get", "-Hp", "-o", "name,property,value", "all")
	if !ok {
		if m.withoutZFS() {
			return map[string]installed.Pool{}, nil, nil
		}
		return nil, nil, nil
	}
	pools := poolsOf(out)
	for name, p := range pools {
		p.VDevs = vdevs(m.run("zpool", "list", "-HPv", "-o", "name", name))
		for _, v := range p.VDevs {
			if l := labelOf(m.run("zdb", "-l", v)); l["hostid"] != "" {
				p.Label = installed.Label{HostID: hexHostID(l["hostid"]), Hostname: l["hostname"]}
				break
			}
		}
		pools[name] = p
	}
	datasets := datasetsOf(
		m.run("zfs", "get", "-Hp", "-o", "name,property,value,source", "-t", "filesystem,volume", "all"),
	)
	snapshots := installed.Snapshots{}
	for line := range strings.Lines(m.run("zfs", "list", "-H", "-t", "snapshot", "-o", "name")) {
		snapshots = append(snapshots, strings.TrimSpace(line))
	}
	return pools, datasets, snapshots
}

// withoutZFS reports whether it is known that the module of ZFS is not loaded: no pool is imported then, and zpool
// fails.
func (m machine) withoutZFS() bool {
	if !m.netbsd() {
		modules, ok := m.names("/sys/module")
		return ok && !slices.Contains(modules, "zfs")
	}
	out, ok := m.output("modstat")
	return ok && !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 0 && f[0] == "zfs"
	})
}

// poolsOf reads zpool get -H.
func poolsOf(text string) map[string]installed.Pool {
	all := map[string]installed.Pool{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 || f[0] == "" {
			continue
		}
		p, ok := all[f[0]]
		if !ok {
			p = installed.Pool{Props: map[string]string{}, Features: map[string]string{}}
		}
		if feature, ok := strings.CutPrefix(f[1], "feature@"); ok {
			p.Features[feature] = f[2]
		} else {
			p.Props[f[1]] = f[2]
		}
		all[f[0]] = p
	}
	return all
}

// vdevs returns the devices of zpool list -HPv.
func vdevs(text string) (all []string) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 && path.IsAbs(f[0]) {
			all = append(all, f[0])
		}
	}
	return all
}

// datasetsOf reads zfs get -H.
func datasetsOf(text string) map[string]installed.Dataset {
	all := map[string]installed.Dataset{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 || f[0] == "" {
			continue
		}
		if all[f[0]] == nil {
			all[f[0]] = installed.Dataset{}
		}
		all[f[0]][f[1]] = installed.Property{Value: f[2], Source: f[3]}
	}
	return all
}

// labelLine is a line of zdb -l.
var labelLine = lazy.Compile(`(?m)^ {4}(state|name|hostid|hostname|pool_guid): '?([^'\n]*)'?$`)

// labelOf reads the first label that zdb -l prints.
func labelOf(text string) map[string]string {
	all := map[string]string{}
	for _, found := range labelLine.FindAllStringSubmatch(text, -1) {
		if all[found[1]] == "" {
			all[found[1]] = found[2]
		}
	}
	return all
}

// hexHostID writes a decimal hostid as 0x01234567.
func hexHostID(decimal string) string {
	n, err := strconv.ParseUint(decimal, 10, 32)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("0x%08x", n)
}
